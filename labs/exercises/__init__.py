"""The exercises: a learner writes one small function, and one checker serves notebook, terminal and classroom.

check       the verdict on a source text or a file, in the learner's language
hint        the idea, the place, the line
exercise(s) their words, points, code and diagnosis

`check` is loaded when first asked for: the words, and verdicts, need no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labs.exercises.content import Diagnosis, Exercise, exercise, exercises, hint
from labs.exercises.verdict import Verdict

if TYPE_CHECKING:
    from labs.exercises.checking import check

__all__ = ["Diagnosis", "Exercise", "Verdict", "check", "exercise", "exercises", "hint"]


def __getattr__(name: str) -> Any:
    if name == "check":
        from labs.exercises import checking

        return checking.check
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
