"""A worked case in words: its rows, and the figure of computed beside published."""

from __future__ import annotations

from collections.abc import Callable

from labs.cases.worked import Case, Row
from labs.telemetry.drawing import Table
from labs.telemetry.drawing.published import Compared, beside_published
from labs.telemetry.drawing.svg import Svg
from translations import Language, Translator, translator
from translations.formats import NARROW_SPACE, bytes_, duration, number, percent

SHORT = 600.0
"""Seconds below which a time is shown in seconds alone."""


def value(row: Row, amount: float, language: Language | str) -> str:
    """An amount of a row's quantity, with its unit."""
    if row.unit in ("B", "GiB"):
        return bytes_(amount, language, binary=row.unit == "GiB")
    if row.unit == "%":
        return percent(amount, language)
    if row.unit == "s" and amount >= SHORT:
        return duration(amount, language)
    unit = f"{NARROW_SPACE}{row.unit}" if row.unit else ""
    return f"{number(amount, language)}{unit}"


def printed(row: Row, text: Translator) -> str:
    """What was published: one number, or from lowest to highest where several runs were; empty where nothing was."""
    if row.published is None:
        return ""
    low, high = row.published
    if row.quantity != "memory":  # the range is what rounds to the print
        return value(row, (low + high) / 2, text.language)
    return text("labs.case-range", low=value(row, low, text.language), high=value(row, high, text.language))


def name(row: Row, text: Translator) -> str:
    return text(f"labs.case-row-{row.quantity}")


def figure(case: Case, language: Language | str) -> Svg:
    """All quantities of which something was published."""
    text = translator(language)
    rows = [
        Compared(
            name=name(row, text),
            published=printed(row, text),
            computed=value(row, row.computed, language),
            ratio=row.computed / ((row.published[0] + row.published[1]) / 2),
        )
        for row in case.rows
        if row.published is not None
    ]
    return beside_published(rows, message=text(f"labs.case-title-{case.name}"), language=language)


def compared(case: Case) -> Callable[[Language], Table]:
    """Every quantity: printed, computed, and why they part where they do."""

    def draw(language: Language) -> Table:
        text = translator(language)
        rows = [
            (
                name(row, text),
                printed(row, text),
                value(row, row.computed, language),
                text(f"labs.case-why-{row.why}") if row.why and row.off else "",
            )
            for row in case.rows
        ]
        header = [text(f"labs.telemetry-published-{each}") for each in ("quantity", "printed", "computed")]
        return Table(rows, header=[*header, text("labs.case-why-column")], language=language)

    return draw


def solved(case: Case) -> Callable[[Language], Table]:
    """What the team had to solve, and where it says so."""

    def draw(language: Language) -> Table:
        text = translator(language)
        rows = [(text(f"labs.case-{id}"), source) for id, source in case.solved.items()]
        header = [text("labs.case-solved-column"), text("labs.case-source-column")]
        return Table(rows, header=header, language=language)

    return draw
