"""Layouts: pure functions of ranks and axes, what they refuse, and all parallelisms at once beside one process, with
bytes and traffic equal to the formulas.
"""

from __future__ import annotations

import json
import random
import string
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import labs
from labs.catalogue import formula, ranks_of, run_lab
from labs.options.layout import LayoutOptions
from labs.planner.layout import Training, pieces, traffic
from labs.runner import run
from labs.strategies.layout import AXES, RULES, DoesNotFit, Layout
from translations import CourseError

SCRIPT = Path(__file__).parent / "layouts.py"
BOUND = {"fp64": 1e-10, "fp32": 2e-6}
# As in test_parity: Adam turns roundings of bf16 gradients into differences of the order of the learning rate.
BF16_LOSS, BF16_PARAMETER = 0.02, 0.01

layouts = st.builds(
    Layout, **{axis: st.integers(min_value=1, max_value=3) for axis in ("dp", "pp", "tp", "cp", "chunks")}
)
axes = st.lists(st.sampled_from(AXES), unique=True)


# --- pure functions


@settings(deadline=None)
@given(layout=layouts, data=st.data())
def test_coordinates_and_ranks_are_each_others_inverse(layout: Layout, data: st.DataObject) -> None:
    rank = data.draw(st.integers(min_value=0, max_value=layout.ranks() - 1))
    here = layout.coordinates(rank)
    assert layout.rank_at(**here) == rank
    assert all(0 <= here[axis] < degree for axis, degree in layout.degrees().items())


@settings(max_examples=50, deadline=None)
@given(layout=layouts, chosen=axes)
def test_the_groups_of_any_axes_share_out_the_ranks(layout: Layout, chosen: list[str]) -> None:
    groups = layout.groups(*chosen)
    assert sorted(rank for group in groups for rank in group) == list(range(layout.ranks()))
    for group in groups:
        others = [axis for axis in AXES if axis not in chosen]
        assert len({tuple(layout.coordinates(rank)[axis] for axis in others) for rank in group}) == 1
        assert all(layout.group(rank, *chosen) == group for rank in group)


@settings(deadline=None)
@given(layout=layouts, data=st.data())
def test_axes_are_orthogonal(layout: Layout, data: st.DataObject) -> None:
    """A rank's group on one axis and its group on all others have nobody else in common."""
    rank = data.draw(st.integers(min_value=0, max_value=layout.ranks() - 1))
    for axis in AXES:
        own, rest = layout.group(rank, axis), layout.group(rank, *(other for other in AXES if other != axis))
        assert set(own) & set(rest) == {rank}
        assert len(own) * len(rest) == layout.ranks()


def test_tensor_ranks_are_neighbours_and_pipeline_stages_far_apart() -> None:
    layout = Layout(dp=2, pp=2, tp=2, cp=2)
    assert [layout.group(0, axis)[1] for axis in ("tensor", "context", "data", "pipeline")] == [1, 2, 4, 8]
    assert layout.group(5, "data", "context") == [1, 3, 5, 7]


@settings(deadline=None)
@given(layout=layouts, layers=st.integers(min_value=16, max_value=40))
def test_every_stage_is_on_one_pipeline_rank(layout: Layout, layers: int) -> None:
    column = layout.group(0, "pipeline")
    assert sorted(stage for rank in column for stage in layout.stages(rank)) == list(range(layout.pp * layout.chunks))
    training = Training(layout=layout, layers=layers, hidden=8, sequence=8, micro_batch=1, micro_batches=4)
    assert sum(sum(training.stages(rank)) for rank in column) == layers


@settings(deadline=None)
@given(tp=st.sampled_from([1, 2, 4]), pp=st.integers(min_value=1, max_value=4), sequence=st.booleans())
def test_the_parts_of_all_ranks_make_the_model(tp: int, pp: int, sequence: bool) -> None:
    """Matrices once, and what tensor ranks have whole once for each of them."""
    layout = Layout(pp=pp, tp=tp, sequence=sequence)
    training = Training(layout=layout, layers=5, hidden=16, sequence=8, micro_batch=1, micro_batches=4)
    held = sum(piece.trained for rank in range(layout.ranks()) for piece in pieces(training, rank))
    whole = 5 * (12 * 16**2 + 10 * 16) + 2 * 256 * 16 + 8 * 16 + 2 * 16
    copies = 5 * 6 * 16 + 8 * 16 + 2 * 16
    assert held == whole + (tp - 1) * copies


# --- what does not fit

