"""A traced step as two lanes a rank: when it computed, when its collectives ran, and what of them that hid."""

from __future__ import annotations

from collections.abc import Mapping

from labs.telemetry.categories import PHASES
from labs.telemetry.drawing.legend import LABEL_SIZE, MARGIN, SMALL_SIZE, WIDTH, Words, entry, titled_sheet
from labs.telemetry.drawing.palette import PHASE_STRENGTH
from labs.telemetry.drawing.svg import Sheet, Svg, text_width
from labs.telemetry.drawing.table import Table
from labs.telemetry.trace import Lanes
from translations import Language

_ROW, _COMPUTE, _GAP, _COMMUNICATION = 52.0, 20.0, 3.0, 14.0


def trace_over_time(ranks: Mapping[int, Lanes], *, language: Language | str, length: float = 0.0) -> Svg:
    """For each rank its phases above and its collectives below, gaps where it waits; beside them the share of
    communication that is hidden. The axis is as long as the step, or `length` seconds: so two figures compare.
    """
    words = Words.of(language)
    message = _message(ranks, words)
    present = [phase for phase in PHASES if any(each.name == phase for own in ranks.values() for each in own.compute)]
    entries = [entry("phase", phase, words) for phase in present]
    if any(own.communication for own in ranks.values()):
        entries.append(entry("category", "communication", words))

    sheet, top = titled_sheet(message, entries, gap=14, height=_ROW * len(ranks) + 22, language=words.language)

    length = max([length, *(own.seconds for own in ranks.values())]) or 1.0
    left = MARGIN + max((text_width(words("rank", rank=rank), size=LABEL_SIZE) for rank in ranks), default=0) + 14
    right = WIDTH - MARGIN - text_width(words.percent(0.88), size=SMALL_SIZE) - 10
    for index, (rank, own) in enumerate(sorted(ranks.items())):
        y = top + index * _ROW
        sheet.text(left - 12, y + _COMPUTE / 2 + 4, words("rank", rank=rank), at="right", size=LABEL_SIZE, weight=600)
        _lanes(sheet, own, left, y, (right - left) / length)
        if own.communication:
            lower = y + _COMPUTE + _GAP + _COMMUNICATION - 3
            sheet.text(right + 8, lower, words.percent(own.hidden), size=SMALL_SIZE, quiet=True, ltr=True)
    foot = top + _ROW * len(ranks) + 4
    sheet.text(left, foot, "0", size=SMALL_SIZE, quiet=True, ltr=True)
    sheet.text(right, foot, words.time(length), at="right", size=SMALL_SIZE, quiet=True, ltr=True)

    told = [(rank, *_told(own, words)) for rank, own in sorted(ranks.items())]
    sentences = [
        words("trace-rank", rank=rank, computing=computing, communicating=communicating, share=share)
        for rank, computing, communicating, share in told
    ]
    figure = sheet.svg(alt=" ".join([words.sentence(message), *sentences]))
    header = [words("table-rank"), words("trace-computing"), words("trace-communicating"), words("trace-hidden")]
    return figure.beside(Table(told, header=header, language=words.language).html)


def _lanes(sheet: Sheet, own: Lanes, left: float, y: float, scale: float) -> None:
    for block in own.compute:
        width = max(scale * (block.end - block.start), 0.8)
        sheet.shade(left + scale * block.start, y, width, _COMPUTE, strength=PHASE_STRENGTH[block.name])
        if width > 3:
            sheet.outline(left + scale * block.start, y, width, _COMPUTE, opacity=0.35)
    y += _COMPUTE + _GAP
    sheet.line(left, y + _COMMUNICATION, left + scale * own.seconds, y + _COMMUNICATION, opacity=0.25)
    for block in own.communication:
        width = scale * (block.end - block.start)
        # A gap between two that follow each other, so that one sees how many there are.
        sheet.swatch(
            "communication", left + scale * block.start, y, max(width - (1 if width > 4 else 0), 0.8), _COMMUNICATION
        )


def _message(ranks: Mapping[int, Lanes], words: Words) -> str:
    """How much of the communication is hidden, in a sentence."""
    if not any(own.compute for own in ranks.values()):
        return words("trace-nothing")
    shares = [own.hidden for own in ranks.values() if own.communication]
    if not shares:
        return words("trace-silent")
    return words("trace-hides", share=words.percent(sum(shares) / len(shares)))


def _told(own: Lanes, words: Words) -> tuple[str, str, str]:
    computing = sum(each.end - each.start for each in own.compute)
    return words.time(computing), words.time(own.communicating), words.percent(own.hidden)
