"""Options that several of the planner's commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from typer import Option

from translations import CourseError

Json = Annotated[bool, Option("--json", help="cli-json")]
Lang = Annotated[str | None, Option("--lang", metavar="LANG", help="cli-lang")]
Printer = Callable[[Any], None]
LEAST, MOST = 1e-6, 1e18


def positive(**values: float | None) -> None:
    """Raises CourseError unless each that is given is a number above zero that somebody can mean."""
    for name, value in values.items():
        flag = name.replace("_", "-")
        if value is None:
            continue
        if not 0 < value < float("inf"):
            raise CourseError("shardwise.plan-positive", name=flag, value=value)
        if value < LEAST:
            raise CourseError("labs.option-at-least", name=flag, least="0.000001", value=value)
        if value > MOST:
            raise CourseError("labs.option-at-most", name=flag, most=round(MOST), value=value)
