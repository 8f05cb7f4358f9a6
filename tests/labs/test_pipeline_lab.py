"""The pipeline lab as people start it: what its JSON adds, its bytes and messages, and what cannot run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from labs.catalogue import LabRun, checked, formula, run_lab
from labs.planner.pipeline import message
from translations import CourseError

SMALL: dict[str, Any] = {"hidden": 32, "sequence": 8, "steps": 3, "micro_batch": 2}


@pytest.fixture(scope="module", params=["gpipe", "1f1b", "interleaved", "zero-bubble"])
def lab(request: pytest.FixtureRequest) -> LabRun:
    layers: dict[str, Any] = {"layers": 4} if request.param == "interleaved" else {"layers": 3, "tied": True}
    return run_lab("pipeline", ranks=2, micro_batches=4, schedule=request.param, **layers, **SMALL)


def test_the_json_has_the_timetable_and_what_is_counted_from_it(lab: LabRun) -> None:
    data = json.loads(json.dumps(lab.data))
    layout = data["layout"]
    assert layout["pp"] == 2
    v, split = layout.get("chunks", 1), layout["schedule"] == "zero-bubble"
    slots = [slot for row in data["timetable"] for slot in row]
    assert len(data["timetable"]) == 2
    assert data["bubble"] == pytest.approx(slots.count(None) / len(slots))
    assert data["bubble"] == pytest.approx(1 / ((3 * 4 if split else 4 * v) + 1))
    for row in data["timetable"]:
        assert row.count("F0") == 1
        assert row.count("B0") == (1 if split else 2)
        assert row.count("W0") == (1 if split else 0)
        assert row.count("F0@1") == (1 if v > 1 else 0)
    assert (
        data["in_flight"]
        == {"gpipe": [4, 4], "1f1b": [2, 1], "interleaved": [5, 3], "zero-bubble": [2, 2]}[layout["schedule"]]
    )
    assert sum(stage["layers"] for stage in data["stages"]) == (4 if v > 1 else 3)


def test_the_ranks_clocks_tell_a_bubble_too(lab: LabRun) -> None:
    """Its size is the machine's affair; that it is a share, and there, is not."""
    assert 0 < lab.data["bubble_by_clock"] < 1


def test_only_the_last_stage_has_losses(lab: LabRun) -> None:
    first, last = lab.data["ranks"]
    assert first["losses"] == []
    assert last["losses"] == pytest.approx(lab.data["reference_losses"], abs=2e-6)
    assert lab.losses == last["losses"]


def test_states_are_the_formula_to_the_byte_and_messages_exactly(lab: LabRun) -> None:
    for report in lab.data["ranks"]:
        predicted = report["predicted"]
        for name, size in predicted["states"].items():
            assert report["bytes"]["rest"][name] == size
        assert report["collectives"] == predicted["collectives"]
        assert set(report["axes"]) == {"pipeline"}
        assert predicted["bubble"] == pytest.approx(lab.data["bubble"])
        assert predicted["in_flight"] == lab.data["in_flight"][report["rank"]]


def test_activations_are_what_is_in_flight_and_a_few_messages(lab: LabRun) -> None:
    """Beside what is kept: an input and results on their way, and on the last stage the logits of one micro-batch."""
    size = message(micro_batch=2, sequence=8, hidden=32, precision="fp32")
    for report, logits in zip(lab.data["ranks"], (0, 2 * 8 * 256 * 4), strict=True):
        over = report["bytes"]["peak"]["activations"] - report["predicted"]["activations"]
        assert 0 <= over <= 6 * size + logits


def test_a_shared_weight_counts_on_both_stages() -> None:
    sizes: dict[str, Any] = {"layers": 3, "hidden": 32, "micro_batches": 4, "tied": True}
    first, last = (formula("pipeline", ranks=2, rank=rank, **sizes) for rank in (0, 1))
    alone = formula("zero", ranks=1, layers=3, hidden=32, tied=True)
    assert first.parameters + last.parameters == alone.parameters + 256 * 32 * 4


@pytest.mark.parametrize(
    ("ranks", "options", "says"),
    [
        (4, {"micro_batches": 3}, "4 stages cannot all work at once on fewer micro-batches"),
        (4, {"schedule": "interleaved", "micro_batches": 6}, "6 micro-batches are no multiple of 4 ranks"),
        (4, {"schedule": "interleaved", "chunks": 1}, "Interleaving needs two ranks or more"),
        (1, {"schedule": "interleaved"}, "Interleaving needs two ranks or more"),
        (4, {"schedule": "gpipe", "chunks": 2}, "Only the interleaved schedule"),
        (4, {"layers": 3}, "3 layers do not fill 4 stages"),
        (4, {"schedule": "interleaved", "layers": 7}, "7 layers do not fill 8 stages"),
        (4, {"accumulate": 2}, "--accumulate 2 says the same thing twice"),
        (4, {"schedule": "dualpipe"}, "--schedule must be one of these"),
        (4, {"micro_batches": 0}, "micro-batches must be at least 1"),
    ],
)
def test_what_cannot_run_is_refused_with_a_reason(ranks: int, options: dict[str, Any], says: str) -> None:
    with pytest.raises(CourseError, match=says):
        checked("pipeline", options, ranks=ranks)
