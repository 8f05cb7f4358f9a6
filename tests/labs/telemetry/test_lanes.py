"""The timeline of a run from its events: what was lost, how long it stood, and what is told of it."""

from __future__ import annotations

import re

import pytest

from labs.telemetry.drawing.lanes import happened, lanes_over_time, run_message
from labs.telemetry.drawing.legend import Words
from labs.telemetry.events import Event
from labs.telemetry.lanes import Timeline, timeline
from translations import languages

LANGUAGES = [each.code for each in languages() if each.released]


def told(seconds: float, name: str, rank: int | None = None, attempt: int = 0, **values: object) -> Event:
    return Event(seconds=seconds, name=name, rank=rank, attempt=attempt, values=values)


def trained(rank: int, steps: range, *, start: float, attempt: int = 0) -> list[Event]:
    """Steps of a second each, of which the last is begun only."""
    begun = [told(start + number, "step", rank, attempt, step=step) for number, step in enumerate(steps)]
    return begun + [told(each.seconds + 0.4, "trained", rank, attempt) for each in begun[:-1]]


def failure() -> list[Event]:
    """Three ranks save after 2 steps; in step 4 rank 1 is killed; the run goes on with two ranks."""
    events = [told(0.0, "started", rank) for rank in range(3)]
    for rank in range(3):
        events += trained(rank, range(5), start=1.0)
        events += [told(2.9, "saving", rank, step=2), told(4.5 + rank / 10, "saved", rank, step=2)]
    events += [told(5.5, "killed", 1), told(6.0, "detected"), told(6.5, "restarting", ranks=2)]
    for rank in range(2):
        events += [told(8.0 + rank / 10, "resumed", rank, 1, step=2), *trained(rank, range(2, 6), start=8.5, attempt=1)]
        events.append(told(12.5, "finished", rank, 1))
    return events


def kinds(run: Timeline, rank: int) -> list[tuple[str, int | None]]:
    return [(each.kind, each.step) for each in run.lanes[rank].stretches if each.kind != "saving"]


def test_steps_that_are_done_again_are_lost_also_those_of_a_rank_that_does_not_come_back() -> None:
    run = timeline(failure(), ranks=3)
    before: list[tuple[str, int | None]] = [("starting", None), ("training", 0), ("training", 1)]
    before += [("lost", 2), ("lost", 3), ("lost", 4)]
    again = [("training", step) for step in range(2, 6)]
    for rank in range(2):
        assert kinds(run, rank) == [*before, ("starting", None), *again]
    assert kinds(run, 2) == before
    assert run.lost == 2, "the third was not done when rank 1 was killed"
    assert run.pauses == (2.5,)
    assert run.end == 12.5
    assert max(each.end for each in run.lanes[2].stretches) == 6.5, "it ends as the others start again"


def test_a_save_beside_training_is_told_from_one_that_holds_it_up() -> None:
    def saved(events: list[Event]) -> list[bool]:
        return [each.aside for each in timeline(events, ranks=1).lanes[0].stretches if each.kind == "saving"]

    save = [told(1.5, "saving", 0, step=1), told(1.9, "saved", 0, step=1)]
    assert saved([*trained(0, range(3), start=1.0), *save]) == [False]
    assert saved([*trained(0, range(3), start=1.0), save[0], told(2.5, "saved", 0, step=1)]) == [True]


def test_a_save_that_its_rank_did_not_live_to_end_is_none() -> None:
    events = [*trained(0, range(2), start=0.0), told(1.5, "saving", 0, step=1), told(1.6, "killed", 0)]
    assert [each.kind for each in timeline(events, ranks=1).lanes[0].stretches] == ["training", "training"]


def test_a_rollback_within_a_run_loses_what_came_after_the_checkpoint() -> None:
    events = [*trained(0, range(4), start=0.0), told(3.5, "alarm", 0, kind="loss-spike", step=3)]
    events += [told(3.6, "resumed", 0, step=2), *trained(0, range(2, 4), start=3.7), told(6.0, "finished", 0)]
    run = timeline(events, ranks=1)
    assert [(each.kind, each.step) for each in run.lanes[0].stretches] == [
        ("training", 0), ("training", 1), ("lost", 2), ("lost", 3), ("training", 2), ("training", 3),
    ]  # fmt: skip
    assert run_message(run, Words.of("en")) == ("The alarm (loss spike) names rank 0 in step 3; 1 step was done again")


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_picture_says_what_happened_once_for_all_ranks(language: str) -> None:
    run = timeline(failure(), ranks=3)
    words = Words.of(language)
    lines = [what for _, what in happened(run, words)]
    assert lines == [
        words("event-saved", step=2),
        words("event-killed", rank=1),
        words("event-detected-all"),
        words("event-resumed-all", step=2),
    ]
    figure = lanes_over_time(run, language=language)
    plain = re.sub("[\u2066\u2069]", "", figure.alt)
    assert words.time(2.5) in plain
    for line in lines:
        assert re.sub("[\u2066\u2069]", "", line) in plain
    assert "<details" in figure.html


def test_what_is_said_of_a_run_by_how_it_goes() -> None:
    words = Words.of("en")

    def said(events: list[Event], *, under_way: bool = False) -> str:
        return run_message(timeline(events, ranks=2), words, under_way=under_way)

    assert said([]) == "The ranks have not begun a step"
    steps = [*trained(0, range(3), start=0.0), *trained(1, range(3), start=0.0)]
    assert said(steps, under_way=True) == "The ranks train"
    assert said(steps) == "The ranks took 3 steps without a failure"
    assert said([*steps, told(9.0, "killed", 1)]) == "Rank 1 was killed"
    alarm = told(9.0, "alarm", None, kind="loss-spike", step=2)
    assert said([*steps, alarm]) == "The alarm (loss spike) names step 2"
