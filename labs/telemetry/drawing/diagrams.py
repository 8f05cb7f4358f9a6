"""Pictures of how things are arranged: who holds which shard, and how chunks travel around a ring."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Literal

from labs.telemetry.drawing.legend import LABEL_SIZE, MARGIN, SMALL_SIZE, WIDTH, Words, entry, titled_sheet
from labs.telemetry.drawing.palette import PHASE_STRENGTH
from labs.telemetry.drawing.svg import Svg, text_width
from labs.telemetry.drawing.table import Table
from translations import Language

MODEL_STATES = ("parameters", "gradients", "optimizer_states")
RingPhase = Literal["reduce-scatter", "all-gather"]


def rank_table(
    *,
    ranks: int,
    sharded: Collection[str],
    language: Language | str,
    title: str,
    alt: str | None = None,
    held: Sequence[str] = MODEL_STATES,
) -> Svg:
    """A row for each rank, a column for each of `held`: all N parts filled where the rank holds the whole, only its own
    where it is `sharded`.
    """
    words = Words.of(language)
    unknown = set(sharded) - set(held)
    if unknown:
        raise ValueError(f"{sorted(unknown)} cannot be sharded: a rank holds {list(held)}")
    names = max(text_width(words("rank", rank=ranks - 1), size=LABEL_SIZE), 40) + 16
    row, gap = 34.0, 28.0
    sheet, top = titled_sheet(title, gap=40, height=ranks * row + 10, language=words.language)
    column = (WIDTH - 2 * MARGIN - names - gap * (len(held) - 1)) / len(held)
    for index, category in enumerate(held):
        left = MARGIN + names + index * (column + gap)
        told = words("column-sharded" if category in sharded else "column-whole", name=words.category(category))
        sheet.text(left + column / 2, top - 12, told, at="middle", size=LABEL_SIZE, weight=600)
        for rank in range(ranks):
            y, part = top + rank * row, column / ranks
            for shard in range(ranks):
                if category not in sharded or shard == rank:
                    sheet.swatch(category, left + shard * part, y, part, row - 12)
            for shard in range(1, ranks):
                sheet.line(left + shard * part, y, left + shard * part, y + row - 12, opacity=0.25)
            sheet.outline(left, y, column, row - 12, opacity=0.55)
    for rank in range(ranks):
        sheet.text(MARGIN + names - 14, top + rank * row + 15, words("rank", rank=rank), at="right", size=LABEL_SIZE)
    parts = [
        words("table-sharded" if category in sharded else "table-whole", name=words.category(category), ranks=ranks)
        for category in held
    ]
    figure = sheet.svg(alt=alt or " ".join([f"{title.rstrip('.')}.", *parts]))
    lines = [
        [rank, *(words("table-shard", shard=rank) if each in sharded else words("table-all") for each in held)]
        for rank in range(ranks)
    ]
    header = [words("table-rank"), *map(words.category, held)]
    return figure.beside(Table(lines, header=header, language=words.language).html)


def ring(
    *,
    ranks: int,
    step: int,
    language: Language | str,
    title: str,
    phase: RingPhase = "reduce-scatter",
    alt: str | None = None,
) -> Svg:
    """A ring of N ranks with N chunks each, before a step (0 ... N-2) of a reduce-scatter, or of the all-gather after.

    In a reduce-scatter rank r sends chunk (r - step) mod N to its right neighbour, which adds it; in the all-gather,
    chunk (r + 1 - step) mod N, which the neighbour keeps. The number in a chunk is of how many ranks it is the sum.
    `step` N-1 shows what came out, with nothing sent.
    """
    if ranks < 2 or not 0 <= step < ranks:
        raise ValueError(
            f"a ring of {ranks} ranks has steps 0 to {ranks - 2}, and {ranks - 1} for what came out; not {step}"
        )
    words = Words.of(language)
    sums = [
        [_summed(rank, chunk, ranks=ranks, step=step, phase=phase) for chunk in range(ranks)] for rank in range(ranks)
    ]
    offset = 0 if phase == "reduce-scatter" else 1
    sent = None if step == ranks - 1 else [(rank + offset - step) % ranks for rank in range(ranks)]

    box, high = 26.0, 24.0
    wide, tall = box * ranks, high + 20
    radius_x = max(150.0, (wide + 110) * ranks / (2 * math.pi))
    radius_x = min(radius_x, (WIDTH - 2 * MARGIN - wide) / 2)
    radius_y = max(92.0, 30.0 * ranks)
    lowest = max(-math.cos(2 * math.pi * rank / ranks) for rank in range(ranks))
    reach = radius_y * (1 + (lowest if ranks % 2 == 0 else 1.0))
    sheet, top = titled_sheet(title, gap=26, height=reach + tall + 4, language=words.language)
    middle_x, middle_y = WIDTH / 2, top + radius_y + tall / 2
    places = [
        (
            middle_x + radius_x * math.sin(2 * math.pi * rank / ranks),
            middle_y - radius_y * math.cos(2 * math.pi * rank / ranks),
        )
        for rank in range(ranks)
    ]
    if sent is not None:
        for rank in range(ranks):
            middle = 2 * math.pi * (rank + 0.5) / ranks
            half = 0.17 * 2 * math.pi / ranks
            arc = [middle - half, middle, middle + half]
            far_out = [1.0, 1 / math.cos(half), 1.0]
            points = [
                (middle_x + radius_x * far * math.sin(angle), middle_y - radius_y * far * math.cos(angle))
                for angle, far in zip(arc, far_out, strict=True)
            ]
            sheet.arrow(points)
            x = middle_x + (radius_x - 44) * math.sin(middle)
            y = middle_y - (radius_y - 26) * math.cos(middle) + 4
            sheet.text(x, y, words("ring-chunk", chunk=sent[rank]), at="middle", size=SMALL_SIZE)
    for rank, (x, y) in enumerate(places):
        left, upper = x - wide / 2, y - high / 2
        sheet.text(x, upper - 7, words("rank", rank=rank), at="middle", size=LABEL_SIZE, weight=600)
        for chunk in range(ranks):
            full = sums[rank][chunk]
            sheet.shade(left + chunk * box, upper, box, high, strength=0.05 + 0.3 * (full - 1) / max(ranks - 1, 1))
            sheet.outline(left + chunk * box, upper, box, high, opacity=0.45)
            if sent is not None and sent[rank] == chunk:
                sheet.outline(left + chunk * box + 2, upper + 2, box - 4, high - 4, opacity=1, radius=3)
            sheet.text(left + (chunk + 0.5) * box, upper + 16, str(full), at="middle", size=LABEL_SIZE, ltr=True)
    told = [
        words("ring-rank", rank=rank, sums=words.listed([str(full) for full in sums[rank]])) for rank in range(ranks)
    ]
    moves = [] if sent is None else [
        words("ring-sends", rank=rank, chunk=chunk, other=(rank + 1) % ranks) for rank, chunk in enumerate(sent)
    ]  # fmt: skip
    return sheet.svg(alt=alt or " ".join([f"{title.rstrip('.')}.", *told, *moves]))


def _summed(rank: int, chunk: int, *, ranks: int, step: int, phase: RingPhase) -> int:
    """Of how many ranks this rank's chunk is the sum, before the step."""
    behind = (rank - chunk) % ranks  # ring steps that the chunk took to come here from where it started
    if phase == "reduce-scatter":
        return behind + 1 if 0 < behind <= step else 1
    arrived = (rank + 1 - chunk) % ranks  # 0 for the chunk that this rank has the whole sum of
    if arrived <= step:
        return ranks
    return behind + 1


