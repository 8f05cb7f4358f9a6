"""The figure of buckets: what the network may do while backward goes on."""

from __future__ import annotations

from labs.telemetry.drawing import Svg
from labs.telemetry.drawing.legend import LABEL_SIZE, MARGIN, SMALL_SIZE, WIDTH, Words, titled_sheet
from labs.telemetry.drawing.palette import INK
from lessons.figures.base import Figure, Said
from translations import Language

FORWARD, BACKWARD, REDUCING = 1.0, 2.0, 1.5
"""Lengths in time of a piece's forward, its backward, and the all-reduce of its gradients: only their order counts."""


def buckets_in_backward(*, pieces: int) -> Figure:
    """A step of data parallelism with one all-reduce at its end, and with one for each piece as soon as it is ready."""

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        title = said("buckets-title")
        names, lane, group = 128.0, 30.0, 92.0
        left, right = MARGIN + names, WIDTH - MARGIN
        sheet, top = titled_sheet(title, gap=34, height=2 * group + 8, language=language)
        end = pieces * (FORWARD + BACKWARD + REDUCING)

        def x(time: float) -> float:
            return left + (right - left) * time / end

        def block(start: float, length: float, y: float, told: str, *, sent: bool) -> None:
            across = x(start + length) - x(start) - 2
            if sent:
                sheet.swatch("communication", x(start) + 1, y, across, lane - 6)
                sheet.bar(x(start) + across / 2 - 8, y + 3, 18, lane - 12, colour="#fff")
                sheet.text(x(start) + across / 2 + 1, y + 16, told, at="middle", size=SMALL_SIZE, ltr=True, ink=INK)
            else:
                sheet.shade(x(start) + 1, y, across, lane - 6, strength=0.08)
                sheet.outline(x(start) + 1, y, across, lane - 6)
                sheet.text(x(start) + across / 2 + 1, y + 16, told, at="middle", size=SMALL_SIZE)

        backward = pieces * FORWARD
        for number, way in enumerate(("end", "pieces")):
            y = top + number * group
            sheet.opening(MARGIN, WIDTH - MARGIN, y - 12, said(f"buckets-{way}"), size=LABEL_SIZE, weight=600)
            for row, name in enumerate(("buckets-computes", "buckets-sends")):
                sheet.text(left - 12, y + row * lane + 16, said(name), at="right", size=SMALL_SIZE)
            block(0, backward, y, words.phase("forward"), sent=False)
            free = backward + pieces * BACKWARD if way == "end" else 0.0
            for done, piece in enumerate(reversed(range(pieces)), start=1):
                block(backward + (done - 1) * BACKWARD, BACKWARD, y, said("buckets-piece", piece=piece), sent=False)
                start = max(free, backward + done * BACKWARD)
                block(start, REDUCING, y + lane, str(piece), sent=True)
                free = start + REDUCING
            sheet.line(x(free), y - 4, x(free), y + 2 * lane - 2, width=1.6, dash="4 3")
        return sheet.svg(alt=said("buckets-alt", pieces=pieces))

    return draw
