"""What is a student's own: the same every time, another's is of no use, and an answer is read but never run."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs.exercises.content import ids
from labs.exercises.faults import faults, task
from quiz.grading import right_answer
from shardwise.classroom import own as ours
from shardwise.classroom.course import Assignment
from shardwise.classroom.own import Own
from shardwise.classroom.parts import OF, POINTS, QUESTIONS
from translations import CourseError, Language, languages, translator

LANGUAGES = [each for each in languages() if each.released]
CLASS = [f"student-{number}" for number in range(120)]
ASSIGNMENT = Assignment(id="zero-1", exercise="zero-1")


def owner(student: str = "maria", exercise: str = "zero-1", course: str = "ds-2026") -> Own:
    return Own(course=course, assignment=Assignment(id=exercise, exercise=exercise), student=student)


def answer(own: Own) -> str:
    return f'%%answer fault\n# words\n{{"line": {min(own.fault.lines)}, "rule": "{own.fault.rule}"}}'


def numbers(own: Own) -> str:
    given = {key: right_answer(each) for key, each in zip(QUESTIONS, own.numbers, strict=True)}
    return f"%%answer numbers\n{given!r}"


def test_the_published_solution_decides_at_most_forty_percent() -> None:
    assert POINTS["code"] / OF <= 0.4


def test_what_is_own_does_not_change() -> None:
    """Fixed for ever: a course that is updated in mid-term must not give a student another program."""
    own = owner()
    assert own == owner()
    assert (own.draw("fault", 1000), own.draw("item-0", 1000)) == (284, 229)
    assert owner().numbers == owner().numbers
    assert owner().fault == owner().fault


@pytest.mark.parametrize("id", ids())
def test_a_class_gets_every_fault_and_many_numbers(id: str) -> None:
    found = Counter(owner(student, id).fault.id for student in CLASS)
    assert {*found} == {each.id for each in faults(id)}
    assert max(found.values()) < len(CLASS) / 2
    drawn = {tuple((each.id, *sorted(each.values.items())) for each in owner(student, id).numbers) for student in CLASS}
    assert len(drawn) > 12
    for student in CLASS[:10]:
        first, second = owner(student, id).numbers
        assert first.id != second.id
        assert {first.item.unit, second.item.unit} == {task(id).unit}


def test_another_course_or_assignment_gives_others() -> None:
    this = [owner(student).fault.id for student in CLASS]
    assert this != [owner(student, course="ds-2027").fault.id for student in CLASS]
    assert this != [
        Own(course="ds-2026", assignment=replace(ASSIGNMENT, id="again"), student=each).fault.id for each in CLASS
    ]


@pytest.mark.parametrize("id", ids())
def test_a_resit_has_another_fault_than_the_first_time(id: str) -> None:
    again = Assignment(id=f"{id}-resit", exercise=id, resit_of=id)
    seen = set()
    for student in CLASS:
        second = Own(course="ds-2026", assignment=again, student=student).fault
        assert second.id != owner(student, id).fault.id
        seen.add(second.id)
    assert seen == {each.id for each in faults(id)}


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda each: each.code)
def test_right_answers_earn_all_points_in_every_language(language: Language) -> None:
    for id in ids():
        own = owner("ali", id)
        fault, drawn = ours.grade_fault(own, answer(own), language), ours.grade_numbers(own, numbers(own), language)
        assert (fault.points, fault.right) == (POINTS["fault"], {"line": True, "rule": True})
        assert (drawn.points, set(drawn.right.values())) == (POINTS["numbers"], {True}), drawn.feedback


def test_half_an_answer_earns_half() -> None:
    own = owner()
    english = LANGUAGES[0]
    line = min(own.fault.lines)
    other = next(each for each in task("zero-1").rules if each != own.fault.rule)
    wrong_rule = ours.grade_fault(own, f'{{"line": {line}, "rule": "{other}"}}', english)
    assert wrong_rule.points == 2
    assert wrong_rule.right == {"line": True, "rule": False}
    assert task("zero-1").rules[own.fault.rule] in wrong_rule.feedback[1]
    far = ours.grade_fault(own, f'{{"line": 1, "rule": "{own.fault.rule}"}}', english)
    assert far.right == {"line": False, "rule": True}
    one = ours.grade_numbers(own, f'{{"first": {right_answer(own.numbers[0])!r}, "second": ""}}', english)
    assert (one.points, one.right) == (2, {"first": True, "second": False})


def test_a_neighbours_answers_are_no_answers() -> None:
    """Over a class: who copies both parts of another student gets less than a third of the points for them."""
    english, earned = LANGUAGES[0], 0.0
    for student, neighbour in pairwise(CLASS[:41]):
        own, other = owner(student), owner(neighbour)
        earned += ours.grade_fault(own, answer(other), english).points
        earned += ours.grade_numbers(own, numbers(other), english).points
    assert earned < 0.33 * 40 * (POINTS["fault"] + POINTS["numbers"])


@pytest.mark.parametrize("cell", ['%%answer fault\n# w\n{\n    "line": 0,\n    "rule": "",\n}', '{"rule": ""}', "{}"])
def test_a_cell_as_it_was_given_out_is_not_answered(cell: str) -> None:
    marked = ours.grade_fault(owner(), cell, LANGUAGES[0])
    assert (marked.points, marked.answered) == (0, False)
    marked = ours.grade_numbers(owner(), cell, LANGUAGES[0])
    assert (marked.points, marked.answered) == (0, False)


HOSTILE = [
    "{'line': __import__('os').system('touch WITNESS'), 'rule': 'mean'}",
    "{'line': (lambda: open('WITNESS', 'w'))(), 'rule': ''}",
    "open('WITNESS', 'w')\n{'line': 9, 'rule': 'mean'}[0]",
    "{'line': 10 ** 10 ** 10, 'rule': 'mean'}",
    "{'line': f'{open(\"WITNESS\", \"w\")}', 'rule': 'mean'}",
    "{'line': 9, 'rule': 'mean'}\n{'line': 9, 'rule': 'mean'}",
    "(" * 3000,
    "{" * 3000,
    "{'a': " * 600 + "1" + "}" * 600,
    "9" * 3999,
    "x" * 5000,
    "\x00",
    "\ud800",
    "",
    "import os",
    "{**{'line': 9}}",
    "{[]: 1}",
    "{'line': [9], 'rule': {}}",
    "{'line': -1, 'rule': 'mean'}",
    "{'line': True, 'rule': 'mean'}",
    "{'line': 1e999, 'rule': 'mean'}",
    "{'line': 9, 'rule': 'no-such-rule'}",
    "{'first': [1], 'second': None}",
    "{'first': True, 'second': 'x' * 9}",
]


@pytest.mark.parametrize("cell", HOSTILE, ids=range(len(HOSTILE)))
def test_an_answer_is_read_and_never_run(cell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for language in LANGUAGES:
        for grade in (ours.grade_fault, ours.grade_numbers):
            marked = grade(owner(), cell, language)
            assert marked.points == 0
            assert all(marked.feedback)
    assert not list(tmp_path.iterdir())


@given(st.text(max_size=200))
def test_any_text_is_graded(cell: str) -> None:
    assert ours.grade_fault(owner(), cell, LANGUAGES[0]).points == 0
    assert 0 <= ours.grade_numbers(owner(), f"{{'first': {cell!r}, 'second': ''}}", LANGUAGES[0]).points <= 2


@pytest.mark.parametrize("line", ["9", "'9'", "'٩'", "'  9 '"])
def test_a_line_may_be_written_as_people_write_numbers(line: str) -> None:
    assert ours.fault_answer(f"{{'line': {line}, 'rule': ' mean '}}", owner()) == (9, "mean")


def test_what_is_wrong_with_an_answer_is_told() -> None:
    own = owner()
    with pytest.raises(CourseError, match="owner, mean"):
        ours.fault_answer('{"line": 9, "rule": "men"}', own)
    told = ours.grade_numbers(own, '{"first": "many", "second": "3 bananas"}', LANGUAGES[0]).feedback
    assert "Question 1: not right" in told[0]
    assert "bananas" in told[1]
    for language in LANGUAGES:
        with pytest.raises(CourseError) as raised:
            ours.read_answer("print(1)")
        assert raised.value.in_language(translator(language))
