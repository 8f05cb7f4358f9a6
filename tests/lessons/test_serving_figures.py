"""Figures of generation: their titles say what they show, and their numbers are in the table."""

from __future__ import annotations

import pytest

from labs.cases.scheduling import SCHEDULERS, account, requests
from lessons.figures import reading_in_turn, slots, token_times
from translations import language, languages
from translations.formats import percent


@pytest.mark.parametrize("code", [each.code for each in languages() if each.released])
def test_slots_say_what_each_way_uses(code: str) -> None:
    asked = requests(10, rate=0.5, prompt=8, new=12, seed=2)
    schedules = {name: list(schedule(asked, slots=3)) for name, schedule in SCHEDULERS.items()}
    figure = slots(schedules)(language(code))
    for schedule in schedules.values():
        told = account(schedule)
        assert percent(told.share_used, code, 2) in figure.alt
        assert str(told.iterations) in figure.table
    assert figure.markup.count("<svg") == 1


@pytest.mark.parametrize("code", [each.code for each in languages() if each.released])
def test_token_times_have_measurement_and_bound(code: str) -> None:
    figure = token_times()(language(code))
    assert "128" in figure.alt
    for cell in ("44.0" if code != "nl" else "44,0", "173", "49%"):
        assert cell in figure.table


@pytest.mark.parametrize("code", [each.code for each in languages() if each.released])
@pytest.mark.parametrize("gpus", [2, 4])
def test_in_turn_each_gpu_reads_once_in_both_ways(code: str, gpus: int) -> None:
    figure = reading_in_turn(gpus=gpus)(language(code))
    assert figure.markup.count("GPU ") >= 2 * gpus
    assert str(gpus) in figure.alt
    assert code == "en" or figure.alt != reading_in_turn(gpus=gpus)(language("en")).alt