SIZES = {"ranks": 1, "layers": 4, "heads": 4, "length": 16, "micro_batches": 4}
MISFITS: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("degree", {"tp": 0}, {}, "tp is 0"),
    ("stage", {"zero": 4}, {}, "4 is none"),
    ("zero", {"pp": 2, "zero": 2}, {}, "stage 2 reduces gradients in every backward"),
    ("ranks", {"dp": 3}, {"ranks": 4}, r"has 3 ranks \(3 data x 1 pipeline"),
    ("heads", {"tp": 3}, {"ranks": 3}, "4 heads do not divide by 3"),
    ("layers", {"pp": 2, "chunks": 3}, {"ranks": 2}, "6 pipeline stages needs a layer"),
    ("length", {"cp": 2}, {"ranks": 2, "length": 3}, "too few for 2 ranks. Take 4"),
    ("sequence", {"tp": 4, "sequence": True}, {"ranks": 4, "length": 10}, "works: 12 positions"),
    ("micro-batches", {"pp": 4}, {"ranks": 4, "micro_batches": 3}, "never fill a pipeline of 4"),
]


@pytest.mark.parametrize(("rule", "layout", "sizes", "says"), MISFITS)
def test_a_layout_that_does_not_fit_is_refused_with_a_sentence(
    rule: str, layout: dict[str, Any], sizes: dict[str, Any], says: str
) -> None:
    with pytest.raises(DoesNotFit, match=says) as refused:
        Layout(**layout).fits(**SIZES | sizes)
    assert refused.value.rule == rule


def test_each_rule_is_tried_and_has_a_message_with_its_numbers() -> None:
    assert {rule for rule, *_ in MISFITS} == set(RULES)
    written = yaml.safe_load((Path(labs.__file__).parent / "messages.yaml").read_text(encoding="utf-8"))
    for rule, layout, sizes, _ in MISFITS:
        with pytest.raises(DoesNotFit) as refused:
            Layout(**layout).fits(**SIZES | sizes)
        named = {name for _, name, _, _ in string.Formatter().parse(written[f"layout-{rule}"]) if name}
        assert named <= set(refused.value.values), rule


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tp": 8}, "layout-heads"),
        ({"pp": 0}, "layout-degree"),
        ({"zero": 3}, "layout-zero"),
        ({"pp": 4, "micro_batches": 3}, "layout-micro-batches"),
        ({"accumulate": 2}, "pipeline-accumulates"),
        ({"schedule": "interleaved", "pp": 1}, "pipeline-nothing-to-interleave"),
        ({"schedule": "interleaved", "micro_batches": 3}, "pipeline-groups"),
        ({"chunks": 2}, "pipeline-one-chunk"),
        ({"clip": -1.0}, "clip-not-positive"),
        ({"recompute": "every"}, "unknown-choice"),
        ({"dp": 5}, "too-many-ranks"),
        ({"ranks": 4}, "ranks-do-not-fit"),
    ],
)
def test_the_lab_refuses_what_cannot_run(options: dict[str, Any], message: str) -> None:
    with pytest.raises(CourseError) as refused:
        run_lab("layout", **options)
    assert refused.value.id == f"labs.{message}"


def test_ranks_follow_from_the_layout() -> None:
    assert ranks_of("layout", {"dp": 2, "pp": 1, "tp": 3}, None) == 6
    options = LayoutOptions(dp=2, pp=2, tp=1, cp=2, schedule="interleaved", sequence_parallel=True)
    assert LayoutOptions.parse(options.arguments()) == options
    assert options.shape().chunks == 2


# --- on ranks


def compared(cases: list[dict[str, Any]], *, ranks: int) -> list[list[dict[str, Any]]]:
    """For each case what each rank reports, its parity and its bytes already checked."""
    outcome = run(SCRIPT, ranks=ranks, arguments=[json.dumps(cases)], timeout=150)
    found = [list(reports) for reports in zip(*(result.value for result in outcome.ranks), strict=True)]
    for reports in found:
        for result in reports:
            precision = result["case"]["precision"]
            assert result["loss"] < BOUND.get(precision, BF16_LOSS), result
            assert result["parameters"] < BOUND.get(precision, BF16_PARAMETER), result
            assert result["rest"] == result["predicted"]["rest"], result["case"]
            moved = {
                axis: {name: count for name, count in counts.items() if name != "clipping"}
                for axis, counts in result["axes"].items()
            }
            assert {axis: counts for axis, counts in moved.items() if counts} == result["predicted"]["axes"]
    return found


def test_eight_ranks_equal_one_process() -> None:
    three = {"dp": 2, "pp": 2, "tp": 2}
    compared(
        [
            {"layout": three, "precision": "fp64", "clip": 0.1, "sizes": {"tied": True}},
            {"layout": three | {"sequence": True, "zero": 1}, "precision": "fp32"},
            {"layout": {"dp": 2, "pp": 2, "cp": 2}, "precision": "fp32", "schedule": "gpipe", "recompute": "selective"},
            {
                "layout": {"dp": 2, "pp": 2, "cp": 2, "zero": 1},
                "precision": "fp64",
                "sizes": {"tied": True, "sequence": 9},
                "clip": 0.1,
            },
        ],
        ranks=8,
    )


