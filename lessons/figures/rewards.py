"""Figures of the kept GRPO runs."""

from __future__ import annotations

from statistics import fmean

from labs.cases.grpo_runs import runs
from labs.telemetry.drawing import Svg
from labs.telemetry.drawing.rewards import lines_over_steps
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
