"""What every rank of a check runs: the exercise's `work` on the student's file.

A torchrun script; its arguments are exercise, file, number of the case, and seed.
"""

from __future__ import annotations

import importlib
import os
import runpy
import sys
from typing import Any, cast

from labs.exercises import confined
from labs.exercises.trial import Check, Found, Student
from labs.runner import rank as this


def main(exercise: str, file: str, case_number: int, seed: int) -> None:
    check = cast("Check", importlib.import_module(f"labs.exercises.{exercise.replace('-', '_')}.check"))
    case = check.CASES[case_number]
    try:
        if case.communicates:
            with this.group() as group:
                work(check, file, case_number, seed, group)
        else:
            work(check, file, case_number, seed, None)
    except SystemExit:
        raise Found("file", "exit") from None


def work(check: Check, file: str, case_number: int, seed: int, group: Any) -> None:
    if confined.VARIABLE in os.environ:
        confined.confine()
    student = Student(runpy.run_path(file, run_name="student"))
    done = check.work(student, check.CASES[case_number], seed, group)
    this.report(done.value, done.tensors)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