def test_three_axes_equal_torchs_own() -> None:
    """FSDP2 x parallelize_module x torch.distributed.pipelining."""
    layouts = [{"dp": 2, "pp": 2, "tp": 2, "zero": 1}]
    outcome = run(SCRIPT.with_name("torchs_layouts.py"), ranks=8, arguments=[json.dumps(layouts)], timeout=150)
    for result in outcome.ranks:
        for case in result.value:
            assert case["loss"] < BOUND["fp64"], case
            assert case["parameters"] < BOUND["fp64"], case


def drawn(number: int, *, ranks: int, seed: int) -> list[dict[str, Any]]:
    """Cases at random, of those that fit."""
    chance = random.Random(seed)
    found: list[dict[str, Any]] = []
    while len(found) < number:
        schedule = chance.choice(["gpipe", "1f1b", "interleaved", "zero-bubble"])
        shape = {axis: chance.choice([1, 2, 4]) for axis in ("dp", "pp", "tp", "cp")}
        shape |= {"zero": chance.choice([0, 1]), "sequence": chance.random() < 0.5}
        shape |= {"chunks": 2 if schedule == "interleaved" else 1}
        sizes = {
            "layers": chance.randint(1, 5),
            "heads": chance.choice([2, 4]),
            "sequence": chance.randint(4, 9),
            "tied": chance.random() < 0.5,
        }
        micro_batches = chance.randint(1, 4)
        try:
            layout = Layout(**shape).fits(
                ranks=ranks,
                layers=sizes["layers"],
                heads=sizes["heads"],
                length=sizes["sequence"],
                micro_batches=micro_batches,
            )
        except DoesNotFit:
            continue
        if schedule == "interleaved" and (layout.pp == 1 or micro_batches % layout.pp):
            continue
        case: dict[str, Any] = {"layout": shape, "sizes": sizes, "schedule": schedule, "micro_batches": micro_batches}
        case |= {"precision": "fp64", "recompute": chance.choice(["none", "full", "selective"])}
        found.append(case | ({"clip": 0.1} if chance.random() < 0.5 else {}))
    return found


def test_any_layout_of_four_ranks_equals_one_process() -> None:
    """One group of ranks stays up for all of them."""
    named: list[dict[str, Any]] = [
        {"layout": {"dp": 4}, "precision": "fp32"},
        {"layout": {"dp": 2, "tp": 2}, "precision": "fp64"},
        {"layout": {"dp": 2, "tp": 2, "zero": 1}, "precision": "fp32"},
        {"layout": {"pp": 2, "tp": 2}, "precision": "fp64"},
        {"layout": {"pp": 2, "tp": 2, "sequence": True}, "precision": "fp32"},
        {"layout": {"tp": 2, "cp": 2, "zero": 1}, "precision": "bf16"},
        {
            "layout": {"pp": 2, "tp": 2, "sequence": True, "chunks": 2},
            "schedule": "interleaved",
            "sizes": {"layers": 5, "tied": True},
            "precision": "fp64",
            "clip": 0.1,
            "recompute": "full",
        },
    ]
    compared([*named, *drawn(8, ranks=4, seed=3)], ranks=4)


def test_the_lab_tells_coordinates_axes_and_schedule() -> None:
    sizes: dict[str, Any] = {"layers": 2, "hidden": 16, "sequence": 8, "steps": 2}
    shown = run_lab("layout", dp=1, pp=2, tp=2, micro_batches=2, **sizes)
    assert shown.data["layout"]["tp"] == 2
    assert shown.data["groups"]["tensor"] == [[0, 1], [2, 3]]
    assert len(shown.data["timetable"]) == len(shown.data["in_flight"]) == 4
    assert shown.data["bubble"] == pytest.approx(1 / 3)
    assert shown.losses == pytest.approx(shown.data["reference_losses"], abs=2e-6)
    for rank, report in enumerate(shown.data["ranks"]):
        assert report["coordinates"] == Layout(pp=2, tp=2).coordinates(rank)
        assert bool(report["losses"]) == (rank > 1)
        assert report["axes"] == report["predicted"]["axes"]
        expected = formula("layout", rank=rank, dp=1, pp=2, tp=2, micro_batches=2, **sizes)
        assert shown.model_states(rank=rank) == expected.model_states


def test_sequence_parallelism_moves_as_much_and_what_it_gathers_once_more() -> None:
    def bytes_on(axis: str, **shape: Any) -> int:
        layout = Layout(pp=2, tp=2, **shape)
        training = Training(layout=layout, layers=4, hidden=64, sequence=32, micro_batch=2, micro_batches=4)
        return sum(count.bytes for count in traffic(training, 0)[axis].values())

    assert bytes_on("pipeline", sequence=True) * 2 == bytes_on("pipeline")
    stream, positions, norms = 2 * 32 * 64 * 4, 32 * 64 * 4, 2 * 6 * 64 * 4
    assert bytes_on("tensor") == 4 * (2 * 4 + 1) * 2 * stream
    assert bytes_on("tensor", sequence=True) == 4 * (2 * 10 + 2) * stream + 2 * (positions + norms)
