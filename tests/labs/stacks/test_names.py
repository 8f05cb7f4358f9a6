"""The table of names: complete, and every name of what is installed is there under that name."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
import torch.distributed.checkpoint.state_dict
from torch.distributed import fsdp
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import wrap

from labs.planner.deepspeed_config import known
from labs.stacks.environment import FOLDER
from labs.stacks.names import Idea, history, history_table, ideas, libraries, names_table
from translations import language, translator


def names_of(library: str) -> list[str]:
    return [name for idea in ideas() for name in idea.names[library]]


def test_every_idea_has_a_word_and_a_place_in_every_library() -> None:
    text = translator("en")
    for idea in ideas():
        assert text(f"labs.names-{idea.id}")
        assert set(idea.names) == {each.id for each in libraries()}
        assert sum(bool(own) for own in idea.names.values()) >= 3, idea
    dates = [each.date for each in history()]
    assert dates == sorted(dates)


def test_tables_have_every_row() -> None:
    for code in ("en", "nl", "ar"):
        assert names_table(language(code)).html.count("<tr") == len(ideas()) + 1
        assert history_table(language(code)).html.count("<tr") == len(history()) + 1


@pytest.mark.parametrize("library", ["fsdp1", "fsdp2"])
def test_names_of_pytorch_exist(library: str) -> None:
    places = [fsdp, wrap, fsdp.FSDPModule, fsdp.FullyShardedDataParallel, torch.distributed.checkpoint.state_dict]
    calls = (fsdp.fully_shard, fsdp.FullyShardedDataParallel.__init__)
    arguments = {name for call in calls for name in inspect.signature(call).parameters}
    for name in names_of(library):
        plain = name.split("=")[0]
        if plain in arguments or plain == DeviceMesh.__name__:
            continue
        first, _, rest = plain.partition(".")
        found = next((getattr(place, first) for place in places if hasattr(place, first)), None)
        assert found is not None, name
        assert not rest or hasattr(found, rest), name


def test_names_of_deepspeed_are_keys_that_it_reads() -> None:
    def keys(found: dict[str, Any]) -> set[str]:
        return set(found) | {key for each in found.values() for key in keys(each.get("keys", {}))}

    read = keys(known()["keys"])
    for name in names_of("deepspeed"):
        assert name == "save_checkpoint" or name.split(":")[0] in read, name


@pytest.mark.stacks
def test_names_of_megatron_stand_in_its_source() -> None:
    folder = next(Path(FOLDER).glob("lib/python*/site-packages/megatron/core"))
    source = "".join(path.read_text() for path in folder.rglob("*.py"))
    for name in names_of("megatron"):
        for word in name.split(": "):
            assert word in source, name


def test_an_idea_without_a_name_says_so() -> None:
    idea: Idea = next(each for each in ideas() if not each.names["fairscale"])
    assert idea.id == "hybrid"
    assert "none" in names_table(language("en")).html
