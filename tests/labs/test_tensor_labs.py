"""The labs tensor and sequence as people start them: their JSON, the formulas, and what cannot run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from labs import mean_for_sum
from labs.catalogue import formula, run_lab
from labs.planner.tensor import layer_traffic
from labs.strategies import tensor
from translations import CourseError

SMALL: dict[str, Any] = {"layers": 2, "hidden": 32, "sequence": 16, "steps": 3, "micro_batch": 2}


@pytest.mark.parametrize("name", ["tensor", "sequence"])
def test_the_json_holds_what_is_promised(name: str) -> None:
    run = run_lab(name, ranks=2, **SMALL)
    data = json.loads(json.dumps(run.data))
    assert data["layout"] == {"dp": 1, "tp": 2, "sequence_parallel": name == "sequence", "precision": "fp32"}
    assert data["global_batch"] == 2
    for report in data["ranks"]:
        assert report["losses"] == data["ranks"][0]["losses"]
        assert report["losses"] == pytest.approx(data["reference_losses"], abs=2e-6)
        assert report["axes"] == {"tensor": report["collectives"]}
        assert report["collectives"] == report["predicted"]["collectives"]
    assert run.model_states() == formula(name, ranks=2, **SMALL).model_states
    kept = data["activations"]["kept"]
    assert kept["formula"] <= kept["measured"] <= 1.02 * kept["formula"]


def test_a_layer_moves_what_the_paper_says_counted_by_the_buffer() -> None:
    """Two models that differ by one layer; links carry (t - 1) / t of a buffer."""
    moved = [run_lab("tensor", ranks=2, **(SMALL | {"layers": layers})).traffic() for layers in (1, 2)]
    expected = layer_traffic(batch=2, sequence=16, hidden=32, ranks=2) * 2 / (2 - 1)
    assert (moved[1] - moved[0]) / 4 == expected == 8 * 2 * 16 * 32


@pytest.mark.parametrize(
    ("name", "ranks", "options", "said"),
    [
        ("tensor", 3, {}, "4 attention heads do not divide by 3 ranks"),
        ("tensor", 2, {"clip": 0.0}, "norm of the gradient must be above zero"),
        ("sequence", 4, {"sequence": 18}, "Nearest that works: --sequence 20."),
    ],
)
def test_what_cannot_run_is_refused(name: str, ranks: int, options: dict[str, Any], said: str) -> None:
    with pytest.raises(CourseError, match=said):
        run_lab(name, ranks=ranks, **(SMALL | options))


def test_the_planted_mean_shows_from_the_second_loss_on() -> None:
    """In fp64, where rounding is far below it; and the strategy of this process is as it was."""
    options = SMALL | {"precision": "fp64"}
    right, wrong = run_lab("tensor", ranks=2, **options), mean_for_sum.losses(ranks=2, **options)
    alone = right.data["reference_losses"]
    apart = [abs(one - two) for one, two in zip(alone, wrong, strict=True)]
    assert apart[0] < 1e-14
    assert min(apart[1:]) > 1e-10
    assert right.losses == pytest.approx(alone, abs=1e-12)
    assert tensor.Copy.backward is not mean_for_sum.averaged
