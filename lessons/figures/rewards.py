"""Figures of the kept GRPO runs."""

from __future__ import annotations

from statistics import fmean

from labs.cases.grpo_runs import runs
from labs.telemetry.drawing import Svg
from labs.telemetry.drawing.legend import LABEL_SIZE, MARGIN, SMALL_SIZE, WIDTH, titled_sheet
from labs.telemetry.drawing.rewards import lines_over_steps
from labs.telemetry.drawing.svg import Sheet, wrapped
from lessons.figures.base import Figure, Said
from translations import Language
from translations.formats import percent


def rewards_of_seeds() -> Figure:
    """The mean reward of each seed against steps."""

    def draw(language: Language) -> Svg:
        said, found = Said(language), runs()["runs"]
        lines = {
            said("rewards-seed", seed=each["seed"]): [point["reward"] for point in each["curve"]] for each in found
        }
        message = said("rewards-title", count=len(found))
        return lines_over_steps(lines, language=language, message=message, lowest=1.0, highest=2.0)

    return draw


def one_try_and_many() -> Figure:
    """The share right at one try, and with at least one right in a group; means over the seeds."""

    def draw(language: Language) -> Svg:
        said, kept = Said(language), runs()
        curves = [each["curve"] for each in kept["runs"]]
        size = kept["group_size"]
        lines = {
            said(f"rewards-{name}", count=size): [
                fmean(at[name] for at in points) for points in zip(*curves, strict=True)
            ]
            for name in ("right", "any")
        }
        measured = {
            f"{name}_{when}": percent(fmean(each[at][name] for each in kept["runs"]), language, digits=2)
            for name in ("right", "any")
            for when, at in (("before", "start"), ("after", "end"))
        }
        message = said("rewards-tries-title", count=size, **measured)
        return lines_over_steps(lines, language=language, message=message, highest=1.0)

    return draw


PARTS = ("gather", "copy", "sample", "score", "update")
"""Of a step, in the order of time: what the trainers do, and what the generator does."""
ON_GENERATOR = ("copy", "sample")
BOX, TALL, LANE = 122.0, 84.0, 120.0


def grpo_round() -> Figure:
    """A step of GRPO on two kinds of machine: weights go down from the shards, outputs come up."""

    def draw(language: Language) -> Svg:
        said = Said(language)
        sheet, top = titled_sheet(said("round-title"), gap=30, height=LANE + TALL + 30, language=language)
        for name, y in (("trainers", top - 12), ("generator", top + LANE + TALL + 22)):
            sheet.opening(MARGIN, WIDTH - MARGIN, y, said(f"round-{name}"), size=LABEL_SIZE, weight=600)
        places = {"gather": 0.0, "copy": 0.0, "sample": 1.35, "score": 2.7, "update": 4.05}
        step = (WIDTH - 2 * MARGIN - BOX) / 4.05
        spots = {
            name: (_mirrored(MARGIN + places[name] * step, sheet), top + LANE * (name in ON_GENERATOR))
            for name in PARTS
        }
        for name, (x, y) in spots.items():
            sheet.shade(x, y, BOX, TALL, strength=0.07 if name in ON_GENERATOR else 0.03)
            sheet.outline(x, y, BOX, TALL, radius=4)
            lines = wrapped(said(f"round-{name}"), size=SMALL_SIZE, width=BOX - 14)
            for number, line in enumerate(lines):
                middle = y + TALL / 2 + 4 + (number - (len(lines) - 1) / 2) * 14
                sheet.text(x + BOX / 2, middle, line, at="middle", size=SMALL_SIZE)
        centre = {name: (x + BOX / 2, y + TALL / 2) for name, (x, y) in spots.items()}
        ahead = -1 if sheet.rtl else 1
        sheet.arrow([(centre["gather"][0], top + TALL + 4), (centre["gather"][0], top + LANE - 6)])
        for before, after in (("copy", "sample"), ("score", "update")):
            (x, y), (far, _) = centre[before], centre[after]
            sheet.arrow([(x + ahead * (BOX / 2 + 4), y), (far - ahead * (BOX / 2 + 4), y)])
        (x, y), (far, up) = centre["sample"], centre["score"]
        sheet.arrow([(x + ahead * (BOX / 2 + 4), y), (far, y), (far, up + TALL / 2 + 6)])
        return sheet.svg(alt=said("round-alt"))

    return draw


def _mirrored(x: float, sheet: Sheet) -> float:
    """The left edge of a box that stands so far from where reading begins."""
    return WIDTH - x - BOX if sheet.rtl else x
