"""Figures of pipelines: timetables, how a model is cut into stages, and messages that never meet."""

from __future__ import annotations

from collections.abc import Sequence

from labs.strategies.messages import Receive, Send, Step, deadlock
from labs.strategies.schedules import Order, bubble, in_flight, timetable
from labs.telemetry.drawing import Svg
from labs.telemetry.drawing.legend import LABEL_SIZE, MARGIN, SMALL_SIZE, WIDTH, Words, titled_sheet
from labs.telemetry.drawing.timetable import messages as draw_messages
from labs.telemetry.drawing.timetable import timetable_of
from lessons.figures.base import Figure, Said
from translations import Language
from translations.formats import percent


def schedule(orders: Sequence[Order], *, title: str, slots: int = 0) -> Figure:
    """The timetable of a schedule, with the bubble in its title and the micro-batches in flight beside each rank.

    `title` has a place for the {bubble}. With `slots`, as many columns, so that timetables can be compared.
    """
    table = timetable(orders)
    names = [[None if slot is None else str(slot) for slot in row] for row in table]

    def draw(language: Language) -> Svg:
        said = Said(language)
        idle = percent(bubble(table), language, 2)
        return timetable_of(
            names,
            language=language,
            title=title.format(bubble=idle),
            slots=slots,
            beside=[str(in_flight(order)) for order in orders],
            above=said("in-flight"),
        )

    return draw


def stages(layers: Sequence[int]) -> Figure:
    """Which layers are on which rank, and what moves between them."""

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        title = said("stages-title")
        gap, tall = 74.0, 118.0
        wide = (WIDTH - 2 * MARGIN - gap * (len(layers) - 1)) / len(layers)
        sheet, top = titled_sheet(title, gap=40, height=tall + 16, language=language)
        first = 0
        for stage, count in enumerate(layers):
            x = MARGIN + stage * (wide + gap)
            sheet.text(x + wide / 2, top - 10, words("rank", rank=stage), at="middle", size=LABEL_SIZE, weight=600)
            sheet.outline(x, top, wide, tall, radius=5)
            held = [said("layer", layer=number) for number in range(first, first + count)]
            held = [said("stages-embedding")] * (stage == 0) + held + [said("stages-head")] * (stage == len(layers) - 1)
            each = (tall - 12) / max(len(held), 3)
            for place, name in enumerate(held):
                y = top + 8 + place * each
                sheet.shade(x + 8, y, wide - 16, each - 5, strength=0.12)
                sheet.text(x + wide / 2, y + each / 2 + 2, name, at="middle", size=SMALL_SIZE)
            first += count
            if stage + 1 < len(layers):
                near, far = x + wide + 6, x + wide + gap - 6
                sheet.arrow([(near, top + 40), (far, top + 40)])
                sheet.arrow([(far, top + 84), (near, top + 84)])
                middle = (near + far) / 2
                sheet.text(middle, top + 30, said("stages-there"), at="middle", size=SMALL_SIZE)
                sheet.text(middle, top + 102, said("stages-back"), at="middle", size=SMALL_SIZE)
        return sheet.svg(alt=said("stages-alt", ranks=len(layers), layers=sum(layers)))

    return draw


def messages(programs: Sequence[Sequence[Step]], *, title: str, sends_wait: bool = True) -> Figure:
    """What each rank sends and receives, in its order, and where they wait for each other for ever."""
    waiting = deadlock(programs, sends_wait=sends_wait)

    def draw(language: Language) -> Svg:
        said = Said(language)
        lists = [[_written(step) for step in program] for program in programs]
        stuck = {rank: list(programs[rank]).index(step) for rank, step in waiting.items()}
        towards = {rank: _other(step) for rank, step in waiting.items()}
        told = [
            said("messages-waits", rank=rank, step=_written(step), other=_other(step)) for rank, step in waiting.items()
        ] or [said("messages-all-met")]
        rows = [said("messages-row", rank=rank, steps=", ".join(own)) for rank, own in enumerate(lists)]
        return draw_messages(
            lists,
            stuck=stuck,
            towards=towards,
            language=language,
            title=title,
            alt=" ".join([f"{title}.", *rows, *told]),
        )

    return draw


def _written(step: Step) -> str:
    """A message as it stands in a list: F2 → 1, B0 ← 1; a batch of them with + between."""
    if isinstance(step, tuple):
        return " + ".join(_written(each) for each in step)
    if isinstance(step, Send):
        return f"{step.action or 'send'} → {step.to}"
    if isinstance(step, Receive):
        return f"{step.action or 'recv'} ← {step.source}"
    return str(step)


def _other(step: Step) -> int:
    """The rank that a message waits for."""
    if isinstance(step, tuple):
        return _other(step[0])
    if isinstance(step, Send):
        return step.to
    assert isinstance(step, Receive)
    return step.source
