"""What `shardwise quiz analyse` prints and writes: a table, a CSV file, plots."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from quiz.analysis import LEAST, Analysis
from translations import CourseError, Language, Translator, formats

if TYPE_CHECKING:
    from quiz.analysis import Analysed

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def show(found: Analysis, text: Translator) -> None:
    """The table, and what is withheld and why."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console, table = Console(), Table()
    for name in ("item", "learners", "difficulty", "discrimination", "wrong", "languages", "remarks"):
        table.add_column(text(f"quiz.column-{name}"), justify="left")
    for each in found.shown:
        table.add_row(*(escape(cell) for cell in _cells(each, text)))
    if found.shown:
        console.print(table)
    if found.learners is not None:
        said = text("shardwise.analyse-answers", answers=found.answers, learners=found.learners)
        console.print(said, highlight=False, markup=False)
    if len(found.shown) < len(found.items):
        said = text("shardwise.analyse-few", items=len(found.items), shown=len(found.shown), least=LEAST)
        console.print(said, highlight=False, markup=False)


def write_csv(found: Analysis, path: Path) -> None:
    """A row for each question. No cell begins a formula in a spreadsheet. Raises CourseError where the disk refuses."""
    rows = found.rows()
    with _told(path), path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows({name: _tame(value) for name, value in row.items()} for row in rows)


def write_plots(found: Analysis, folder: Path, language: Language) -> Iterator[Path]:
    """The plots as SVG files, and their numbers as JSON beside them. Raises CourseError where the disk refuses."""
    from quiz.analysis_drawn import figures

    with _told(folder):
        folder.mkdir(exist_ok=True)
        numbers = folder / "analysis.json"
        numbers.write_text(json.dumps(found.as_json(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    yield numbers
    for name, figure in figures(found, language=language):
        yield figure.save(folder / f"{name}.svg")


def _cells(each: Analysed, text: Translator) -> list[str]:
    language = text.language

    def share(value: float | None) -> str:
        return text("quiz.withheld") if value is None else formats.percent(value, language, digits=2)

    discrimination = "–" if each.discrimination is None else formats.number(each.discrimination, language, 2)
    return [
        each.item,
        str(each.learners),
        share(each.difficulty),
        discrimination,
        "\n".join(f"{one.key} {share(one.share)}" for one in each.wrong[:3]),
        "\n".join(f"{one.language} {share(one.difficulty)}" for one in each.languages),
        "\n".join(text(f"quiz.remark-{id}") for id in each.remarks),
    ]


def _tame(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


class _told:
    """What the disk refuses, as an error that can be read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            raise CourseError("labs.figure-not-written", file=str(self._path), reason=reason) from error
