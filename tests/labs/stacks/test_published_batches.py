"""The posts' largest batches: the formula refuses the runs that did not fit, and the others agree on a sequence."""

from __future__ import annotations

import pytest

from labs.stacks.published_batches import ROOM, batches, batches_table
from translations import language


def test_what_did_not_fit_has_less_room_than_a_sequence_of_that_model_takes() -> None:
    """GPT-2 XL: with its states offloaded, the card has room for 10 sequences."""
    (offloaded,) = [each for each in batches() if each.method == "fsdp_2K_offload"]
    assert offloaded.of_sequence is not None
    refused = [each for each in batches() if each.batch is None]
    assert len(refused) == 3
    assert all(each.room < offloaded.of_sequence[0] for each in refused)
    assert all(each.room > 0 for each in batches() if each.batch is not None)


@pytest.mark.parametrize(
    ("source", "most"), [("hf_pytorch_fsdp", 1.3), ("hf_zero_fairscale", 1.6)], ids=["fsdp", "fairscale"]
)
def test_runs_of_one_model_leave_a_sequence_about_as_much(source: str, most: float) -> None:
    """DDP to offload, batches of 7 to 22: what each leaves for a sequence differs by less than the batches do."""
    own = [each for each in batches() if each.source == source and each.batch is not None and each.gpus == 2]
    middles = [sum(each.of_sequence) / 2 for each in own if each.of_sequence]
    assert max(middles) / min(middles) < most
    sizes = [each.batch for each in own if each.batch]
    assert max(sizes) / min(sizes) > 2


def test_offloaded_states_leave_the_whole_card() -> None:
    (each,) = [each for each in batches() if each.method == "fsdp_full_2K_offload"]
    assert each.of_sequence == (ROOM // 23, ROOM // 22)


def test_the_table_has_every_row() -> None:
    for code in ("en", "nl", "ar"):
        assert batches_table(language(code)).html.count("<tr") == len(batches()) + 1
