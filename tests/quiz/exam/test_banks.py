"""Banks of an author's own: the same schema, outside the repository; what is wrong with one is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from quiz.exam import banks, begin, blueprint, draw, exam_policy
from tests.quiz.exam.making import SECRET, START, UNIT, blueprint_file, private_bank, private_item, public
from translations import CourseError, released


def test_a_private_bank_speaks_its_own_translations(tmp_path: Path) -> None:
    folder = private_bank(tmp_path / "bank", [private_item("own")])
    words = {"own.text": "Wat verdeelt ZeRO-1?", "own.options.all.text": "Alles"}
    (folder / f"{UNIT}.nl.yaml").write_text(yaml.safe_dump(words, allow_unicode=True), encoding="utf-8")
    plan = blueprint(blueprint_file(tmp_path / "plan.yaml", [{"unit": UNIT, "items": 1}]))
    session = begin(draw(plan, banks([folder]), secret=SECRET, attempt="a"), now=START, minutes=9)
    shown = session.question(1, "nl")
    assert shown.text == "Wat verdeelt ZeRO-1?"
    assert {each.text for each in shown.offered} == {"Alles", "Optimizer states", "Nothing at all"}
    assert session.question(1, "en").text.startswith("What does ZeRO-1")


def test_public_items_bring_the_translations_of_the_moment_in_every_language() -> None:
    held = public().held["zero-1-twice-the-ranks"]
    assert set(held.content["texts"]) == {each.code for each in released() if each.code != "en"}
    from quiz import item

    live = item("zero-1-twice-the-ranks")
    for language in released():
        assert held.item.say("text", held.item.text, language) == live.say("text", live.text, language)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"objective": "tensor-split"}, "objective"),
        ({"objective": "no-such"}, "objective"),
        ({"form": "telepathy"}, "telepathy"),
        ({"options": []}, "options"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_what_is_wrong_with_an_item_is_said(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    folder = private_bank(tmp_path / "bank", [private_item("own", **changes)])
    with pytest.raises(CourseError, match=said):
        banks([folder])


def test_unknown_misconceptions_missing_folders_and_ids_met_twice_are_said(tmp_path: Path) -> None:
    wrong = private_item("own")
    wrong["options"][1]["misconception"] = "never-heard-of"
    with pytest.raises(CourseError, match="never-heard-of"):
        banks([private_bank(tmp_path / "a", [wrong])])
    with pytest.raises(CourseError, match="no bank"):
        banks([tmp_path / "nowhere"])
    with pytest.raises(CourseError, match="id own"):
        banks(
            [private_bank(tmp_path / "b", [private_item("own")]), private_bank(tmp_path / "c", [private_item("own")])]
        )
    with pytest.raises(CourseError, match="zero-1-twice-the-ranks"):
        banks([private_bank(tmp_path / "d", [private_item("zero-1-twice-the-ranks")])], public_bank=True)


def test_a_bomb_of_aliases_is_refused(tmp_path: Path) -> None:
    folder = private_bank(tmp_path / "bank", [private_item("own")])
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]" for a, b in zip("abcdefgh", "bcdefghi", strict=True)]
    (folder / f"{UNIT}.yaml").write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(CourseError, match="alias"):
        banks([folder])


def test_an_issuer_s_policy_stands_over_the_course_s(tmp_path: Path) -> None:
    own = tmp_path / "policy.yaml"
    own.write_text("version: 1\nexam: {minutes: 45, banks: [items], blueprint: plan.yaml, practical: null}\n")
    rules, course = exam_policy(own), exam_policy()
    assert (rules.minutes, rules.banks, rules.practical) == (45, (tmp_path / "items",), None)
    assert rules.blueprint == str(tmp_path / "plan.yaml")
    assert (rules.pass_mark, rules.attempts) == (course.pass_mark, course.attempts)
    assert course.public_bank is False, "nothing is issued from the public bank unless an issuer says so"
    for wrong in (
        "exam: {minuts: 4}",
        "exam: {pass_mark: 80}",
        "exam: {practical: {tasks: 9, exercises: [zero-1], kinds: [write], pass_mark: 1}}",
    ):
        own.write_text(f"version: 1\n{wrong}\n")
        with pytest.raises(CourseError):
            exam_policy(own)
    with pytest.raises(CourseError, match="no file"):
        exam_policy(tmp_path / "none.yaml")


def test_difficulty_as_it_was_measured_reaches_the_draw(tmp_path: Path) -> None:
    folder = private_bank(tmp_path / "bank", [private_item("a"), private_item("b"), private_item("c")])
    analysis = {
        "items": [{"item": "a", "version": 1, "difficulty": 0.9}, {"item": "b", "version": 1, "difficulty": None}]
    }
    (tmp_path / "analysis.json").write_text(json.dumps(analysis))
    own = tmp_path / "policy.yaml"
    own.write_text("version: 1\nexam: {measured: analysis.json, practical: null}\n")
    rules = exam_policy(own)
    assert rules.measured == {"a@1": 0.9}
    plan = blueprint(blueprint_file(tmp_path / "plan.yaml", [{"unit": UNIT, "items": 1, "band": "easy"}]))
    assert draw(plan, banks([folder]), secret=SECRET, attempt="x", measured=rules.measured).items == {"a"}
    with pytest.raises(CourseError, match="too few"):
        draw(plan, banks([folder]), secret=SECRET, attempt="x")
    for wrong in ("{}", "[]", '{"items": [{"item": "a", "version": 1, "difficulty": 7}]}', "x"):
        (tmp_path / "analysis.json").write_text(wrong)
        with pytest.raises(CourseError):
            exam_policy(own)


def test_every_exercise_that_the_course_s_exam_names_is_there() -> None:
    from labs.exercises import exercises

    practical = exam_policy().practical
    assert practical is not None
    assert set(practical.exercises) <= {each.id for each in exercises()}
