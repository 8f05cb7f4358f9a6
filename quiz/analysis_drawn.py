"""The figures of an analysis: difficulty against discrimination, gaps between languages, wrong answers."""

from __future__ import annotations

import math
from collections.abc import Iterator

from labs.telemetry.drawing import Svg
from labs.telemetry.drawing.legend import (
    LABEL_SIZE,
    MARGIN,
    SMALL_SIZE,
    WIDTH,
    Words,
    gridline,
    line_entry,
    swatch_entry,
    titled_sheet,
)
from labs.telemetry.drawing.series import scale
from labs.telemetry.drawing.svg import rectangle, text_width
from labs.telemetry.drawing.table import Table
from quiz.analysis import FLAT, Analysed, Analysis
from translations import Language
from translations.formats import isolate, number, percent

PLOT, ROW = 300.0, 22.0
NAMED = 12
"""So many questions are named in a plot: those with a remark."""


def figures(analysis: Analysis, *, language: Language | str) -> Iterator[tuple[str, Svg]]:
    """Each figure with the name of its file; none where everything is withheld."""
    if not analysis.shown:
        return
    yield "difficulty", difficulty(analysis, language=language)
    if any(each.wrong for each in analysis.shown):
        yield "wrong-answers", wrong_answers(analysis, language=language)
    if any(each.gaps for each in analysis.shown):
        yield "languages", languages(analysis, language=language)


def difficulty(analysis: Analysis, *, language: Language | str) -> Svg:
    """A dot for each question: the credit it earned across, how well it tells learners apart upward."""
    words = Words.of(language)
    drawn = [each for each in analysis.shown if each.discrimination is not None]
    low = min([0.0, *(each.discrimination or 0.0 for each in drawn)])
    flat = sum((each.discrimination or 0.0) < FLAT for each in drawn)
    title = words.text("quiz.plot-difficulty", count=len(drawn), flat=flat)
    entries = [line_entry(words.text("quiz.plot-flat"), dash="7 4", width=1.8)]
    sheet, top = titled_sheet(title, entries, gap=18, height=PLOT + 52, language=words.language)
    floor = -0.2 * math.ceil(max(-low, 0.2) / 0.2 - 1e-9)
    left, right, foot = MARGIN + 46, WIDTH - MARGIN - 8, top + PLOT
    across, up = scale(0, 1, start=left, end=right), scale(floor, 1, start=foot, end=top)
    for fifth in range(round(floor * 5), 6):
        gridline(sheet, left, right, up(fifth / 5), number(fifth / 5, words.language, 1) if fifth else "0")
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        sheet.line(across(share), top, across(share), foot, opacity=0.12)
        sheet.text(across(share), foot + 16, _percent(share, words), at="middle", size=SMALL_SIZE, quiet=True, ltr=True)
    sheet.line(left, up(FLAT), right, up(FLAT), width=1.8, dash="7 4")
    sheet.text((left + right) / 2, foot + 36, words.text("quiz.plot-credit"), at="middle", size=LABEL_SIZE)
    taken: list[float] = []
    remarked = [each for each in drawn if each.remarks][:NAMED]
    for each in drawn:
        x, y = across(each.difficulty or 0.0), up(each.discrimination or 0.0)
        sheet.dot(x, y, radius=4 if each.remarks else 3)
        beside = y + 4
        if each in remarked and all(abs(beside - other) > 12 for other in taken):
            taken.append(beside)
            wide = text_width(each.item, size=SMALL_SIZE)
            inside = x + 8 + wide < WIDTH - 4
            sheet.text(x + 8 if inside else x - 8, beside, each.item, at="left" if inside else "right",
                       size=SMALL_SIZE, ltr=True)  # fmt: skip
    numbers = [
        words.text(
            "quiz.plot-difficulty-row",
            item=_name(each, words),
            credit=_percent(each.difficulty or 0.0, words),
            discrimination=_signed(each.discrimination or 0.0, words),
        )
        for each in drawn
    ]
    figure = sheet.svg(alt=" ".join([words.sentence(title), *numbers]))
    rows = [
        [each.item, str(each.learners), _percent(each.difficulty or 0.0, words), _signed(each.discrimination, words)]
        for each in analysis.shown
    ]
    header = [words.text(f"quiz.column-{name}") for name in ("item", "learners", "difficulty", "discrimination")]
    return figure.beside(Table(rows, header=header, language=words.language).html)


