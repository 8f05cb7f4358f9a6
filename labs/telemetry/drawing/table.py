"""A table of what a figure shows."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from labs.telemetry.drawing.legend import Words
from translations import Language


class Table:
    """Rows of computed values as an accessible HTML table: the first cell of a row is its heading; numbers keep their
    own direction.
    """

    def __init__(
        self, rows: Sequence[Sequence[Any]], *, header: Sequence[str], language: Language | str, caption: str = ""
    ) -> None:
        self._words, self.rows, self.header, self.caption = Words.of(language), rows, header, caption

    @property
    def html(self) -> str:
        direction = self._words.language.direction
        head = "".join(
            f'<th scope="col" style="{_CELL}">{escape(str(name))}</th>' if name else "<td></td>" for name in self.header
        )
        body = "".join(f"<tr>{''.join(_cell(index, cell) for index, cell in enumerate(row))}</tr>" for row in self.rows)
        caption = (
            f'<caption style="text-align:start;padding:4px 0">{escape(self.caption)}</caption>' if self.caption else ""
        )
        return (
            f'<table dir="{direction}" lang="{self._words.language.code}" style="border-collapse:collapse">'
            f"{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        plain = "\n".join("\t".join(map(str, row)) for row in [self.header, *self.rows])
        return {"text/html": self.html, "text/plain": plain}


_CELL = (
    "padding:4px 14px;text-align:start;font-variant-numeric:tabular-nums;border-bottom:1px solid rgba(128,128,128,0.35)"
)


def _cell(column: int, value: Any) -> str:
    tag, scope = ("th", ' scope="row"') if column == 0 else ("td", "")
    return f'<{tag}{scope} style="{_CELL}"><bdi>{escape(str(value))}</bdi></{tag}>'
