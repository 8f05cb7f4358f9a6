"""An edited item never re-marks an old answer: not its key, not its options, not a formula, not its words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quiz.exam import ExamSession, Paper, banks, begin, blueprint, draw, exam_policy, result
from tests.quiz.exam.making import SECRET, START, UNIT, answers, blueprint_file, private_bank, private_item

NUMBER = {
    "id": "own-number",
    "version": 1,
    "objective": "zero-1-bytes",
    "kind": "compute",
    "form": "number",
    "parameters": {"N": {"choose": [4, 8, 16]}},
    "let": {"P": "N * 10"},
    "text": "What are {P} GB over {N} ranks?",
    "unit": "GB",
    "tolerance": 0.01,
    "key": {
        "call": "labs.planner.zero:model_states",
        "arguments": {"parameters": "P * 10**9", "stage": 1, "ranks": "N", "precision": {"word": "bf16"}},
        "take": "total",
    },
    "ranks": "N",
    "slips": [{"key": "whole", "value": "P * 16", "feedback": "That is what one rank holds without any sharing."}],
    "feedback": "Optimizer states are divided by the number of ranks, the rest is not.",
}


def sat(folder: Path, *, wrong: int = 0) -> tuple[str, str]:
    """A paper and its sitting, as JSON in a file would be."""
    own = banks([private_bank(folder, [NUMBER, private_item("own-choice")])])
    plan = blueprint(blueprint_file(folder.parent / "plan.yaml", [{"unit": UNIT, "items": 2}]))
    session = begin(draw(plan, own, secret=SECRET, attempt="a"), now=START, minutes=30)
    for number, answer in answers(session, wrong=wrong).items():
        session = session.answer(number, answer, now=START)
    kept = json.dumps({"paper": session.paper.as_json(), "contents": dict(session.paper.contents)})
    return kept, json.dumps(session.hand_in(now=START).as_json())


def marked(paper: str, session: str) -> tuple[float, list[str], str]:
    kept = json.loads(paper)
    restored = ExamSession.of(Paper.of(kept["paper"], kept["contents"]), json.loads(session))
    found = result(restored, policy=exam_policy(), language="nl", now=START)
    return found.quiz.share, [each.key for each in found.explained], found.attempt_hash


def test_a_changed_bank_leaves_old_papers_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "bank"
    paper, session = sat(folder)
    before = marked(paper, session)
    assert before[0] == 1.0
    other = private_item("own-choice", version=2, text="Another question altogether, is it not?")
    other["options"][0].pop("correct")
    other["options"][1]["correct"] = True
    private_bank(folder, [NUMBER | {"version": 2, "key": 1, "let": {}}, other])
    assert marked(paper, session) == before
    monkeypatch.setattr("labs.planner.zero.model_states", lambda **_options: 1 / 0)
    assert marked(paper, session) == before, "the formula of the planner may change as well"
    private_bank(folder, [NUMBER | {"id": "gone"}])
    assert marked(paper, session) == before
    fresh = banks([folder])
    assert set(fresh.held) == {"gone"}


def test_an_edit_without_a_new_version_is_another_item_too(tmp_path: Path) -> None:
    first = banks([private_bank(tmp_path / "a", [private_item("x")])])
    second = banks([private_bank(tmp_path / "b", [private_item("x", text="The same question in other words?")])])
    assert first.held["x"].digest != second.held["x"].digest
    assert first.digest != second.digest


def test_practice_answers_of_an_older_version_are_kept_as_they_were_marked_and_asked_anew() -> None:
    from dataclasses import replace

    from quiz import Answered, Session
    from quiz.grading import right_answer

    kept: list[Answered] = []
    session = Session(UNIT, "en", seed="ada", on_answer=kept.append)
    session.answer(right_answer(session.variant))
    old = replace(kept[0], version=kept[0].version - 1, correct=False, credit=0.25)
    again = Session(UNIT, "en", seed="ada", resume=[old])
    assert again.answered == (), "the new version is asked"
    assert old.credit == 0.25, "and the old answer stays as it was marked"
    same = Session(UNIT, "en", seed="ada", resume=[replace(kept[0], correct=False, credit=0.25)])
    assert same.answered[0].credit == 0.25, "an answer of this version is not marked anew either"