def wrong_answers(analysis: Analysis, *, language: Language | str) -> Svg:
    """A bar for each question, as long as all learners: right, its most chosen wrong answer, and the rest."""
    words = Words.of(language)
    shown = sorted(analysis.shown, key=lambda each: each.right or 0.0)[:40]
    title = words.text("quiz.plot-wrong", item=_name(shown[0], words), share=_percent(shown[0].right or 0.0, words))
    looks = {"right": "optimizer_states", "first": "gradients", "others": "slack"}
    entries = [swatch_entry(words.text(f"quiz.plot-{name}"), look) for name, look in looks.items()]
    sheet, top = titled_sheet(title, entries, gap=12, height=ROW * len(shown) + MARGIN, language=words.language)
    names = max(text_width(each.item, size=SMALL_SIZE) for each in shown) + 12
    labels = max((text_width(each.wrong[0].key, size=SMALL_SIZE) for each in shown if each.wrong), default=0) + 12
    left, right = MARGIN + names, WIDTH - MARGIN - labels
    rows = []
    for place, each in enumerate(shown):
        y = top + place * ROW
        most = each.wrong[0].share if each.wrong else 0.0
        parts = {"right": each.right or 0.0, "first": most}
        # Where several may be chosen, shares of learners can overlap: the bar never says more than everybody.
        parts["first"] = min(most, 1 - parts["right"])
        parts["others"] = max(0.0, 1 - parts["right"] - parts["first"])
        sheet.text(left - 8, y + 12, each.item, at="right", size=SMALL_SIZE, ltr=True)
        x = left
        for name, share in parts.items():
            wide = share * (right - left)
            if wide > 0.2:
                sheet.category(looks[name], path=rectangle(x, y, wide, ROW - 8))
            x += wide
        if each.wrong:
            sheet.text(right + 8, y + 12, each.wrong[0].key, size=SMALL_SIZE, ltr=True)
        told = "; ".join(f"{one.key} {_percent(one.share, words)}" for one in each.wrong)
        rows.append([each.item, _percent(each.right or 0.0, words), told])
    header = [words.text(f"quiz.column-{name}") for name in ("item", "right", "wrong")]
    alt = [words.sentence(title), *(": ".join([row[0], ", ".join(row[1:])]) + "." for row in rows)]
    return sheet.svg(alt=" ".join(alt)).beside(Table(rows, header=header, language=words.language).html)


def languages(analysis: Analysis, *, language: Language | str) -> Svg:
    """A line for each question, from the language in which it was hardest to that in which it was easiest."""
    words = Words.of(language)
    compared = sorted((each for each in analysis.shown if each.gaps), key=lambda each: -_gap(each))[:40]
    title = words.text("quiz.plot-languages", item=_name(compared[0], words), gap=_percent(_gap(compared[0]), words))
    sheet, top = titled_sheet(title, None, gap=26, height=ROW * len(compared) + MARGIN, language=words.language)
    names = max(text_width(each.item, size=SMALL_SIZE) for each in compared) + 16
    left, right = MARGIN + names, WIDTH - MARGIN - 22
    across = scale(0, 1, start=left, end=right)
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        sheet.line(across(share), top - 6, across(share), top + ROW * len(compared) - 6, opacity=0.15)
        sheet.text(across(share), top - 10, _percent(share, words), at="middle", size=SMALL_SIZE, quiet=True, ltr=True)
    rows = []
    for place, each in enumerate(compared):
        y = top + place * ROW + 6
        held = sorted((one.difficulty, one.language) for one in each.languages if one.difficulty is not None)
        sheet.text(left - 12, y + 4, each.item, at="right", size=SMALL_SIZE, ltr=True)
        sheet.line(across(held[0][0]), y, across(held[-1][0]), y, width=2, opacity=0.6)
        told: list[tuple[float, str]] = []
        for share, code in held:
            x = across(share)
            sheet.dot(x, y, radius=3.5)
            if told and x - told[-1][0] < 16:
                told[-1] = x, f"{told[-1][1]} {code}"  # codes that would touch stand side by side
            else:
                told.append((x, code))
        for x, codes in told:
            sheet.text(x, y - 6, codes, at="middle", size=9, ltr=True)
        rows.append([each.item, ", ".join(f"{code} {_percent(share, words)}" for share, code in held)])
    header = [words.text("quiz.column-item"), words.text("quiz.column-languages")]
    alt = [words.sentence(title), *(": ".join(row) + "." for row in rows)]
    return sheet.svg(alt=" ".join(alt)).beside(Table(rows, header=header, language=words.language).html)


def _name(each: Analysed, words: Words) -> str:
    """A question's id within a sentence."""
    return isolate(each.item) if words.language.direction == "rtl" else each.item


def _gap(each: Analysed) -> float:
    return max(abs(gap.difference) for gap in each.gaps)


def _percent(share: float, words: Words) -> str:
    return percent(share, words.language, digits=2)


def _signed(value: float | None, words: Words) -> str:
    return "–" if value is None else number(value, words.language, 2) if value else "0"
