"""Runs a student's file on ranks, compares what came out, and says the first thing that is wrong as a tutor would."""

from __future__ import annotations

import contextlib
import importlib
import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from labs.exercises import reading
from labs.exercises.content import Exercise, exercise
from labs.exercises.trial import Case, Check, Failure, Result
from labs.exercises.verdict import Verdict
from labs.runner import RankFailed, Run, run
from translations import SOURCE, CourseError, Language, Translator, translator
from translations.formats import isolate_latin
from translations.wording import fill

__all__ = ["Execute", "Verdict", "check", "on_this_machine"]

_TRACEBACK = "Traceback (most recent call last):"
SCRIPT = Path(__file__).parent / "in_rank.py"
TIMEOUT = 25.0
"""Seconds for one case; a right solution takes less than one."""
PATIENCE = 12.0
"""Seconds that a rank may wait in one operation."""
NAMED = ("died", "hung", "mismatch")
"""Failures of a run in which the runner's own message names the rank."""
NO_RESULT = ("labs.report-broken", "labs.report-too-large", "labs.runner-ended")
"""What the runner raises where a rank left something else than a result, or ended or stopped what leads the ranks."""
FORGED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RuntimeError)
"""What comparing raises on a result that no `work` of ours left: the file replaced the report."""
ERROR = 400
"""Characters of an error's text that are told."""
PRINTED = 4_000
"""Characters of what the ranks printed that a verdict keeps."""


class Execute(Protocol):
    """Runs one case of an exercise's check on ranks, and raises as `labs.runner.run` does."""

    def __call__(
        self, exercise: str, file: Path, number: int, *, ranks: int, seed: int, timeout: float, patience: float
    ) -> Run: ...


def on_this_machine(
    exercise: str, file: Path, number: int, *, ranks: int, seed: int, timeout: float, patience: float
) -> Run:
    """The case on ranks that may do whatever the learner may do: what notebook and terminal do with one's own code."""
    return run(
        SCRIPT,
        ranks=ranks,
        arguments=[exercise, str(file), str(number), str(seed)],
        timeout=timeout,
        patience=patience,
    )


def check(
    id: str,
    source: str | Path,
    language: Language | str = SOURCE,
    *,
    seed: int = 0,
    timeout: float = TIMEOUT,
    patience: float = PATIENCE,
    execute: Execute = on_this_machine,
) -> Verdict:
    """The verdict on a source text, or on the file at a Path.

    The inputs depend on the seed only, so the same file gets the same verdict. `execute` runs the cases: grading hands
    in a sandbox. Raises CourseError where there is no such exercise or file.
    """
    own = exercise(id, language)
    text = translator(language)
    given = reading.source_of(source)
    try:
        python = reading.prepared(given, own)
    except CourseError as error:
        problem = error.id.removeprefix("labs.check-")
        return _verdict(own, text, Failure(group="file", id=problem), error.in_language(text), None, "")
    with tempfile.TemporaryDirectory(prefix="shardwise-check-", ignore_cleanup_errors=True) as folder:
        file = Path(folder) / f"{id}.py"
        file.write_text(python, encoding="utf-8", errors="surrogateescape")
        return _run(own, text, file, seed, timeout, patience, execute)


def _run(
    own: Exercise, text: Translator, file: Path, seed: int, timeout: float, patience: float, execute: Execute
) -> Verdict:
    module = cast("Check", importlib.import_module(f"labs.exercises.{own.folder.name}.check"))
    remarks: list[Failure] = []
    printed = ""
    for number, case in enumerate(module.CASES):
        try:
            ended = execute(own.id, file, number, ranks=case.ranks, seed=seed, timeout=timeout, patience=patience)
        except RankFailed as error:
            printed = printed or _printed(error.outputs)
            failure, said = _not_ended(own, text, case, error, file, timeout)
            return _verdict(own, text, failure, said, case, printed, told_by_rank=True)
        except CourseError as error:
            if error.id not in NO_RESULT:
                raise
            return _verdict(own, text, _no_result(own, case, None), text("labs.check-no-result"), case, printed)
        printed = printed or _printed([each.output for each in ended.ranks])
        results = _results(ended)
        missing = next((r.rank for r in results if r.value is None), None)
        if missing is not None or len(results) != case.ranks:
            return _verdict(own, text, _no_result(own, case, missing), text("labs.check-no-result"), case, printed)
        try:
            failures = [_counted(each, case, own) for each in module.compare(case, seed, results)]
            remarks = remarks or ([] if failures else list(module.remarks(case, seed, results)))
        except FORGED:
            return _verdict(own, text, _no_result(own, case, None), text("labs.check-no-result"), case, printed)
        if failures:
            first = min(failures, key=lambda each: _place(own, each.group))
            alike = {each.rank for each in failures if each.id == first.id} == set(range(case.ranks))
            return _verdict(own, text, first, _say(own, text, first), case, printed, every=alike)
    noticed = [_say(own, text, remark) for remark in remarks]
    return Verdict(
        passed=True,
        points=own.of,
        of=own.of,
        failed_at=None,
        message="\n\n".join([text("labs.check-passed", points=own.of, of=own.of), *noticed]),
        finding="\n\n".join(noticed),
        rank=None,
        printed=printed,
    )


def _results(ended: Run) -> list[Result]:
    """Each rank's JSON and tensors; the value None where it left none that can be read."""
    results = []
    for each in ended.ranks:
        try:
            results.append(Result(rank=each.rank, value=each.value, tensors=each.tensors()))
        except (OSError, ValueError, CourseError, RuntimeError):
            results.append(Result(rank=each.rank, value=None, tensors={}))
    return results