def timetable(
    lines: Sequence[tuple[str, Sequence[tuple[str, float, float]]]],
    *,
    language: Language | str,
    title: str,
    alt: str,
) -> Svg:
    """A line for each name (a rank, a stage), with its phases as blocks from when to when."""
    words = Words.of(language)
    present = [name for name in PHASE_STRENGTH if any(phase == name for _, blocks in lines for phase, _, _ in blocks)]
    entries = [entry("phase", name, words) for name in present]
    names = max((text_width(name, size=LABEL_SIZE) for name, _ in lines), default=0) + 16
    sheet, top = titled_sheet(title, entries, gap=12, height=30 * len(lines) + 6, language=words.language)
    last = max((end for _, blocks in lines for _, _, end in blocks), default=1.0) or 1.0
    left = MARGIN + names
    room = WIDTH - MARGIN - left
    for index, (name, blocks) in enumerate(lines):
        y = top + index * 30
        sheet.text(left - 12, y + 14, name, at="right", size=LABEL_SIZE)
        for phase, start, end in blocks:
            x, width = left + room * start / last, room * (end - start) / last
            sheet.shade(x, y, width, 20, strength=PHASE_STRENGTH[phase])
            sheet.outline(x, y, width, 20, opacity=0.4)
    return sheet.svg(alt=alt)
