"""The map of layouts: every way to cut a model over some accelerators, what fits, and how long a step takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from labs.planner.configuration import STACKS, Stack
from labs.planner.hardware import Accelerator
from labs.planner.models import Model
from labs.planner.search import Ranked, search
from labs.telemetry.drawing import Svg, Table
from labs.telemetry.drawing.legend import LABEL_SIZE, MARGIN, SMALL_SIZE, WIDTH, Entry, Words, titled_sheet
from labs.telemetry.drawing.svg import Sheet, text_width
from lessons.figures.base import Figure, Said
from lessons.figures.published import Chosen, chosen
from translations import Language
from translations.formats import duration, number

BEST = 3
"""So many of the fastest layouts are marked."""
LISTED = 20
Degrees = tuple[int, int]
"""Tensor and pipeline degree; the data-parallel degree follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layouts:
    """What the search found: every layout by its degrees, None where it does not fit, and the papers' own ones."""

    gpus: int
    found: tuple[Ranked, ...]
    cells: Mapping[Degrees, Ranked | None]
    chosen: tuple[Chosen, ...]

    @property
    def tensor(self) -> list[int]:
        return sorted({tp for tp, _ in self.cells})

    @property
    def pipeline(self) -> list[int]:
        return sorted({pp for _, pp in self.cells})


