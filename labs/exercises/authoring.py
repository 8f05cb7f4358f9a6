"""What an author is told: stubs are unwritten, faded code fails, solutions pass, broken code fails as planned."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import yaml

from labs.exercises.checking import check
from labs.exercises.content import VERSIONS, Exercise, exercise, ids, schema, written
from labs.exercises.faults import bare, faults
from labs.exercises.faults import schema as fault_schema
from labs.exercises.faults import written as written_faults
from labs.runner import shut_down
from translations import CourseError
from translations.wording import ROOT, messages

OF_RUNS = frozenset({"raised", "died", "hung", "mismatch"})
"""Failures that the runner finds; an exercise may add a text of its own for them."""
PATIENCE = 6.0


def complaints(id: str) -> Iterator[str]:
    """One sentence for each thing that is wrong with an exercise; none where all holds."""
    try:
        found = sorted(jsonschema.Draft202012Validator(schema()).iter_errors(written(id)), key=str)
    except (OSError, yaml.YAMLError) as error:
        yield f"{id}: exercise.yaml cannot be read: {error}"
        return
    if found:
        for problem in found:
            place = ".".join(str(part) for part in problem.absolute_path) or "the file"
            yield f"{id}: in exercise.yaml, {place}: {problem.message}"
        return
    own = exercise(id)
    yield from words(own)
    if missing := [name for name in (*VERSIONS, "check") if not (own.folder / f"{name}.py").is_file()]:
        yield f"{id}: {', '.join(missing)} is missing."
        return
    yield from runs(own)
    yield from faulty(own)


def words(own: Exercise) -> Iterator[str]:
    """Texts that nothing asks for, failures without text, and answers that are no option."""
    written_in_check = strings(own.folder / "check.py")
    general = {key.removeprefix("check-") for key in messages(ROOT / "labs") if key.startswith("check-")}
    for id in (*own.failures, *own.remarks):
        if id not in written_in_check | OF_RUNS | general:
            yield f"{own.id}: the text '{id}' is never told; check.py does not name it."
    for id in ids_of_failures(own.folder / "check.py"):
        if id not in {*own.failures, *own.remarks} | general:
            yield f"{own.id}: check.py can find '{id}', but no text says what it means."
    if f"NotImplementedError({own.unwritten!r})".replace("'", '"') not in (own.folder / "stub.py").read_text("utf-8"):
        yield f"{own.id}: the stub must raise NotImplementedError with the text of 'unwritten'."
    for part in own.diagnosis.parts:
        if part.answer not in {option.key for option in part.options}:
            yield f"{own.id}: the answer '{part.answer}' of the diagnosis is none of its options."


def runs(own: Exercise) -> Iterator[str]:
    """What becomes of the four versions when they are checked."""
    expected = {"stub": "file/unwritten", "solution": None, "broken": own.broken}
    for version in VERSIONS:
        verdict = check(own.id, own.folder / f"{version}.py", patience=PATIENCE)
        if version == "faded":
            if verdict.passed or verdict.failed_at == "file/unwritten":
                yield f"{own.id}: the faded code must fail at one of its gaps; it is {verdict.failed_at or 'right'}."
        elif verdict.failed_at != expected[version]:
            wanted = expected[version] or "pass"
            yield f"{own.id}: the {version} must {wanted}, but it is {verdict.failed_at or 'right'}. {verdict.message}"


def faulty(own: Exercise) -> Iterator[str]:
    """What is wrong with its assignment: a fault without a rule, one that the check does not find where it says, or a
    program that cannot be told apart from the solution.
    """
    try:
        told = written_faults(own.id)
        problems = sorted(jsonschema.Draft202012Validator(fault_schema()).iter_errors(told), key=str)
    except (OSError, yaml.YAMLError, CourseError) as error:
        yield f"{own.id}: {error}"
        return
    for problem in problems:
        place = ".".join(str(part) for part in problem.absolute_path) or "the file"
        yield f"{own.id}: in assignment.yaml, {place}: {problem.message}"
    if problems:
        return
    try:
        made = faults(own.id)
    except ValueError as error:
        yield str(error)
        return
    if len({each.program for each in made}) < len(made) or len({each.id for each in made}) < len(made):
        yield f"{own.id}: two faults are the same."
    solution = check(own.id, bare(own.code("solution")), patience=PATIENCE)
    if not solution.passed:
        yield f"{own.id}: the solution without comments is {solution.failed_at}."
    for each in made:
        if each.rule not in told["rules"]:
            yield f"{own.id}: fault {each.id}: there is no rule '{each.rule}'."
        if not each.lines:
            yield f"{own.id}: fault {each.id}: no line of its program differs from the solution's."
        verdict = check(own.id, each.program, patience=PATIENCE)
        if verdict.failed_at != each.fails:
            yield f"{own.id}: fault {each.id} must be {each.fails}, but it is {verdict.failed_at or 'right'}."


def strings(path: Path) -> frozenset[str]:
    """Every text constant in a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return (
        frozenset(
            node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        )
        | frozenset(f"kept-{word}" for word in ("forward", "backward", "bucket"))
        | frozenset(
            f"{name}-{moment}" for name in ("not-gathered", "wrong-values") for moment in ("forward", "backward")
        )
    )


def ids_of_failures(path: Path) -> Iterator[str]:
    """The ids that `Failure(id="...")` and `Found(group, "...")` name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Failure", "Found"):
            given = [word.value for word in node.keywords if word.arg == "id"] + node.args[1:2]
            yield from (each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str))


def main(arguments: list[str]) -> int:
    """`python -m labs.exercises check [ID ...]`: 0 where all exercises hold, 1 where one does not, 2 for wrong use."""
    if not arguments or arguments[0] != "check":
        print("Use: python -m labs.exercises check [EXERCISE ...]")
        return 2
    asked = arguments[1:] or list(ids())
    if unknown := [id for id in asked if id not in ids()]:
        print(f"There is no exercise {', '.join(unknown)}; there are {', '.join(ids())}.")
        return 2
    wrong = 0
    for id in asked:
        found = list(complaints(id))
        wrong += bool(found)
        for sentence in found:
            print(sentence, flush=True)
        if not found:
            print(f"{id}: stub unwritten, faded code fails, solution passes, broken code fails as planned.", flush=True)
    shut_down()
    print(f"{wrong} of {len(asked)} exercises need work." if wrong else f"All {len(asked)} exercises hold.")
    return 1 if wrong else 0
