"""Tables in the terminal, also where it sets right-to-left text: every cell keeps its own direction, and the columns
stay where they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from translations import Language

OPEN, CLOSE = "\N{FIRST STRONG ISOLATE}", "\N{POP DIRECTIONAL ISOLATE}"
COLUMNS = "\N{LEFT-TO-RIGHT MARK}"
"""At the head of a line, lest the first Arabic word in it turn the order of the columns."""
_BETWEEN = re.compile(r"((?:\x1b\[[0-9;]*m)*[│┃┡╇┩┏┳┓└┴┘┌┬┐├┼┤━─]+(?:\x1b\[[0-9;]*m)*| {2,})")
"""What stands between two cells of a line: rules, or more than one space."""


def show(table: Table, console: Console, language: Language) -> None:
    """Prints the table. In a right-to-left language each cell of each line is isolated, since a terminal that reorders
    text would mix cells with their neighbours; the marks take no room.
    """
    if language.direction == "ltr":
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        console.out(isolated(line), highlight=False)


def listed(rows: Iterable[Sequence[object]], *, header: Sequence[str], language: Language, title: str = "") -> None:
    """Prints rows of words and numbers; None is an empty cell."""
    table = Table(title=title or None, title_justify="left")
    for each in header:
        table.add_column(each, overflow="fold")
    for row in rows:
        table.add_row(*("" if each is None else escape(str(each)) for each in row))
    show(table, Console(), language)


def isolated(line: str) -> str:
    """A line of a table with each of its cells between isolates."""
    parts = _BETWEEN.split(line)
    return COLUMNS + "".join(_cell(part) if place % 2 == 0 else part for place, part in enumerate(parts))


def _cell(part: str) -> str:
    words = part.strip()
    return part.replace(words, f"{OPEN}{words}{CLOSE}") if words else part
