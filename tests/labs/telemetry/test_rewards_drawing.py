"""The curve of rewards: its message, its table, while it grows and at the end, in every language."""

from __future__ import annotations

import re

import pytest

from labs.telemetry.drawing.legend import Words
from labs.telemetry.drawing.rewards import LINES, lines_over_steps, reward_message, rewards_over_steps, smoothed
from labs.telemetry.events import Event
from labs.telemetry.live import VIEWS, live
from labs.telemetry.live.rewards import Rewards
from translations import languages

LANGUAGES = [each.code for each in languages()]
CURVE = [{"reward": 1 + step / 40, "form": 1.0, "right": step / 40, "any": 0.9} for step in range(40)]


def told(step: int) -> Event:
    return Event(seconds=float(step), name="rewarded", rank=0, values={"step": step, **CURVE[step]})


def test_a_point_is_the_mean_of_those_before_it() -> None:
    assert smoothed([2.0, 4.0]) == [2.0, 3.0]
    assert smoothed([float(n) for n in range(20)])[-1] == 14.5
    assert smoothed([]) == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_figure_says_its_numbers_in_words_and_in_a_table(language: str) -> None:
    figure = rewards_over_steps(CURVE, language=language)
    assert re.search("1[.,]11.*1[.,]86", figure.alt)
    assert figure.table.count("<tr") == 11
    assert figure.markup.count('fill="none" stroke') == len(LINES)


def test_one_step_and_none_are_figures_too() -> None:
    assert "1 step" in rewards_over_steps(CURVE[:1], language="en").alt
    none = rewards_over_steps([], language="en")
    assert none.alt == "No step has been rewarded yet."
    assert not none.table


def test_lines_of_several_runs_keep_their_names_apart() -> None:
    same = {f"seed {seed}": [1.5, 1.6] for seed in range(4)}
    figure = lines_over_steps(same, language="en", message="Four", lowest=1.0, highest=2.0)
    places = [float(y) for y in re.findall(r'y="([\d.]+)"[^>]*>seed', figure.markup)]
    assert len(places) == 4
    assert min(b - a for a, b in zip(sorted(places), sorted(places)[1:], strict=False)) >= 14


def test_the_live_view_grows_and_a_step_told_again_counts_once() -> None:
    scene = Rewards(2, "en")
    assert not scene.take(0, Event(seconds=0.0, name="saved", rank=0))
    assert all(scene.take(0, told(step)) for step in (0, 1, 1, 2))
    assert not scene.moves()
    assert "In 3 steps" in scene.status(3.0)
    assert "In 3 steps" in scene.draw(3.0).alt
    assert "In 40 steps" in scene.finished({"curve": CURVE}).alt
    assert "In 3 steps" in scene.finished(None).alt


def test_it_is_one_of_the_views() -> None:
    assert "reward" in VIEWS
    view = live("reward", ranks=2, formula=None, language="en")
    view.feed(0, told(0))
    assert "1 step" in view.finish().alt


def test_the_message_is_that_of_the_means() -> None:
    assert reward_message(CURVE, Words.of("en")) == "In 40 steps the mean reward went from 1.11 to 1.86"
