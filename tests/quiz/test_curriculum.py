"""One file has every objective and misconception with its items and exercises; what belongs nowhere is found."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from labs.exercises import content
from quiz import curriculum, items, lint, units
from quiz.__main__ import main
from quiz.items import BANK, misconceptions, objectives
from quiz.policy import policy

EXERCISE = "zero-1"


def test_the_file_is_in_step_and_has_no_orphan() -> None:
    assert list(curriculum.faults()) == []


def test_the_file_has_every_item_and_exercise_of_the_course() -> None:
    listed = yaml.safe_load(curriculum.FILE.read_text(encoding="utf-8"))
    assert [each["id"] for each in listed["objectives"]] == [each.id for each in objectives()]
    assert [each["id"] for each in listed["misconceptions"]] == list(misconceptions())
    asked = [id for each in listed["objectives"] for id in each["items"]]
    assert sorted(asked) == sorted(item.id for unit in units() for item in items(unit))
    practised = {id for each in listed["objectives"] for id in each["exercises"]}
    with_objectives = {each.unit for each in objectives()}
    assert practised == {id for id in content.ids() if content.written(id)["unit"] in with_objectives}


def changed(**fields: Any) -> Callable[[str], Mapping[str, Any]]:
    written = content.written

    def now(id: str) -> Mapping[str, Any]:
        return {**written(id), **(fields if id == EXERCISE else {})}

    return now


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"objectives": []}, "serves no objective of 04-zero-1"),
        ({"objectives": ["no-such"]}, "names objective 'no-such', which there is not"),
        ({"objectives": ["zero-2-bytes"]}, "which belongs to 05-zero-2"),
        ({"misconceptions": ["no-such"]}, "names misconception 'no-such', which there is not"),
        ({"objectives": ["zero-1-cost"]}, "is out of step; write it with: python -m quiz curriculum"),
    ],
)
def test_an_exercise_that_belongs_nowhere_is_found(
    fields: Mapping[str, Any], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "written", changed(**fields))
    assert any(sentence in fault for fault in curriculum.faults())


def test_a_misconception_that_no_answer_stands_for_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = "04-zero-1"
    own = {item.id for item in items(unit)}
    only = next(each["id"] for each in curriculum.curriculum()["misconceptions"] if set(each["items"]) <= own)
    rest = tuple(each for each in units() if each != unit)
    monkeypatch.setattr(curriculum, "units", lambda: rest)
    assert f"no wrong answer stands for misconception '{only}'" in list(curriculum.faults())


def test_no_answer_leads_to_a_lesson_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = policy()
    monkeypatch.setattr("quiz.curriculum.policy", lambda: replace(begun, begun=("06-zero-3",)))
    said = "misconception 'zero3-computes-with-shards' leads to 06-zero-3, whose lesson is not there yet"
    assert said in list(curriculum.faults())


def test_no_answer_leads_to_a_unit_that_there_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    first, *rest = misconceptions().values()
    known = {each.id: each for each in (replace(first, unit="04-zero"), *rest)}
    monkeypatch.setattr(curriculum, "misconceptions", lambda: known)
    assert f"misconception '{first.id}' leads to 04-zero, which there is not" in list(curriculum.faults())


def test_it_is_written_anew_by_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, write = tmp_path / "curriculum.yaml", curriculum.write
    assert any("out of step" in fault for fault in curriculum.faults(path))
    monkeypatch.setattr(curriculum, "write", lambda: write(path))
    assert main(["curriculum"]) == 0
    assert not [fault for fault in curriculum.faults(path) if "out of step" in fault]
    assert path.read_text(encoding="utf-8").startswith("# Written by")


def test_some_units_can_be_checked_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "16-stacks"]) == 0, capsys.readouterr().out
    assert "in 1 units are in order" in capsys.readouterr().out


def test_a_unit_without_a_bank_cannot_be_checked(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["check", "16-stacks", "no-such"])
    assert "there is no bank of no-such" in capsys.readouterr().err


def test_a_bank_that_cannot_be_read_is_one_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bank = shutil.copytree(BANK, tmp_path / "bank")
    (bank / "15-planning.yaml").write_text("version: 1\n", encoding="utf-8")
    monkeypatch.setattr(lint, "FOLDER", tmp_path)
    monkeypatch.setattr(sys.modules["quiz.items"], "BANK", bank)
    assert [finding.file for finding in lint.check(of=())] == ["15-planning.yaml"]
