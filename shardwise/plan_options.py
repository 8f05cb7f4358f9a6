"""Options that several of the planner's commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from typer import Option

Json = Annotated[bool, Option("--json", help="cli-json")]
Lang = Annotated[str | None, Option("--lang", metavar="LANG", help="cli-lang")]
Printer = Callable[[Any], None]