def layouts(
    model: Model, *, gpus: int, gpu: Accelerator, batch: int, stack: Stack | None = None, sequence: int | None = None
) -> Layouts:
    """All dp x tp x pp of so many accelerators. Raises CourseError where none fits."""
    kind = STACKS["megatron"] if stack is None else stack
    found = search(model, gpus=gpus, gpu=gpu, batch=batch, stack=kind, sequence=sequence, most=gpus * gpus)
    fits = {(each.plan.tp, each.plan.pp): each for each in found}
    cells = {
        (tp, pp): fits.get((tp, pp))
        for tp in range(1, min(gpu.node, gpus) + 1)
        if gpus % tp == 0 and model.heads % tp == 0
        for pp in range(1, min(model.layers, gpus // tp) + 1)
        if gpus // tp % pp == 0 and batch % (gpus // tp // pp) == 0
    }
    return Layouts(gpus=gpus, found=found, cells=cells, chosen=chosen(model, gpus=gpus))


def map_of_layouts(
    model: Model, *, gpus: int, gpu: Accelerator, batch: int, stack: Stack | None = None, sequence: int | None = None
) -> Figure:
    """A cell for each layout with the seconds of its step: tensor degrees downwards, pipeline degrees to the right.

    The fastest are marked, and the paper's own where one is known. Raises CourseError where none fits.
    """
    every = layouts(model, gpus=gpus, gpu=gpu, batch=batch, stack=stack, sequence=sequence)

    def draw(language: Language) -> Svg:
        return _drawn(every, language)

    return draw


def _drawn(every: Layouts, language: Language) -> Svg:
    said, words = Said(language), Words.of(language)
    best = every.found[0]
    title = said(
        "map-title", fit=len(every.found), count=len(every.cells), gpus=number(every.gpus, language),
        layout=_degrees(best), time=duration(best.seconds, language),
    )  # fmt: skip
    entries: list[Entry] = [
        (said("map-fits"), lambda sheet, x, y: sheet.shade(x, y - 10, 18, 12, strength=0.22)),
        (said("map-too-large"), lambda sheet, x, y: _too_large(sheet, x, y - 10, 18, 12)),
        (said("map-best"), lambda sheet, x, y: _best(sheet, "1", x, y - 10, 18, 12)),
    ]
    if every.chosen:
        sources = words.listed(sorted({each.source for each in every.chosen}))
        entries.append((said("map-chosen", source=sources), lambda sheet, x, y: _flag(sheet, x + 2, y - 12)))
    columns, rows = every.pipeline, every.tensor
    names = [said("map-tensor", degree=tp) for tp in rows]
    left = MARGIN + max(text_width(name, size=LABEL_SIZE) for name in names) + 12
    wide, tall = min((WIDTH - MARGIN - left) / len(columns), 90.0), 44.0
    sheet, top = titled_sheet(title, entries, gap=54, height=tall * len(rows) + 8, language=language)
    middle = left + wide * len(columns) / 2
    sheet.text(middle, top - 26, said("map-pipeline"), at="middle", size=SMALL_SIZE, quiet=True)
    for place, pp in enumerate(columns):
        sheet.text(left + (place + 0.5) * wide, top - 8, str(pp), at="middle", size=LABEL_SIZE, weight=600, ltr=True)
    ranks = {(each.plan.tp, each.plan.pp): place for place, each in enumerate(every.found[:BEST])}
    papers = {(each.tp, each.pp) for each in every.chosen}
    for row, tp in enumerate(rows):
        y = top + row * tall
        sheet.text(left - 10, y + tall / 2 + 3, names[row], at="right", size=LABEL_SIZE, weight=600)
        for place, pp in enumerate(columns):
            if (tp, pp) not in every.cells:
                continue
            x, found = left + place * wide, every.cells[tp, pp]
            box = (x + 1.5, y + 1.5, wide - 3, tall - 3)
            if found is None:
                _too_large(sheet, *box)
            else:
                _fits(sheet, found, best, box, language)
            if (tp, pp) in ranks:
                _best(sheet, str(ranks[tp, pp] + 1), *box)
            if (tp, pp) in papers:
                _flag(sheet, x + 4, y + 1)
    lines = _lines(every, said, words)
    header = [said(f"map-{name}-column") for name in ("place", "layout", "zero", "batch", "recompute", "step", "bytes")]
    chosen_at = [
        said("map-chosen-at", source=each.source, layout=f"dp {each.dp} × tp {each.tp} × pp {each.pp}", place=at)
        for each in every.chosen
        if (at := _place(every, each)) is not None
    ]
    told = [said("map-row", place=place, layout=layout, time=time) for place, layout, _, _, _, time, _ in lines[:BEST]]
    figure = sheet.svg(alt=" ".join([words.sentence(title), *told, *chosen_at]))
    return figure.beside(Table(lines, header=header, language=language).html)


def _lines(every: Layouts, said: Said, words: Words) -> list[tuple[str, ...]]:
    """The fastest layouts, and the papers' wherever they stand."""
    papers = {(each.tp, each.pp) for each in every.chosen}
    lines: list[tuple[str, ...]] = []
    for place, each in enumerate(every.found, 1):
        plan = each.plan
        if place > LISTED and (plan.tp, plan.pp) not in papers:
            continue
        mark = f" ({said('map-paper')})" if (plan.tp, plan.pp) in papers else ""
        chunks = said("map-chunks", count=plan.interleave) if plan.interleave > 1 else ""
        lines.append(
            (
                str(place), f"{_degrees(each)}{mark}", f"ZeRO-{plan.zero}" if plan.zero else "–",
                f"{plan.micro_batch}{chunks}", said(f"recompute-{plan.recompute}"),
                duration(each.seconds, words.language), words.bytes(each.bytes),
            )
        )  # fmt: skip
    return lines


def _place(every: Layouts, paper: Chosen) -> int | None:
    places = (
        place for place, each in enumerate(every.found, 1) if (each.plan.tp, each.plan.pp) == (paper.tp, paper.pp)
    )
    return next(places, None)


def _degrees(ranked: Ranked) -> str:
    plan = ranked.plan
    return f"dp {plan.dp} × tp {plan.tp} × pp {plan.pp}"


# --- marks

Box = tuple[float, float, float, float]


def _fits(sheet: Sheet, found: Ranked, best: Ranked, box: Box, language: Language) -> None:
    """The faster, the darker; the seconds of a step, and below the data-parallel degree."""
    x, y, wide, tall = box
    sheet.shade(x, y, wide, tall, strength=0.05 + 0.2 * (best.seconds / found.seconds) ** 2)
    time = _seconds(found.seconds, language)
    if text_width(time, size=SMALL_SIZE) < wide:
        sheet.text(x + wide / 2, y + tall / 2 + 1, time, at="middle", size=SMALL_SIZE, weight=600, ltr=True)
    degree = f"dp {found.plan.dp}"
    if text_width(degree, size=9) < wide:
        sheet.text(x + wide / 2, y + tall - 7, degree, at="middle", size=9, quiet=True, ltr=True)


def _seconds(seconds: float, language: Language) -> str:
    shown = number(round(seconds), language) if seconds >= 100 else number(seconds, language)
    return f"{shown}\u202fs"


def _too_large(sheet: Sheet, x: float, y: float, wide: float, tall: float) -> None:
    sheet.outline(x, y, wide, tall, opacity=0.3, dash="2 2")
    middle, half = (x + wide / 2, y + tall / 2), 3.0
    sheet.line(middle[0] - half, middle[1] - half, middle[0] + half, middle[1] + half, opacity=0.6)
    sheet.line(middle[0] - half, middle[1] + half, middle[0] + half, middle[1] - half, opacity=0.6)


def _best(sheet: Sheet, place: str, x: float, y: float, wide: float, tall: float) -> None:
    """A thick frame, with its place in the corner where there is room."""
    for inset in (0.0, 1.0):
        sheet.outline(x + inset, y + inset, wide - 2 * inset, tall - 2 * inset, opacity=1)
    if tall > 20:
        sheet.text(x + wide - 5, y + 12, place, at="right", size=10, weight=600, ltr=True)


def _flag(sheet: Sheet, x: float, y: float) -> None:
    """The paper's own."""
    sheet.category("optimizer_states", path=f"M{x:.1f} {y:.1f}h9v14l-4.5 -4l-4.5 4Z")
