"""A unit has one name: the map, the certificate and the lesson itself give the same title, in every language."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import quiz
from lessons.builder import lessons
from shardwise import cli, progress
from shardwise.record import Record
from shardwise.record.evidence import evidence
from shardwise.units import LESSONS, units
from translations import CourseError, language, languages, translator

DIRECTION_MARKS = dict.fromkeys((0x2066, 0x2067, 0x2068, 0x2069))
"""What the builder puts around a Latin word in an Arabic heading."""


@pytest.mark.parametrize("code", [each.code for each in languages()])
def test_a_unit_is_called_as_its_lesson_is(code: str) -> None:
    titles = {lesson.unit: lesson.title for lesson in lessons(language(code))}
    built = [unit for unit in units() if unit.open(language(code))]
    assert built
    assert {unit.id for unit in built} == set(titles) or not language(code).released
    for unit in built:
        if unit.id in titles:
            assert unit.title(translator(code)) == titles[unit.id].translate(DIRECTION_MARKS)


@pytest.mark.parametrize("code", [each.code for each in languages() if (LESSONS / each.code / "home.ipynb").exists()])
def test_the_home_page_lists_every_lesson_by_its_title_even_without_the_map(code: str) -> None:
    page = json.loads((LESSONS / code / "home.ipynb").read_text(encoding="utf-8"))
    said = "".join("".join(cell["source"]) for cell in page["cells"]).translate(DIRECTION_MARKS)
    listed = re.findall(r"^- \[(.+)\]\((.+)\.ipynb\)$", said, re.MULTILINE)
    built = [unit for unit in units() if unit.open(language(code))]
    assert listed == [(unit.title(translator(code)), unit.id) for unit in built]


def test_a_bank_that_is_there_before_its_lesson_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half a bank would be half a quiz, and a certificate of half a unit."""
    monkeypatch.setattr("shardwise.units.LESSONS", tmp_path)
    monkeypatch.setenv("SHARDWISE_DATA", str(tmp_path))
    unit = quiz.units()[-1]
    assert cli.run(["quiz", unit, "--lang", "en"]) != 0
    assert "still being written" in capsys.readouterr().err
    record = Record.open()
    with pytest.raises(CourseError) as refused:
        evidence(record, unit=unit, holder="A", language="en")
    assert refused.value.id == "shardwise.unit-not-there-yet"
    shown = progress.overview(record, language("en"))
    assert {stop.state for stop in shown.stops} == {"planned"}
    assert shown.next is None