def _printed(outputs: Sequence[str]) -> str:
    """What the ranks printed before any of them failed, each line headed by its rank."""
    lines = [
        f"[{rank}] {line}"
        for rank, output in enumerate(outputs)
        for line in output.partition(_TRACEBACK)[0].splitlines()
    ]
    return "\n".join(lines)[:PRINTED]


def _no_result(own: Exercise, case: Case, rank: int | None) -> Failure:
    return _counted(Failure(group="file", id="no-result", rank=rank), case, own)


def _counted(failure: Failure, case: Case, own: Exercise) -> Failure:
    """The failure in the group of points for which this case counts."""
    group = case.group or (failure.group if failure.group in own.points else next(iter(own.points)))
    return Failure(group=group, id=failure.id, rank=failure.rank, values=failure.values)


def _place(own: Exercise, group: str) -> int:
    groups = list(own.points)
    return groups.index(group) if group in groups else -1


def _say(own: Exercise, text: Translator, failure: Failure) -> str:
    """The failure's own text in the exercise, else the checker's general one."""
    pattern = own.failures.get(failure.id) or own.remarks.get(failure.id)
    if pattern is None:
        return text(f"labs.check-{failure.id}", **failure.values)
    return fill(pattern, _values(text, failure.values))


def _values(text: Translator, values: Mapping[str, object]) -> Mapping[str, object]:
    if text.language.direction != "rtl":
        return values
    return {key: isolate_latin(str(value)) for key, value in values.items()}


def _verdict(
    own: Exercise,
    text: Translator,
    failure: Failure,
    said: str,
    case: Case | None,
    printed: str,
    *,
    every: bool = False,
    told_by_rank: bool = False,
) -> Verdict:
    """The verdict on a file that fails. `every`: the other ranks fail in the same way.

    What a rank tells may be forged, so it earns nothing: then only earlier cases count.
    """
    group = failure.group
    if told_by_rank:
        group = case.group if case and case.group else ""
    points = sum(list(own.points.values())[: max(0, _place(own, group))])
    finding = said
    if failure.rank is not None and failure.id not in NAMED and case is not None and case.communicates:
        where = "labs.check-at-every-rank" if every else "labs.check-at-rank"
        finding = f"{text(where, rank=failure.rank, last=case.ranks - 1)} {said}"
    return Verdict(
        passed=False,
        points=points,
        of=own.of,
        failed_at=f"{failure.group}/{failure.id}",
        message="\n\n".join([finding, text("labs.check-points", points=points, of=own.of)]),
        finding=finding,
        rank=failure.rank,
        printed=printed,
    )


# --- runs that did not end


def _not_ended(
    own: Exercise, text: Translator, case: Case, error: RankFailed, file: Path, timeout: float
) -> tuple[Failure, str]:
    """What a run that failed means for the student. The runner's own message names the rank already."""
    group = case.group or next(iter(own.points))
    if found := _found(error.full_traceback, rank=error.rank):
        with contextlib.suppress(KeyError):
            said = _say(own, text, found)
            return (found if found.group == "file" else _counted(found, case, own)), said
    frames, last = _frames(error.full_traceback, file)
    if error.kind == "raised":
        if last.startswith("NotImplementedError"):
            return Failure(group="file", id="unwritten"), own.unwritten
        if frames:
            said = text("labs.check-raised", line=frames[-1].line, function=frames[-1].function, error=last)
        else:
            said = text("labs.check-raised-after", error=last)
    elif error.id == "labs.run-too-long":
        said = text("labs.check-loop", seconds=round(timeout))
    else:
        said = error.message(text).replace(str(file), file.name)
    paragraphs = [said]
    if error.kind in ("hung", "mismatch") and error.rank_traceback.startswith("rank "):
        paragraphs.append(error.rank_traceback.replace(str(file), file.name).rstrip())
    elif frames and frames[-1].code:
        paragraphs.append(f"    {frames[-1].line}: {frames[-1].code}")
    if error.kind in own.failures:
        paragraphs.append(own.failures[error.kind])
    return Failure(group=group, id=error.kind, rank=error.rank), "\n\n".join(paragraphs)


def _found(told: str, *, rank: int) -> Failure | None:
    """The Failure that a rank raised, out of its traceback. It may be the student's own making."""
    match = re.search(r"^labs\.exercises\.trial\.Found: (\{.*\})", told, re.MULTILINE)
    try:
        found = json.loads(match[1]) if match else {}
        return Failure(
            group=str(found["group"]),
            id=str(found["id"]),
            rank=rank,
            values={str(k): v for k, v in dict(found["values"]).items()},
        )
    except (ValueError, LookupError, TypeError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """One frame of a traceback."""

    line: int
    function: str
    code: str


def _frames(told: str, file: Path) -> tuple[list[_Frame], str]:
    """The frames in the student's file, and the error's own line."""
    frames = [
        _Frame(line=int(match[2]), function=match[3], code=(match[4] or "").strip())
        for match in re.finditer(r'File "([^"]+)", line (\d+), in (.+)(?:\n    +(.+))?', told)
        if Path(match[1]).name == file.name
    ]
    own = [line for line in told.splitlines() if line and not line.startswith((" ", "Traceback"))]
    return frames, own[-1][:ERROR] if own else ""
