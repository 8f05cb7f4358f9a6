"""The small BLOOM: its attention, its training on meshes beside one process, and what a checkpoint of it holds."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labs.cases.bloom import PUBLISHED, Alibi, Bloom, BloomShape, slopes, split_slopes
from labs.catalogue import run_lab
from labs.model import parameter_count
from labs.planner.models import model
from labs.runner import run

SMALL: dict[str, Any] = {"layers": 3, "hidden": 16, "heads": 4, "sequence": 8, "steps": 3}
BOUND = {"fp64": 1e-10, "fp32": 2e-6}
CASES: list[dict[str, Any]] = [
    {"precision": "fp64", "dp": 1, "pp": 2, "tp": 2},
    {"precision": "fp64", "dp": 2, "pp": 1, "tp": 2, "zero": 1, "recompute": "none"},
    {"precision": "fp64", "dp": 1, "pp": 1, "tp": 4, "sequence_parallel": True},
    {"precision": "fp32", "dp": 2, "pp": 2, "tp": 1},
]


def test_parameters_are_what_the_planner_counts() -> None:
    small = Bloom(BloomShape())
    layers, d = 5, 128
    assert parameter_count(small) == layers * (12 * d * d + 13 * d) + 256 * d + 4 * d
    published = model("bloom-176b")
    assert {"layers": published.layers, "hidden": published.hidden, "heads": published.heads} == PUBLISHED
    assert math.gcd(*PUBLISHED.values()) == 14
    assert (PUBLISHED["layers"] // 14, PUBLISHED["heads"] // 14) == (BloomShape().layers, BloomShape().heads)


@settings(deadline=None)
@given(heads=st.integers(1, 130))
def test_slopes_fall_and_start_at_the_papers_first(heads: int) -> None:
    found = slopes(heads)
    known = 2 ** int(math.log2(heads))
    assert len(found) == heads == len(set(found))
    assert found[0] == 2 ** (-8 / known)
    assert all(a > b for a, b in itertools.pairwise(found[:known]))
    assert all(0 < each < 1 for each in found)


def test_alibi_takes_off_the_distance_and_sees_no_future() -> None:
    attend = Alibi(slopes(2))
    q, k = torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 5, 4)
    v = torch.eye(5).expand(1, 2, 5, 5)
    weights = attend(q, k, v)  # values are unit vectors: what comes out is the weights
    for head, slope in enumerate(slopes(2)):
        for row, at in enumerate((2, 3, 4)):
            scores = torch.tensor([-slope * (at - j) if j <= at else -torch.inf for j in range(5)])
            torch.testing.assert_close(weights[0, head, row], scores.softmax(0))
    later = attend(q[:, :, :1], k, v, torch.tensor([[1]]))
    assert later[0, :, 0, 2:].eq(0).all()


def test_heads_of_another_rank_are_refused() -> None:
    whole = Bloom(BloomShape(layers=1, hidden=16, heads=4))
    split_slopes(whole, rank=1, ranks=2)
    assert whole.blocks[0].attention.attend.slopes == slopes(4)[2:]
    with pytest.raises(ValueError, match="4 heads come to attention, which has slopes for 2"):
        whole.scores(torch.zeros(1, 3, dtype=torch.long))


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    cases = [SMALL | case for case in CASES]
    script = Path(__file__).parent / "training_cases.py"
    arguments = [json.dumps(cases), str(tmp_path_factory.mktemp("saved"))]
    return [result.value for result in run(script, ranks=4, arguments=arguments, timeout=120).ranks]


def test_every_mesh_equals_one_process(outcome: list[Any]) -> None:
    for number, case in enumerate(CASES):
        bound, first = BOUND[case["precision"]], outcome[0][number]
        losses = next(each[number]["losses"] for each in outcome if each[number]["losses"][0] is not None)
        assert losses == pytest.approx(first["expected"], abs=bound), case
        assert first["others"] < bound, case
        # A key's bias has no gradient but what rounding leaves, and Adam makes steps of that; no loss depends on it.
        assert first["keys"] < (bound if case["precision"] == "fp64" else 1e-4), case


def test_the_lab_saves_what_it_trained() -> None:
    data = run_lab("bloom-training", **SMALL).data
    saved = data["checkpoint"]
    assert saved["files"] == 8
    assert saved["bytes"] == 4 * data["parameters"]
    losses = data["ranks"][-1]["losses"]
    assert losses == pytest.approx(data["reference_losses"], abs=BOUND["fp32"])
    assert abs(saved["next_loss"] - losses[-1]) < 0.5
    for report in data["ranks"]:
        assert {k: report["bytes"]["rest"][k] for k in report["predicted"]["states"]} == report["predicted"]["states"]
        assert report["axes"] == report["predicted"]["axes"]
