"""Which interpreter runs the real stacks, and what is said where there is none."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from labs import runner
from labs.stacks import environment
from translations import CourseError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment in which nothing is installed yet; this interpreter has no real stack either."""
    monkeypatch.setattr(environment, "FOLDER", tmp_path)
    monkeypatch.setattr(environment.importlib.util, "find_spec", lambda name: None)
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_one_sentence_says_what_is_missing_and_how_to_get_it() -> None:
    with pytest.raises(CourseError, match=r"runs DeepSpeed itself, which is not installed here.*make stacks"):
        environment.needs("deepspeed")
    assert environment.missing("megatron.core").startswith("This lab runs Megatron Core itself")


def test_a_package_within_one_that_is_not_there_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "FOLDER", tmp_path)
    monkeypatch.setitem(environment.NAMES, "unheard_of.core", "Unheard-of")
    with pytest.raises(CourseError, match="Unheard-of"):
        environment.needs("unheard_of.core")


def test_an_environment_counts_when_its_installation_has_ended(folder: Path) -> None:
    (folder / "lib" / "python3.11" / "site-packages" / "deepspeed").mkdir(parents=True)
    assert environment.missing("deepspeed")
    (folder / "shardwise-stamp.json").write_text(json.dumps({"requirements-stacks.lock": "x"}))
    assert environment.needs("deepspeed") == folder / "bin" / "python"
    assert "Accelerate" in environment.missing("deepspeed", "accelerate")


@pytest.mark.usefixtures("folder")
def test_an_interpreter_that_has_them_is_used_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment.importlib.util, "find_spec", lambda name: object())
    assert environment.needs("deepspeed") == Path(sys.executable)


@pytest.mark.stacks
def test_a_rank_has_the_real_stacks_in_the_locked_versions() -> None:
    names = ("accelerate", "deepspeed", "megatron-core", "torch", "transformers")
    source = f"from importlib.metadata import version\nprint(*(version(each) for each in {names!r}))"
    said = runner.run(source, ranks=1, python=environment.needs(*environment.NAMES)).ranks[0].output
    assert said.split()[1:4] == ["0.19.8", "0.16.1", "2.13.0+cpu"]
