"""A whole submission becomes a result: every part, a reason where there is none, and the verdict of the notebook's own
check, on every exercise.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from labs.exercises import check, exercise
from labs.exercises.content import ids
from shardwise import cli
from shardwise.classroom.grading import grade_one
from shardwise.classroom.parts import OF, POINTS
from shardwise.classroom.result import Result, read, schema
from shardwise.classroom.sandbox import Limits
from tests.shardwise.classroom.a_class import EXERCISE, OPEN, Notebook, cell, code, hand_in, made, right_answers
from tests.shardwise.classroom.test_sandbox import BARRED
from translations import CourseError, language, released

ENGLISH = language("en")
pytestmark = [
    pytest.mark.skipif(bool(BARRED), reason=BARRED),
    pytest.mark.timeout(180),
    pytest.mark.xdist_group("sandbox"),
]


def graded(
    folder: Path,
    student: str = "anna",
    *,
    assignment: str = EXERCISE,
    limits: Limits | None = None,
    sandboxed: bool = False,
) -> Result:
    """The result. Code of ours needs no sandbox, and is quicker without."""
    result = grade_one(
        folder / "submitted" / student / assignment,
        exercise_id=assignment,
        language=ENGLISH,
        seed=3,
        limits=limits,
        sandboxed=sandboxed,
        course=folder,
        student=student,
    )
    jsonschema.validate(json.loads(json.dumps(result.as_json())), schema())
    return result


def points(result: Result) -> dict[str, float | None]:
    return {part.name: part.points for part in result.parts}


def test_right_answers_earn_all_points_but_those_of_a_person(tmp_path: Path) -> None:
    course = made(tmp_path)
    hand_in(tmp_path, "anna", right_answers(course, "anna"))
    result = graded(tmp_path, sandboxed=True)
    assert points(result) == {"code": 8.0, "fault": 4.0, "numbers": 4.0, "explain": None}
    assert (result.state, result.reason, result.of, result.points) == ("graded", "", OF, 16.0)
    assert (result.course, result.student, result.assignment) == ("dst-test", "anna", EXERCISE)
    assert result.verdict.passed
    assert result.equal_to_solution
    result.write(tmp_path / "r.json")
    assert read(tmp_path / "r.json") == result


def test_the_published_solution_alone_decides_at_most_40_percent(tmp_path: Path) -> None:
    made(tmp_path)
    hand_in(tmp_path, "anna", {"code": code()})
    result = graded(tmp_path)
    assert 0 < result.points <= 0.4 * OF
    assert result.equal_to_solution


def test_what_a_neighbour_wrote_is_not_what_one_was_asked(tmp_path: Path) -> None:
    course = made(tmp_path)
    students = [f"s{number}" for number in range(6)]
    whole = POINTS["fault"] + POINTS["numbers"]
    for student in students:
        hand_in(tmp_path, student, {**right_answers(course, "anna"), "code": OPEN})
    earned = [graded(tmp_path, student) for student in students]
    assert min(sum(points(each)[name] or 0 for name in ("fault", "numbers")) for each in earned) < whole / 2


def test_a_class_may_let_the_published_solution_earn_nothing(tmp_path: Path) -> None:
    course = made(tmp_path, published_solution="no-marks")
    own = code() + "\n\n# with a remark, another layout and a text\n"
    hand_in(tmp_path, "anna", {**right_answers(course, "anna"), "code": own})
    result = graded(tmp_path)
    assert result.verdict.passed
    assert points(result)["code"] == 0.0


def test_work_in_arabic_is_answered_in_arabic_with_the_same_points(tmp_path: Path) -> None:
    course = made(tmp_path)
    answers = right_answers(course, "anna") | {"code": OPEN, "fault": 'answer = {"line": 1, "rule": "x"}'}
    found = []
    for each in released():
        shutil.rmtree(tmp_path / "submitted", ignore_errors=True)
        hand_in(tmp_path, "anna", answers, language=each.code)
        found.append(graded(tmp_path))
    assert [result.language for result in found] == [each.code for each in released()]
    assert len({json.dumps(points(result)) for result in found}) == 1
    assert len({result.verdict.message for result in found}) == len(found)


def test_answers_as_literals_are_read_and_never_run(tmp_path: Path) -> None:
    made(tmp_path)
    left = tmp_path / "left"
    hostile = f"answer = {{'line': open({str(left)!r}, 'w').write('x'), 'rule': ''}}"
    hand_in(tmp_path, "anna", {"code": OPEN, "fault": hostile, "numbers": "answer = " + "{" * 100_000})
    result = graded(tmp_path)
    assert points(result) | {"code": 0} == {"code": 0, "fault": 0.0, "numbers": 0.0, "explain": 0.0}
    assert not left.exists()


def test_a_resit_asks_for_another_fault_and_is_graded_by_its_own_name(tmp_path: Path) -> None:
    again = f"{EXERCISE}-resit"
    course = made(tmp_path, resits={again: EXERCISE})
    first, second = right_answers(course, "anna"), right_answers(course, "anna", again)
    assert first["fault"] != second["fault"]
    for answers, expected in ((first, False), (second, True)):
        hand_in(tmp_path, "anna", {**answers, "code": OPEN}, assignment=again)
        result = grade_one(
            tmp_path / "submitted/anna" / again,
            exercise_id=EXERCISE,
            language=ENGLISH,
            course=tmp_path,
            student="anna",
            assignment=again,
        )
        assert (points(result)["fault"] == 4.0) is expected
        assert (result.assignment, result.findings) == (again, ())


# --- accidents while it runs


def mismatch() -> str:
    """One rank does not take part in the collective that the others wait in."""
    whole = code(id="zero-1")
    name = exercise("zero-1").name
    return (
        whole
        + f"\n\n_all = {name}\n\ndef {name}(units):\n    import torch.distributed as dist\n"
        + ("    if dist.get_rank() != 1:\n        _all(units)\n")
    )


RUNS: dict[str, tuple[str, Callable[[], str], str]] = {
    "a dead kernel": (EXERCISE, lambda: code("stub") + "\nimport os\nos._exit(9)\n", "died"),
    "an infinite loop": (EXERCISE, lambda: code() + "\nwhile True:\n    pass\n", "time"),
    "a syntax error": (EXERCISE, lambda: code() + "\ndef (:\n", "syntax"),
    "another exercise": (EXERCISE, lambda: "%%exercise zero-2\nx = 1\n", "other-exercise"),
    "nothing written": (EXERCISE, lambda: f"%%exercise {EXERCISE}\n", "empty"),
    "too long": (EXERCISE, lambda: code() + "#" * 300_000, "too-large"),
    "a collective without one rank": ("zero-1", mismatch, "hung"),
}


@pytest.mark.parametrize("name", RUNS)
def test_code_that_does_not_end_well_has_a_reason(name: str, tmp_path: Path) -> None:
    id, written, expected = RUNS[name]
    course = made(tmp_path, exercises=(id,))
    answers = {**right_answers(course, "anna", id), "code": written()}
    hand_in(tmp_path, "anna", answers, assignment=id)
    limits = Limits(seconds=10) if expected == "time" else None
    result = graded(tmp_path, assignment=id, limits=limits, sandboxed=True)
    assert result.state == "graded"
    assert result.verdict.failed_at is not None
    assert expected in result.verdict.failed_at
    assert len(result.verdict.message) > 20
    assert points(result)["fault"] == 4.0


def deleted(notebook: Notebook) -> None:
    notebook["cells"] = [each for each in notebook["cells"] if each is not cell(notebook, "code-answer")]


def test_a_deleted_cell_of_code_has_a_reason_and_the_rest_its_points(tmp_path: Path) -> None:
    course = made(tmp_path)
    hand_in(tmp_path, "anna", right_answers(course, "anna"), change=deleted)
    result = graded(tmp_path)
    assert points(result) == {"code": 0.0, "fault": 4.0, "numbers": 4.0, "explain": None}
    assert EXERCISE in result.verdict.message
    assert [each.id for each in result.findings] == ["handed-in-cell-deleted"]


@pytest.mark.parametrize(("data", "state"), [(b"", "unreadable"), (b"{", "unreadable"), (None, "nothing")])
def test_what_cannot_be_read_has_a_reason_in_the_students_language(
    data: bytes | None, state: str, tmp_path: Path
) -> None:
    made(tmp_path)
    place = tmp_path / "submitted/anna" / EXERCISE
    place.mkdir(parents=True)
    if data is not None:
        (place / f"{EXERCISE}.ipynb").write_bytes(data)
    said = set()
    for each in released():
        result = grade_one(place, exercise_id=EXERCISE, language=each, course=tmp_path, student="anna")
        assert (result.state, result.points, len(result.parts)) == (state, 0.0, len(POINTS))
        said.add(result.reason)
    assert len(said) == len(released())


# --- one checker


def both(id: str, source: str, folder: Path, seed: int) -> None:
    """Grading, in a sandbox, finds word for word what the notebook finds. What gloo prints where a rank ends while
    others still connect, is there or not as it happens.
    """
    file = folder / f"{id}.py"
    file.write_text(source, encoding="utf-8")
    result = grade_one(file, exercise_id=id, language=ENGLISH, seed=seed)
    assert replace(result.verdict, printed="") == replace(check(id, source, ENGLISH, seed=seed), printed="")


@pytest.mark.parametrize("id", ["zero-2"])
@pytest.mark.parametrize("version", ["stub", "solution", "broken"])
def test_the_notebooks_verdict_is_gradings(id: str, version: str, tmp_path: Path) -> None:
    both(id, (exercise(id).folder / f"{version}.py").read_text(encoding="utf-8"), tmp_path, seed=11)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("id", ids())
def test_the_notebooks_verdict_is_gradings_on_every_exercise(id: str, tmp_path: Path) -> None:
    """Solution, stub, faded, broken; and the wrong answers that every exercise can be given."""
    own = exercise(id)
    solution = own.code("solution")
    wrong = {
        "returns nothing": f"{solution}\n\ndef {own.name}(*_, **__):\n    return None\n",
        "raises": f"{solution}\n\ndef {own.name}(*_, **__):\n    raise ValueError('mine')\n",
        "another name": solution.replace(own.name, "another_name"),
        "cut off": solution[: len(solution) * 2 // 3],
    }
    answers = {version: own.code(version) for version in ("solution", "stub", "faded", "broken")} | wrong
    for number, source in enumerate(answers.values()):
        both(id, source, tmp_path, seed=100 + number)


# --- the command


def test_the_command_grades_a_folder_for_a_student(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    course = made(tmp_path)
    place = hand_in(tmp_path, "anna", right_answers(course, "anna"))
    words = ["classroom", "grade-one", str(place), "--exercise", EXERCISE, "--course", str(tmp_path)]
    out = tmp_path / "result.json"
    assert cli.run(words) == 2
    assert "--student" in capsys.readouterr().err
    assert cli.run([*words, "--student", "anna", "--out", str(out), "--unsafe"]) == 0
    assert "fault: 4 / 4" in capsys.readouterr().out
    assert read(out).points == 16.0
    assert cli.run([*words[:5], "--course", str(tmp_path / "no-such"), "--student", "anna"]) == 2
    assert "class.yaml" in capsys.readouterr().err


def test_a_notebook_without_a_course_has_its_code_graded(tmp_path: Path) -> None:
    made(tmp_path)
    place = hand_in(tmp_path, "anna", {"code": code()})
    result = grade_one(place / f"{EXERCISE}.ipynb", exercise_id=EXERCISE, language=ENGLISH, sandboxed=False)
    assert points(result) == {"code": float(exercise(EXERCISE).of)}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 2}', '{"version": 1}', "[" * 100_000])
def test_a_file_that_is_no_result_is_told(text: str, tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(text, encoding="utf-8")
    with pytest.raises(CourseError) as told:
        read(tmp_path / "r.json")
    assert "r.json" in str(told.value)
