"""Pictures of measured memory and traffic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from labs.telemetry.categories import PHASES, Bytes, Count
from labs.telemetry.drawing.legend import (
    LABEL_SIZE,
    MARGIN,
    SMALL_SIZE,
    WIDTH,
    Words,
    entry,
    listed_ranks,
    titled_sheet,
)
from labs.telemetry.drawing.palette import FORMULA_DASH, PHASE_HEIGHT, PHASE_STRENGTH, STACKED
from labs.telemetry.drawing.series import condensed, peak, rest, scale, since, spans, stacks, steps, ticks, window
from labs.telemetry.drawing.svg import Sheet, Svg, rectangle, text_width
from labs.telemetry.drawing.table import Table
from labs.telemetry.rows import Row
from translations import Language

_PANEL_HEIGHT, _STRIP, _COLUMNS = 150.0, 9.0, 240


def memory_over_time(
    rows: Mapping[int, Sequence[Row]],
    *,
    formula: Bytes | None,
    language: Language | str,
    title: str | None = None,
) -> Svg:
    """A panel for each rank: bytes by category over time, stacked, with phases, the peak, and the formula's line on top
    of the model states.
    """
    words = Words.of(language)
    times = window(rows.values())
    rows = {rank: since(own, times[0]) for rank, own in sorted(rows.items())}
    ranks = list(rows)
    message = title or _memory_message(rows, words, formula)
    expected = formula.model_states if formula is not None else 0
    present = [name for name in STACKED if any(getattr(row.bytes, name) for own in rows.values() for row in own)]
    phases = [name for name in PHASES if any(row.phase == name for own in rows.values() for row in own)]
    entries = [entry("category", name, words) for name in present] + [entry("phase", name, words) for name in phases]
    if expected:
        entries.append(entry("formula", "formula-states", words))

    across = 1 if len(ranks) < 2 else 2
    row_height = 22 + _PANEL_HEIGHT + _STRIP + 34
    sheet, top = titled_sheet(
        message, entries, gap=14, height=row_height * -(-max(len(ranks), 1) // across) + 4, language=words.language
    )

    highest = max([expected, *(found.bytes.total for own in rows.values() if (found := peak(own)))]) * 1.14 or 1.0
    gutter = max(text_width(words.axis(highest)(tick), size=SMALL_SIZE) for tick in ticks(highest)) + 10
    panel_width = (WIDTH - 2 * MARGIN - gutter - (across - 1) * 26) / across
    for index, rank in enumerate(ranks):
        x = MARGIN + gutter + (index % across) * (panel_width + 26)
        _panel(
            sheet, words, rank, rows[rank],
            box=(x, top + (index // across) * row_height + 22, panel_width),
            times=times, highest=highest, expected=expected, labelled=index % across == 0,
        )  # fmt: skip
    figure = sheet.svg(alt=" ".join([words.sentence(message), *_memory_numbers(rows, words, formula)]))
    return figure.beside(_memory_table(rows, words, formula)) if ranks else figure


def _memory_table(rows: Mapping[int, Sequence[Row]], words: Words, formula: Bytes | None) -> str:
    """What each rank holds as the optimizer step begins, and at its peak; in one line for those that hold the same."""
    alike: dict[tuple[bool, Bytes], list[int]] = {}
    for rank, own in rows.items():
        for at_peak, found in ((False, rest(own)), (True, peak(own))):
            if found is not None:
                alike.setdefault((at_peak, found.bytes), []).append(rank)
    present = [name for name in STACKED if any(getattr(held, name) for _, held in alike)]
    header = [words("table-ranks"), words("table-when"), *map(words.category, present), words("table-together")]
    lines: list[list[str]] = []
    for (at_peak, held), ranks in sorted(alike.items(), key=lambda each: (each[0][0], each[1])):
        amounts = [words.bytes(getattr(held, name)) for name in present]
        when = words("table-peak" if at_peak else "table-rest")
        lines.append([listed_ranks(ranks, words), when, *amounts, words.bytes(held.total)])
    if formula is not None:
        amounts = [words.bytes(getattr(formula, name)) for name in present]
        lines.append([words("formula"), words("table-rest"), *amounts, words.bytes(formula.total)])
    return Table(lines, header=header, language=words.language).html


def _panel(
    sheet: Sheet, words: Words, rank: int, rows: Sequence[Row], *, box: tuple[float, float, float],
    times: tuple[float, float], highest: float, expected: int, labelled: bool,
) -> None:  # fmt: skip
    left, top, width = box
    bottom = top + _PANEL_HEIGHT
    across = scale(*times, start=left, end=left + width)
    up = scale(0, highest, start=bottom, end=top)
    name = words("rank", rank=rank)
    sheet.opening(left, left + width, top - 8, name, size=LABEL_SIZE, weight=600)

    label = words.axis(highest)
    for tick in ticks(highest):
        sheet.line(left, up(tick), left + width, up(tick), opacity=0.45 if tick == 0 else 0.13)
        if labelled:
            sheet.text(left - 8, up(tick) + 4, label(tick), at="right", size=SMALL_SIZE, quiet=True, ltr=True)

    kept = condensed(rows, start=times[0], end=times[1], columns=_COLUMNS)
    heights = [stacks(row, STACKED) for row in kept]
    for level in reversed(range(len(STACKED))):
        if any(getattr(row.bytes, STACKED[level]) for row in kept):
            points = [(across(row.seconds), up(height[level])) for row, height in zip(kept, heights, strict=True)]
            sheet.category(STACKED[level], path=steps(points, end=left + width, base=bottom))

    for span in spans(rows, end=times[1]):
        begin, finish = across(span.start), across(span.end)
        sheet.shade(
            begin, bottom + 2, max(finish - begin, 0.5), PHASE_HEIGHT[span.phase], strength=PHASE_STRENGTH[span.phase]
        )
        if finish - begin > text_width(words.phase(span.phase), size=10) + 8:
            middle = (begin + finish) / 2
            sheet.text(middle, bottom + _STRIP + 14, words.phase(span.phase), at="middle", size=10, quiet=True)
    seconds = words.seconds(times[1] - times[0])
    sheet.text(left + width, bottom + _STRIP + 28, seconds, at="right", size=SMALL_SIZE, quiet=True, ltr=True)
    sheet.text(left, bottom + _STRIP + 28, "0", at="left", size=SMALL_SIZE, quiet=True, ltr=True)

    if expected:
        sheet.line(left, up(expected), left + width, up(expected), width=1.8, dash=FORMULA_DASH)
    if (found := peak(rows)) is not None:
        x, y = across(found.seconds), up(found.bytes.total)
        sheet.dot(x, y, radius=2.6)
        told = words("peak-label", size=words.bytes(found.bytes.total))
        late = x > left + width / 2
        sheet.text(x + (-7 if late else 7), y - 5, told, at="right" if late else "left", size=SMALL_SIZE)


def stacked_bars(
    groups: Sequence[tuple[str, Bytes]],
    *,
    language: Language | str,
    title: str,
    alt: str | None = None,
    formula: Sequence[int] | None = None,
) -> Svg:
    """A bar for each group, of its bytes by category; the number under each part that has room, the total at the end.

    `formula` marks, for each group, where a formula says its bar ends.
    """
    words = Words.of(language)
    present = [name for name in STACKED if any(getattr(group, name) for _, group in groups)]
    entries = [entry("category", name, words) for name in present]
    if formula:
        entries.append(entry("formula", "formula", words))
    names = max((text_width(name, size=LABEL_SIZE) for name, _ in groups), default=0) + 14
    each, thick = 50.0, 22.0
    sheet, top = titled_sheet(title, entries, gap=16, height=each * len(groups) + 6, language=words.language)

    highest = max([1, *(group.total for _, group in groups), *(formula or ())])
    left, right = MARGIN + names, WIDTH - MARGIN - text_width(words.bytes(888e6), size=LABEL_SIZE) - 8
    across = scale(0, highest, start=left, end=right)
    for index, (name, group) in enumerate(groups):
        y = top + index * each
        sheet.text(left - 12, y + thick / 2 + 4, name, at="right", size=LABEL_SIZE, weight=600)
        x = left
        for category in (each for each in STACKED if getattr(group, each)):
            size = getattr(group, category)
            width = across(size) - left
            sheet.category(category, path=rectangle(x, y, width, thick))
            told = words.bytes(size)
            if width > text_width(told, size=10) + 6:
                sheet.text(x + width / 2, y + thick + 13, told, at="middle", size=10, quiet=True, ltr=True)
            x += width
        sheet.text(x + 8, y + thick / 2 + 4, words.bytes(group.total), size=LABEL_SIZE, weight=600, ltr=True)
        if formula:
            at = across(formula[index])
            sheet.line(at, y - 5, at, y + thick + 5, width=1.8, dash=FORMULA_DASH)
    numbers = [words("group-numbers", name=name, parts=_parts(group, words)) for name, group in groups]
    header = ["", *map(words.category, present), words("table-together")]
    header += [words("formula")] if formula else []
    lines = []
    for index, (name, group) in enumerate(groups):
        sizes = [*(getattr(group, each) for each in present), group.total, *([formula[index]] if formula else [])]
        lines.append([name, *map(words.bytes, sizes)])
    figure = sheet.svg(alt=alt or " ".join([words.sentence(title), *numbers]))
    return figure.beside(Table(lines, header=header, language=words.language).html)


def bars(
    values: Sequence[tuple[str, float]],
    *,
    language: Language | str,
    title: str,
    labels: Sequence[str] | None = None,
    category: str = "parameters",
    formula: Sequence[float | None] | None = None,
    alt: str | None = None,
) -> Svg:
    """A bar for each value with its number at the end: bytes, unless `labels` gives the words. `formula` marks where it
    should end.
    """
    words = Words.of(language)
    told = list(labels) if labels is not None else [words.bytes(value) for _, value in values]
    entries = [entry("formula", "formula", words)] if formula else None
    names = max((text_width(name, size=LABEL_SIZE) for name, _ in values), default=0) + 14
    each, thick = 34.0, 18.0
    sheet, top = titled_sheet(title, entries, gap=14, height=each * len(values) + 6, language=words.language)
    expected = [value for value in formula or () if value is not None]
    highest = max([*(value for _, value in values), *expected], default=1.0) or 1.0
    left = MARGIN + names
    right = WIDTH - MARGIN - max((text_width(label, size=LABEL_SIZE) for label in told), default=0) - 10
    across = scale(0, highest, start=left, end=right)
    for index, (name, value) in enumerate(values):
        y = top + index * each
        sheet.text(left - 12, y + thick / 2 + 4, name, at="right", size=LABEL_SIZE)
        sheet.category(category, path=rectangle(left, y, max(across(value) - left, 0.5), thick))
        mark = formula[index] if formula else None
        if mark is not None:
            sheet.line(across(mark), y - 5, across(mark), y + thick + 5, width=1.8, dash=FORMULA_DASH)
        beside = max(across(value), across(mark) if mark is not None else 0.0)
        sheet.text(beside + 8, y + thick / 2 + 4, told[index], size=LABEL_SIZE, weight=600, ltr=labels is None)
    numbers = [words("group-numbers", name=name, parts=label) for (name, _), label in zip(values, told, strict=True)]
    figure = sheet.svg(alt=alt or " ".join([words.sentence(title), *numbers]))
    lines = [[name, label] for (name, _), label in zip(values, told, strict=True)]
    return figure.beside(Table(lines, header=["", words("table-value")], language=words.language).html)


def traffic_bars(
    collectives: Mapping[str, Count | Mapping[str, int]],
    formula: int | Mapping[str, int] | None,
    language: Language | str,
) -> Svg:
    """Bytes of one step by collective. `formula` is the whole, or the bytes of each collective."""
    words = Words.of(language)
    measured = {name: count if isinstance(count, Count) else Count(**count) for name, count in collectives.items()}
    moved = sum(count.bytes for count in measured.values())
    expected = sum(formula.values()) if isinstance(formula, Mapping) else formula
    if expected is None:
        message = words("traffic-title", size=words.bytes(moved))
    elif expected == moved:
        message = words("traffic-title-as-formula", size=words.bytes(moved))
    else:
        message = words("traffic-title-unlike", size=words.bytes(moved), formula=words.bytes(expected))
    names = (
        [*measured, *(name for name in formula if name not in measured)]
        if isinstance(formula, Mapping)
        else [*measured]
    )
    values = [(name, float(measured.get(name, Count()).bytes)) for name in names]
    labels = [
        words("traffic-label", size=words.bytes(count.bytes), count=count.count)
        for count in (measured.get(name, Count()) for name in names)
    ]
    marks = [float(formula.get(name, 0)) for name in names] if isinstance(formula, Mapping) else None
    return bars(values, language=words.language, title=message, labels=labels, category="communication", formula=marks)


# --- words


def _parts(amounts: Bytes, words: Words) -> str:
    told = [
        words("part", name=words.category(name), size=words.bytes(size))
        for name, size in amounts.as_dict().items()
        if size
    ]
    return words.listed(told) if told else words.bytes(0)


def _memory_message(rows: Mapping[int, Sequence[Row]], words: Words, formula: Bytes | None) -> str:
    """What the plot shows, in a sentence."""
    peaks = [found.bytes.total for own in rows.values() if (found := peak(own)) is not None]
    if not peaks:
        return words("memory-nothing")
    low, high = words.bytes(min(peaks)), words.bytes(max(peaks))
    states = [found.bytes.model_states for own in rows.values() if (found := rest(own)) is not None]
    if not states:
        return words("memory-peak", size=high) if low == high else words("memory-peaks", low=low, high=high)
    held = words.bytes(max(states))
    if formula is None:
        return words("memory-states", held=held, peak=high)
    if all(abs(state - formula.model_states) <= 1e-3 * formula.model_states for state in states):
        return words("memory-states-as-formula", held=held, peak=high)
    return words("memory-states-unlike", held=held, formula=words.bytes(formula.model_states), peak=high)


def _memory_numbers(rows: Mapping[int, Sequence[Row]], words: Words, formula: Bytes | None) -> list[str]:
    """The numbers of every rank; once, where they are the same for all."""
    told: dict[int, tuple[str, str, str]] = {}
    for rank, own in sorted(rows.items()):
        if (highest := peak(own)) is not None:
            resting = rest(own)
            at_rest = words("memory-rest", parts=_parts(resting.bytes, words)) if resting is not None else ""
            told[rank] = (words.bytes(highest.bytes.total), _parts(highest.bytes, words), at_rest)
    alike = len(told) > 1 and len(set(told.values())) == 1
    sentences: list[str] = []
    for rank, (size, parts, at_rest) in list(told.items())[: 1 if alike else None]:
        values = {"peak": size, "parts": parts}
        sentences.append(words("memory-ranks", **values) if alike else words("memory-rank", rank=rank, **values))
        sentences.extend([at_rest] if at_rest else [])
    if formula is not None:
        sentences.append(words("memory-formula", size=words.bytes(formula.model_states)))
    return sentences
