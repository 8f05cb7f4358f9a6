"""Figures of a planned run: what its ranks hold, what its links carry, and what its step is spent on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from labs.planner import links, throughput
from labs.planner.configuration import Configuration
from labs.planner.hardware import Accelerator
from labs.planner.memory import memory, rank_bars
from labs.telemetry.drawing import Svg, Table
from labs.telemetry.drawing.legend import (
    LABEL_SIZE,
    MARGIN,
    SMALL_SIZE,
    WIDTH,
    Words,
    line_entry,
    swatch_entry,
    titled_sheet,
)
from labs.telemetry.drawing.palette import FORMULA_DASH
from labs.telemetry.drawing.series import scale
from labs.telemetry.drawing.svg import Sheet, text_width
from lessons.figures.base import Figure, Said
from translations import CourseError, Language
from translations.formats import duration, number, percent

BARS = (
    "parameters", "optimizer_states", "gradients", "gathered", "buckets", "activations", "logits", "slack",
)  # fmt: skip
"""From the bottom of a stack: what stays, then what comes and goes."""
SPENT = ("computing", "recomputing", "waiting", "bubble", "tensor", "context", "data", "pipeline")
_EACH, _THICK = 24.0, 14.0
_MOST_NAMED = 12


def memory_of(plan: Configuration, *, gpu: Accelerator | None = None) -> Figure:
    """What a rank of each pipeline stage holds, and the fullest one bar by bar; a line where the accelerator is full.

    Raises CourseError for a configuration that cannot run.
    """
    worst = memory(plan, gpu=gpu)
    stages = [rank_bars(plan, stage=stage).as_dict() for stage in range(plan.pp)]

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        names = {name: _bar(name, said, words) for name in BARS}
        title = _memory_title(plan, worst.total, worst.stage, gpu, said, words)
        room = [] if gpu is None else [said("planned-room", gpu=gpu.title, size=words.bytes(gpu.memory))]
        left = MARGIN + max(text_width(name, size=LABEL_SIZE) for name in [*names.values(), said("planned-all")]) + 14
        right = WIDTH - MARGIN - text_width(words.bytes(888e9), size=LABEL_SIZE) - 8
        across = scale(0, max(worst.total, gpu.memory if gpu else 0), start=left, end=right)
        each = _EACH if plan.pp <= _MOST_NAMED else max(5.0, 320 / plan.pp)
        above, below = (plan.pp * each + 44 if plan.pp > 1 else 0.0), _EACH * (len(BARS) + 1)
        sheet, first = titled_sheet(title, gap=14 + 20 * len(room), height=above + below + 6, language=language)
        top, last = first + above, first + above + below
        if plan.pp > 1:
            names_of = [said("planned-stage", stage=stage) for stage in range(plan.pp)]
            _stages(sheet, stages, names_of, worst.stage, across, words, left=left, top=first, each=each)
            told = said("planned-worst", stage=worst.stage)
            sheet.opening(MARGIN, WIDTH - MARGIN, top - 12, told, size=LABEL_SIZE, weight=600)
        parts = [(name, float(worst.bars.as_dict()[name])) for name in BARS]
        rows = [(name, names[name], size, words.bytes(size)) for name, size in parts]
        _rows(sheet, rows, across, left=left, top=top, ltr=True)
        y, total = top + _EACH * len(BARS), words.bytes(worst.total)
        _stack(sheet, parts, across, y, _THICK)
        sheet.text(left - 12, y + _THICK / 2 + 4, said("planned-all"), at="right", size=LABEL_SIZE, weight=600)
        sheet.text(across(worst.total) + 8, y + _THICK / 2 + 4, total, size=LABEL_SIZE, weight=600, ltr=True)
        if gpu is not None:
            panels = [(first - 6, top - 32), (top - 6, last - 2)] if plan.pp > 1 else [(first - 6, last - 2)]
            _limit(sheet, across(gpu.memory), panels, room[0])
        header = [said("planned-stage-column"), *names.values(), said("planned-all")]
        lines = [
            [stage, *(words.bytes(held[name]) for name in BARS), words.bytes(sum(held.values()))]
            for stage, held in enumerate(stages)
        ]
        numbers = words.listed([words("part", name=label, size=size) for _, label, _, size in rows])
        alt = " ".join([words.sentence(title), words.sentence(numbers), *map(words.sentence, room)])
        return sheet.svg(alt=alt).beside(Table(lines, header=header, language=language).html)

    return draw


def _stages(
    sheet: Sheet, stages: Sequence[Mapping[str, int]], names: Sequence[str], fullest: int,
    across: Callable[[float], float], words: Words, *, left: float, top: float, each: float,
) -> None:  # fmt: skip
    """A stacked bar for each stage; where they are many, every so many are named, and the fullest."""
    every = 1 if len(stages) <= _MOST_NAMED else -(-len(stages) // 8)
    for stage, held in enumerate(stages):
        y, thick, total = top + stage * each, min(_THICK, each - 1), sum(held.values())
        _stack(sheet, [(name, held[name]) for name in BARS], across, y, thick)
        weight = 600 if stage == fullest else 400
        if stage == fullest or (stage % every == 0 and abs(stage - fullest) * each >= 12):
            sheet.text(left - 12, y + thick / 2 + 4, names[stage], at="right", size=LABEL_SIZE, weight=weight)
        if stage == fullest or every == 1:
            told = words.bytes(total)
            sheet.text(across(total) + 8, y + thick / 2 + 4, told, size=SMALL_SIZE, weight=weight, ltr=True)


def _memory_title(
    plan: Configuration, total: int, stage: int, gpu: Accelerator | None, said: Said, words: Words
) -> str:
    values = {"size": words.bytes(total), "stage": stage}
    where = "rank" if plan.pp == 1 else "stage"
    if gpu is None:
        return said(f"planned-{where}-holds", **values)
    values |= {"gpu": gpu.title, "room": words.bytes(gpu.memory)}
    if total <= gpu.memory:
        return said(f"planned-{where}-fits", **values, share=percent(total / gpu.memory, words.language, 2))
    return said(f"planned-{where}-over", **values, over=words.bytes(total - gpu.memory))


def _bar(name: str, said: Said, words: Words) -> str:
    if name in ("parameters", "gradients", "optimizer_states", "activations"):
        return words.category(name)
    return said(f"bar-{name}")


def step_of(
    plan: Configuration, *, gpu: Accelerator, tokens: float | None = None, price: float | None = None
) -> Figure:
    """What the seconds of a step are spent on. With a budget of tokens the table also has days, cost and energy.

    Raises CourseError for a configuration that cannot run.
    """
    found = throughput.throughput(plan, gpu=gpu, tokens=tokens, price=price)
    parts = spent(plan, gpu=gpu)

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        names = {name: said(f"spent-{name}") for name in SPENT}
        whole = found.seconds_per_step
        took = duration(whole, language)
        own, rate = percent(found.mfu, language), number(found.tflops_per_gpu, language)
        title = said("spent-title", time=took, mfu=own)
        left = MARGIN + max(text_width(name, size=LABEL_SIZE) for name in [*names.values(), said("spent-all")]) + 14
        right = WIDTH - MARGIN - max(text_width(f"{took} (88.8%)", size=LABEL_SIZE), 96)
        across = scale(0, whole, start=left, end=right)
        sheet, top = titled_sheet(title, gap=14, height=_EACH * (len(SPENT) + 1) + 6, language=language)
        told = {
            name: said("spent-part", time=duration(seconds, language), share=percent(seconds / whole, language, 2))
            for name, seconds in parts.items()
        }
        rows = [(name, names[name], parts[name], told[name]) for name in SPENT]
        _rows(sheet, rows, across, left=left, top=top, ltr=False)
        y = top + _EACH * len(SPENT)
        _stack(sheet, list(parts.items()), across, y, _THICK)
        sheet.text(left - 12, y + _THICK / 2 + 4, said("spent-all"), at="right", size=LABEL_SIZE, weight=600)
        sheet.text(
            right + 8,
            y + _THICK / 2 + 4,
            took,
            size=LABEL_SIZE,
            weight=600,
        )
        lines = [(names[name], told[name]) for name in SPENT]
        lines += [(said("spent-all"), took), ("TFLOP/s", rate), ("MFU", own), ("HFU", percent(found.hfu, language))]
        for name, value in (("days", found.days), ("cost", found.cost), ("energy", found.energy_kwh)):
            if value is not None:
                lines.append((said(f"spent-{name}"), number(value, language)))
        numbers = words.listed([words("part", name=name, size=value) for name, value in lines])
        figure = sheet.svg(alt=f"{words.sentence(title)} {words.sentence(numbers)}")
        return figure.beside(Table(lines, header=["", words("table-value")], language=language).html)

    return draw


def spent(plan: Configuration, *, gpu: Accelerator) -> dict[str, float]:
    """Seconds of a step by what they go to; their sum is the step. What is sent counts where nothing hides it."""
    whole, computing = throughput.seconds(plan, gpu=gpu), throughput.compute_seconds(plan, gpu=gpu)
    sent = links.in_the_open(links.axes(plan, gpu=gpu), computing=computing)
    even = computing * plan.model.layers / (max(plan.layers) * plan.pp)
    again = even * (1 - throughput.step_flops(plan, recompute="none") / throughput.step_flops(plan))
    inside = {"computing": even - again, "recomputing": again, "waiting": computing - even}
    return {**inside, "bubble": max(whole - computing - sum(sent.values()), 0.0), **sent}


def links_of(plan: Configuration, *, gpu: Accelerator) -> Figure:
    """How long each axis keeps its link busy in a step, beside the time for which the rank computes.

    Raises CourseError for a configuration that cannot run.
    """
    plan.checked()
    found = links.axes(plan, gpu=gpu)
    computing = throughput.compute_seconds(plan, gpu=gpu)
    full = links.bottleneck(found, computing=computing)
    open_ = links.in_the_open(found, computing=computing)
    if any(math.isinf(axis.seconds) for axis in found):
        raise CourseError("labs.plan-no-network", gpu=gpu.title, node=gpu.node)

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        time = duration(computing, language)
        title = (
            said("links-kept", time=time) if full is None else said("links-full", axis=words(f"axis-{full}"), time=time)
        )
        names = [said("links-axis", axis=words(f"axis-{axis.name}"), link=said(f"link-{axis.link}")) for axis in found]
        told = [
            said("links-told", size=words.bytes(axis.bytes), time=duration(axis.seconds, language)) for axis in found
        ]
        left = MARGIN + max(text_width(name, size=LABEL_SIZE) for name in names) + 14
        right = WIDTH - MARGIN - max(text_width(each, size=LABEL_SIZE) for each in told) - 8
        longest = max([computing, *(axis.seconds for axis in found)])
        across = scale(0, longest, start=left, end=right)
        entries = [
            swatch_entry(said("links-open"), "communication"),
            (said("links-hidden"), lambda sheet, x, y: _hidden(sheet, x, y - 10, 18, 12)),
            line_entry(said("links-computing", time=time), dash=FORMULA_DASH, width=1.8),
        ]
        sheet, top = titled_sheet(title, entries, gap=18, height=30 * len(found) + 6, language=language)
        for index, axis in enumerate(found):
            y = top + 30 * index
            waits, until = across(open_[axis.name]), across(axis.seconds)
            sheet.text(left - 12, y + 13, names[index], at="right", size=LABEL_SIZE)
            if axis.seconds:
                _hidden(sheet, waits, y, until - waits, 18)
                sheet.swatch("communication", left, y, waits - left, 18)
            sheet.text(until + 8, y + 13, told[index], size=LABEL_SIZE)
        at = across(computing)
        sheet.line(at, top - 6, at, top + 30 * len(found) - 6, width=1.8, dash=FORMULA_DASH)
        header = [said(f"links-{name}-column") for name in ("axis", "link", "bytes", "time", "open")]
        lines = [
            (
                words(f"axis-{axis.name}"), said(f"link-{axis.link}"), words.bytes(axis.bytes),
                duration(axis.seconds, language), duration(open_[axis.name], language),
            )
            for axis in found
        ]  # fmt: skip
        numbers = [words("group-numbers", name=name, parts=parts) for name, parts in zip(names, told, strict=True)]
        figure = sheet.svg(alt=" ".join([words.sentence(title), *numbers]))
        return figure.beside(Table(lines, header=header, language=language).html)

    return draw


# --- marks that these figures share


def _stack(
    sheet: Sheet, parts: Sequence[tuple[str, float]], across: Callable[[float], float], y: float, thick: float
) -> None:
    """The parts end to end."""
    done = 0.0
    for name, size in parts:
        if size:
            sheet.swatch(name, across(done), y, across(done + size) - across(done), thick)
        done += size


def _rows(
    sheet: Sheet, rows: Sequence[tuple[str, str, float, str]], across: Callable[[float], float], *, left: float,
    top: float, ltr: bool,
) -> None:  # fmt: skip
    """A named bar for each part, all from the same line on, and its number at its end."""
    for index, (name, label, size, told) in enumerate(rows):
        y = top + _EACH * index
        sheet.text(left - 12, y + _THICK / 2 + 4, label, at="right", size=LABEL_SIZE)
        sheet.shade(left, y, across(0) - left + 1, _THICK, strength=0.35)
        if size:
            sheet.swatch(name, left, y, max(across(size) - left, 1.0), _THICK)
        sheet.text(across(size) + 8, y + _THICK / 2 + 4, told, size=SMALL_SIZE, quiet=not size, ltr=ltr)


def _limit(sheet: Sheet, x: float, panels: Sequence[tuple[float, float]], words: str) -> None:
    """A dashed line through each panel, with what it stands for above the first, on the side that has room."""
    top = panels[0][0]
    for begin, end in panels:
        sheet.line(x, begin, x, end, width=1.8, dash=FORMULA_DASH)
    if x > WIDTH / 2:
        sheet.text(min(x + 40, WIDTH - MARGIN), top - 6, words, at="right", size=SMALL_SIZE)
    else:
        sheet.text(x, top - 6, words, size=SMALL_SIZE)


def _hidden(sheet: Sheet, x: float, y: float, width: float, height: float) -> None:
    """What computation hides: there, but pale."""
    if width > 0:
        sheet.shade(x, y, width, height, strength=0.12)
        sheet.outline(x, y, width, height, opacity=0.5, dash="2 2")
