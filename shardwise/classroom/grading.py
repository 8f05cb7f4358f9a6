"""One submission in, one result out: the exercise's own check, in a sandbox, with inputs made after the code is fixed.

The same function serves a teacher's batch, an exam's practical part, a Slurm array and a Kubernetes Job.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from labs.exercises import Verdict, check, exercise
from labs.exercises.checking import Execute, on_this_machine
from labs.exercises.reading import source_of
from shardwise.classroom.sandbox import Broken, Limits, sandbox
from translations import Language, translator

SEEDS = 2**31


@dataclass(frozen=True, kw_only=True)
class Result:
    """What grading one submission found. With the same source and seed another run finds the same.

    `sandboxed` is False only where a teacher asked for it.
    """

    exercise: str
    language: str
    sha256: str
    seed: int
    sandboxed: bool
    verdict: Verdict
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """The content of `result.json`."""
        return {"version": 1, **asdict(self), "verdict": {**self.verdict.as_dict(), "printed": self.verdict.printed}}

    def write(self, path: Path) -> None:
        """As JSON, in one piece: a reader never finds half of it."""
        part = path.with_name(path.name + ".part")
        part.write_text(json.dumps(self.as_json(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        part.replace(path)


def grade_one(
    submission: Path,
    *,
    exercise_id: str,
    language: Language,
    seed: int | None = None,
    limits: Limits | None = None,
    sandboxed: bool = True,
) -> Result:
    """The result of one submitted file. Raises CourseError where there is no such exercise or file, or no sandbox."""
    source = source_of(submission)
    seed = secrets.randbelow(SEEDS) if seed is None else seed
    begun = time.monotonic()
    if sandboxed:
        with sandbox(limits) as box:
            verdict = _verdict(source, exercise_id, language, seed, box.execute)
    else:
        verdict = _verdict(source, exercise_id, language, seed, on_this_machine)
    return Result(
        exercise=exercise_id,
        language=language.code,
        sha256=hashlib.sha256(submission.read_bytes()).hexdigest(),
        seed=seed,
        sandboxed=sandboxed,
        verdict=verdict,
        seconds=round(time.monotonic() - begun, 3),
    )


def _verdict(source: str, id: str, language: Language, seed: int, execute: Execute) -> Verdict:
    try:
        return check(id, source, language, seed=seed, execute=execute)
    except Broken as error:
        own, said = exercise(id, language), error.in_language(translator(language))
        return Verdict(
            passed=False, points=0, of=own.of, failed_at=f"sandbox/{error.limit}", message=said, finding=said, rank=None
        )
