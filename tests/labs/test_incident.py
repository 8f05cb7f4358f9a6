"""Incidents on real ranks: each alarm finds its fault and only it, and after a rollback nothing of it is left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from labs import catalogue
from labs.options.incident import KINDS, IncidentOptions
from labs.runner import run
from labs.telemetry.events import Event
from labs.telemetry.lanes import timeline
from tests.labs.incidents import NEVER
from translations import CourseError

RANKS = 4


@pytest.fixture(scope="module")
def incidents() -> list[dict[str, Any]]:
    reports = [each.value for each in run(Path(__file__).with_name("incidents.py"), ranks=RANKS, timeout=240).ranks]
    for report in reports[1:]:
        assert [each["alarm"] for each in report] == [each["alarm"] for each in reports[0]], "all ranks agree"
    found: list[dict[str, Any]] = reports[0]
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_each_alarm_finds_its_fault_and_names_rank_and_step(incidents: list[dict[str, Any]], kind: str) -> None:
    planted = [each for each in incidents if each["kind"] == kind and each["at"] != NEVER]
    assert len(planted) == 4
    for each in planted:
        alarm = each["alarm"]
        assert alarm["kind"] == kind
        assert alarm["rank"] == (None if kind == "loss-spike" else each["culprit"])
        assert alarm["step"] == each["at"] + (2 if kind == "straggler" else 0)
        assert each["rolled_back_to"] == (None if kind == "straggler" else 6)


def test_without_a_fault_no_alarm_is_raised(incidents: list[dict[str, Any]]) -> None:
    sound = [each for each in incidents if each.get("at") == NEVER]
    assert [each["alarm"] for each in sound] == [None] * 4


def test_after_a_rollback_the_run_is_the_one_that_nothing_happened_to(incidents: list[dict[str, Any]]) -> None:
    sound = {each["seed"]: each["losses"] for each in incidents if each.get("at") == NEVER}
    for each in incidents:
        if each["kind"] in ("straggler", "bad-gradient"):
            assert each["losses"] == sound[each["seed"]]


def test_a_replica_with_one_wrong_bit_is_named(incidents: list[dict[str, Any]]) -> None:
    alarm = incidents[-1]["alarm"]
    assert (alarm["kind"], alarm["rank"], alarm["step"]) == ("bad-gradient", 2, 1)
    assert len(set(alarm["evidence"]["checksums"])) == 2


def test_the_lab_tells_what_happened_and_what_it_cost() -> None:
    found = catalogue.run_lab("incident", ranks=3, kind="loss-spike", steps=10)
    data = found.data
    assert data["alarm"]["kind"] == "loss-spike"
    assert data["alarm"]["evidence"]["z"] > 4
    assert data["rolled_back_to"] == 6
    assert data["lost"]["steps"] == 3
    assert data["lost"]["skipped_data_of_step"] == 8
    assert found.losses == pytest.approx(data["reference_losses"], abs=2e-6)
    line = timeline([Event.of(each) for each in data["events"]], ranks=3)
    assert line.lost == 3
    assert [mark.name for mark in line.lanes[1].marks] == ["alarm", "resumed"]
    states = catalogue.formula("incident", ranks=3)
    for category in ("parameters", "gradients", "optimizer_states"):
        assert found.bytes(category) == states.as_dict()[category] == data["predicted"]["states"][category]


@pytest.mark.parametrize(
    ("options", "ranks", "said"),
    [
        ({"kind": "meteor"}, 4, "straggler, bad-gradient, loss-spike"),
        ({}, 2, "Of 2 ranks nobody can say which is wrong"),
        ({"culprit": 4}, 4, "The ranks are numbered from 0 to 3; none is 4"),
        ({"at": 2}, 4, "at must be at least 6"),
        ({"save_every": 0}, 4, "save-every must be at least 1"),
    ],
)
def test_what_cannot_be_run_is_refused(options: dict[str, Any], ranks: int, said: str) -> None:
    with pytest.raises(CourseError, match=said):
        IncidentOptions(**options).checked(ranks=ranks)
