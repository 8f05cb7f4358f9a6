"""A lesson that is run once for the editions: its outputs are kept, and what fails is said in words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lessons.editions import executed as editions
from lessons.editions.executed import each_executed, executed
from translations import CourseError

UNIT = "01-one-gpu"


def course(root: Path, *sources: str, code: str = "en") -> Path:
    """A course of one lesson with these cells."""
    folder = root / "lessons" / code
    folder.mkdir(parents=True, exist_ok=True)
    cells: list[dict[str, object]] = [
        {
            "cell_type": "code",
            "id": f"cell-{n}",
            "metadata": {},
            "source": source,
            "outputs": [],
            "execution_count": None,
        }
        for n, source in enumerate(sources)
    ]
    kernel = {"name": "shardwise", "display_name": "Shardwise", "language": "python"}
    notebook = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    (folder / f"{UNIT}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    return root


@pytest.mark.timeout(120)
def test_it_runs_once_and_names_no_folder_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = course(
        tmp_path, "import os", "print(os.environ['SHARDWISE_HOME'], os.getcwd(), os.environ['SHARDWISE_LANG'])"
    )
    told: list[float] = []
    kept = tmp_path / "cache"
    ran = executed("en", UNIT, cache=kept, root=root, progress=lambda _code, _unit, share: told.append(share))
    assert ran.cells[1].outputs[0].text == "~/home ~ en\n"
    assert told[-1] == 1.0

    def never(*_: object, **__: object) -> None:
        raise AssertionError("it ran again")

    monkeypatch.setattr(editions, "_run", never)
    assert executed("en", UNIT, cache=kept, root=root) == ran
    (root / "translations" / "en").mkdir(parents=True)
    (root / "translations" / "en" / "language.yaml").write_text("changed")
    with pytest.raises(AssertionError, match="it ran again"):
        executed("en", UNIT, cache=kept, root=root)


@pytest.mark.timeout(120)
def test_a_cell_that_fails_is_named_and_nothing_is_kept(tmp_path: Path) -> None:
    root = course(tmp_path, "a = 1", "a / 0", "print('never')")
    with pytest.raises(CourseError) as raised:
        list(each_executed([("en", UNIT)], cache=tmp_path / "cache", root=root))
    assert str(raised.value) == f"Lesson {UNIT} (en) stops at its cell cell-1: ZeroDivisionError: division by zero"
    assert not list((tmp_path / "cache").glob("*"))


@pytest.mark.timeout(120)
def test_a_cell_that_never_ends_is_stopped(tmp_path: Path) -> None:
    root = course(tmp_path, "import time", "while True: time.sleep(0.1)")
    with pytest.raises(CourseError, match="in the 4 seconds that it may take"):
        executed("en", UNIT, cache=tmp_path / "cache", root=root, seconds=4)


def test_a_lesson_that_is_not_built_is_said(tmp_path: Path) -> None:
    with pytest.raises(CourseError, match="There is no built lesson 99-none in the language en"):
        executed("en", "99-none", cache=tmp_path, root=tmp_path)
