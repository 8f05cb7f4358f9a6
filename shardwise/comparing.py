"""A prediction beside formula and measurement, and what a wrong one would mean: factor 2 or N, bits, GiB for GB."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from shardwise import pages
from translations import Translator, formats

if TYPE_CHECKING:
    from shardwise.record import Predicted

RIGHT, SLIP, BINARY_SLIP = 0.02, 0.015, 0.004
"""How near, relative, a prediction is to the truth or to a known slip; no prediction is meant to the byte."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All in the smallest unit of the family (bytes): `predicted` is None where nothing was predicted."""

    predicted: float | None
    formula: float | None
    measured: float
    ranks: int | None
    unit: str


def base_value(predicted: Predicted) -> tuple[float, str]:
    """A prediction in the smallest unit of its family, and that unit's name ("" where the unit is unknown)."""
    from quiz.numbers import unit

    found = unit(predicted.measure)
    if found is None:
        return predicted.value, predicted.measure
    return predicted.value * found.size, "B" if found.family == "bytes" else predicted.measure


def html(comparison: Comparison, text: Translator) -> str:
    """The three values in one table, and sentences on how they differ."""
    shown = {
        "predicted": comparison.predicted,
        "formula": comparison.formula,
        "measured": comparison.measured,
    }
    heads = "".join(f'<th scope="col" class="number">{escape(text(f"shardwise.{name}"))}</th>' for name in shown)
    cells = "".join(f'<td class="number">{_value(value, comparison.unit, text)}</td>' for value in shown.values())
    table = (
        f"<table><caption>{escape(text('shardwise.comparison'))}</caption>"
        f"<thead><tr>{heads}</tr></thead><tbody><tr>{cells}</tr></tbody></table>"
    )
    return table + "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences(comparison, text))


def _value(value: float | None, unit: str, text: Translator) -> str:
    if value is None:
        return escape(text("shardwise.not-predicted"))
    shown = pages.ltr(pages.written(value, unit, text.language))
    if unit == "B" and value >= 1000 and float(value).is_integer():
        exact = f"{formats.number(int(value), text.language)}{formats.NARROW_SPACE}B"
        shown += f'<br><span class="quiet">{pages.ltr(exact)}</span>'
    return shown


def sentences(comparison: Comparison, text: Translator) -> list[str]:
    """What formula and measurement say to each other, then what the prediction would mean."""
    said = []
    truth = comparison.measured if comparison.formula is None else comparison.formula
    if comparison.formula is not None:
        if comparison.formula == comparison.measured:
            said.append(text("shardwise.exactly-the-formula" if comparison.unit == "B" else "shardwise.the-formula"))
        elif comparison.formula:
            apart = abs(comparison.measured / comparison.formula - 1)
            said.append(text("shardwise.apart-from-formula", percent=formats.percent(apart, text.language, 2)))
    if comparison.predicted is None:
        return [*said, text("shardwise.nothing-predicted")]
    id = meaning(comparison.predicted, truth, ranks=comparison.ranks, of_bytes=comparison.unit == "B")
    return [*said, text(id, ranks=comparison.ranks) if id.endswith("-ranks") else text(id)]


def meaning(predicted: float, truth: float, *, ranks: int | None, of_bytes: bool) -> str:
    """The id of the message that says what a prediction would mean: right, a known slip, or too high or low."""
    if not truth:
        return "shardwise.prediction-right" if not predicted else "quiz.too-high"
    ratio = predicted / truth
    if abs(ratio - 1) <= RIGHT:
        return "shardwise.prediction-right"
    for slip, tolerance, id in _slips(ranks=ranks, of_bytes=of_bytes):
        if abs(ratio / slip - 1) <= tolerance:
            return id
    return "quiz.too-high" if ratio > 1 else "quiz.too-low"


def _slips(*, ranks: int | None, of_bytes: bool) -> Iterator[tuple[float, float, str]]:
    """Ratios of a wrong number to the right one, how near it must be, and the message."""
    if ranks is not None and ranks > 2:
        yield ranks, SLIP, "quiz.times-ranks"
        yield 1 / ranks, SLIP, "quiz.over-ranks"
    yield 2, SLIP, "quiz.twice"
    yield 1 / 2, SLIP, "quiz.half"
    if not of_bytes:
        return
    yield 8, SLIP, "quiz.bits-for-bytes"
    yield 1 / 8, SLIP, "quiz.bytes-over-eight"
    for power in (1, 2, 3):
        yield 1.024**power, BINARY_SLIP, "quiz.decimal-for-binary"
        yield 1.024**-power, BINARY_SLIP, "quiz.binary-for-decimal"
        yield 1000.0**power, SLIP, "quiz.prefix-too-large"
        yield 1000.0**-power, SLIP, "quiz.prefix-too-small"
