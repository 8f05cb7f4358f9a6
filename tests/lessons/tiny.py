"""A course of two small lessons in three languages, for tests of the editions: seconds in place of minutes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_output

from lessons import figures
from lessons.editions.executed import each_executed
from shardwise import pages
from translations import Language, language

UNITS = ("01-one-gpu", "04-zero-1")
CODES = ("en", "nl", "ar")
TITLES = {
    "en": ("The question", "A café for ranks", "Optimizer states are shared out, and each façade hides a shard."),
    "nl": ("De vraag", "Coördinaten", "De optimizertoestanden worden verdeeld, en het geheugenverbruik daalt."),
    "ar": ("السؤال", "الرُّتَب والحِصَص", "تُوزَّع حالات المُحسِّن على الرُّتَب، وتُؤخذ الأجزاء من المخازن."),
}
"""Two headings and a sentence a language, with letters that a search must not stumble over."""

CELLS = {
    "open": "from labs.planner import zero\nfrom lessons import figures\nfrom shardwise import notebook as course\n\n"
    'course.open("{unit}", language="{code}")',
    "recall": 'course.recall(objective="{objective}")',
    "predict": 'course.predict("states", unit="MB")',
    "table": 'course.table([["a", 4 * 10**9]], header=["x", "y"], units=["", "B"])',
    "picture": "course.figure(figures.who_holds_what(ranks=4, stage=1))",
    "printed": 'print("P =", 7_500_000_000)',
    "exercise": "%%exercise {exercise}\ndef nothing():\n    ...",
    "hint": 'course.hint("{exercise}")',
    "broken": 'course.diagnose("{exercise}")',
    "quiz": "course.quiz()",
    "certificate": "course.certificate()",
}
OF_UNIT = {
    "01-one-gpu": {"objective": "one-gpu-states", "exercise": "model-states"},
    "04-zero-1": {"objective": "zero-1-bytes", "exercise": "zero-1"},
}


def notebook(unit: str, chosen: Language) -> dict[str, Any]:
    """A lesson as the builder leaves it."""
    question, heading, sentence = TITLES[chosen.code]
    other = next(each for each in UNITS if each != unit)
    prose = (
        f"## {question}\n\n{sentence} $M = \\frac{{16P}}{{N}}$, `zero.py`.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"
        f"### {heading}\n\n"
        f"[{other}]({other}.ipynb)\n\n```python\nshard = unit.part(rank)\n```"
    )
    wrapped = f'<div dir="{chosen.direction}" lang="{chosen.code}">\n\n{prose}\n\n</div>'
    cells: list[dict[str, Any]] = [
        {"cell_type": "markdown", "id": "title", "metadata": {}, "source": f"# {unit} {question}"},
        {"cell_type": "markdown", "id": "prose", "metadata": {}, "source": wrapped},
    ]
    values = {"unit": unit, "code": chosen.code, **OF_UNIT[unit]}
    for id, source in CELLS.items():
        for name, value in values.items():
            source = source.replace(f"{{{name}}}", value)
        tags = {"tags": ["setup"]} if id == "open" else {}
        cells.append(
            {"cell_type": "code", "id": id, "metadata": tags, "source": source, "outputs": [], "execution_count": None}
        )
    course = {
        "dir": chosen.direction,
        "lang": chosen.code,
        "minutes": 5,
        "objectives": [],
        "title": f"{question} {unit[:2]}",
        "unit": unit,
    }
    kernel = {"name": "shardwise", "display_name": "Shardwise", "language": "python"}
    return {
        "cells": cells,
        "metadata": {"course": course, "kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def write(root: Path) -> None:
    """The built notebooks, where a course has them."""
    for code in CODES:
        folder = root / "lessons" / code
        folder.mkdir(parents=True)
        for unit in UNITS:
            content = json.dumps(notebook(unit, language(code)), ensure_ascii=False)
            (folder / f"{unit}.ipynb").write_text(content, encoding="utf-8")


def run(root: Path) -> dict[tuple[str, str], Any]:
    """The first unit run in each language; the second one as it was built, and not there in Dutch."""
    made = {(code, UNITS[1]): _opened(UNITS[1], code) for code in ("en", "ar")}
    wanted = [(code, UNITS[0]) for code in CODES]
    return made | {(code, unit): ran for code, unit, ran in each_executed(wanted, cache=root / "cache", root=root)}


def unrun() -> dict[tuple[str, str], Any]:
    """Both units in each language without a run; what cells show is made here."""
    made = {(code, unit): _opened(unit, code) for code in CODES for unit in UNITS}
    for (code, _), lesson in made.items():
        cells = {cell.id: cell for cell in lesson.cells}
        drawing = figures.who_holds_what(ranks=4, stage=1)(language(code))
        table = pages.table([["a", 4 * 10**9]], header=["x", "y"], units=["", "B"], language=language(code))
        for id, html in {
            "picture": drawing._repr_mimebundle_()["text/html"],
            "table": pages.page(table, language(code)),
        }.items():
            cells[id].outputs = [new_output("display_data", data={"text/html": html})]  # type: ignore[no-untyped-call]
    return made


def _opened(unit: str, code: str) -> Any:
    return nbformat.from_dict(notebook(unit, language(code)))  # type: ignore[no-untyped-call]
