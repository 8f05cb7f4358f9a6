"""The parts of an assignment: their cells in the notebook, and what each is worth.

Every assignment has the same parts in every language: a locked cell that carries the points (its nbgrader id is the
part), and the cell that the student answers in (`code-answer`, `fault-answer`, `numbers-answer`; the explanation is
both). The code, of which the course publishes a solution, decides 40 percent.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

Part = Literal["code", "fault", "numbers", "explain"]
PARTS: tuple[Part, ...] = ("code", "fault", "numbers", "explain")
POINTS: Mapping[Part, float] = MappingProxyType({"code": 8.0, "fault": 4.0, "numbers": 4.0, "explain": 4.0})
OF = sum(POINTS.values())
BY_HAND: tuple[Part, ...] = ("explain",)
"""Parts that a teacher marks."""
QUESTIONS = ("first", "second")
"""The keys of the answer to `numbers`."""


def answer_cell(part: Part) -> str:
    """The nbgrader id of the cell that a student answers in."""
    return part if part in BY_HAND else f"{part}-answer"
