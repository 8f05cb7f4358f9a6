"""Generation on ranks, token for token that of one process; cache, weights and exchanged bytes equal the formulas."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labs.cases import weights
from labs.cases.bloom import Bloom, BloomShape
from labs.cases.serving import Cache, Generator, Tokens, balanced, generate, placed
from labs.runner import run

SCRIPT = Path(__file__).parent / "serving_cases.py"
CASES: list[dict[str, Any]] = [
    {"layers": 3, "hidden": 24, "heads": 12, "precision": precision, "as": how}
    for precision, how in itertools.product(("fp64", "fp32"), ("tensor", "layers"))
]


@pytest.fixture(scope="module", params=[2, 3, 4])  # 256 tokens do not divide by 3
def outcome(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = str(tmp_path_factory.mktemp("weights"))
    return [each.value for each in run(SCRIPT, ranks=request.param, arguments=[json.dumps(CASES), folder]).ranks]


def of(outcome: list[dict[str, Any]], how: str) -> list[tuple[int, dict[str, Any]]]:
    return [
        (rank, report["results"][number])
        for number, case in enumerate(CASES)
        if case["as"] == how
        for rank, report in enumerate(outcome)
    ]


def test_tensor_ranks_write_what_one_process_writes(outcome: list[dict[str, Any]]) -> None:
    for _, result in of(outcome, "tensor"):
        assert result["tokens"] == result["expected"] == result["alone"]
        assert len({tuple(each) for each in result["tokens"]}) == 3, "prompts that make no difference test nothing"
        assert any(len(set(each)) > 2 for each in result["tokens"])


def test_layers_on_ranks_write_the_same_and_only_the_first_knows_it(outcome: list[dict[str, Any]]) -> None:
    for rank, result in of(outcome, "layers"):
        assert result["tokens"] == (result["expected"] if rank == 0 else [[0] * 8] * 3)
        assert result["places"][0] == result["places"][-1] == 0


def test_weights_cache_and_collectives_equal_the_formulas(outcome: list[dict[str, Any]]) -> None:
    for _, result in of(outcome, "tensor"):
        assert result["held"] == {name: result["predicted"][name] for name in ("parameters", "cache")}
        assert result["collectives"] == result["predicted"]["collectives"]
        assert result["read"] == {"bytes": result["held"]["parameters"], "equal": True}


def test_layers_on_ranks_share_out_weights_and_cache(outcome: list[dict[str, Any]]) -> None:
    ranks = len(outcome)
    for number, case in enumerate(CASES):
        if case["as"] == "layers":
            held = [report["results"][number]["held"] for report in outcome]
            value = {"fp64": 8, "fp32": 4}[case["precision"]]
            d = 24
            assert sum(each["cache"] for each in held) == 2 * 3 * 3 * 16 * d * value
            assert sum(each["parameters"] for each in held) == value * (3 * (12 * d * d + 13 * d) + 256 * d + 4 * d)
            sent = sum(
                report["results"][number]["collectives"].get("send", {"count": 0})["count"] for report in outcome
            )
            assert sent == len(set(outcome[0]["results"][number]["places"])) <= ranks


def test_a_head_apart_from_its_embedding_is_refused(outcome: list[dict[str, Any]]) -> None:
    for rank, report in enumerate(outcome):
        assert report["refused"].startswith(f"rank {rank}: the head is placed on rank 1 and the embedding on rank 0")


# --- pure functions


@settings(deadline=None)
@given(sizes=st.lists(st.integers(1, 50), min_size=3, max_size=12), ranks=st.integers(1, 5))
def test_places_go_up_and_fit(sizes: list[int], ranks: int) -> None:
    places = balanced(sizes, ranks=ranks)
    assert places[-1] == places[0] == 0
    assert places[:-1] == sorted(places[:-1])
    assert max(places) < ranks
    held = [
        sum(size for size, place in zip(sizes[:-1], places, strict=False) if place == rank) for rank in range(ranks)
    ]
    if max(held) > max(sizes[:-1]):
        with pytest.raises(ValueError, match="finds no room"):
            placed(sizes, [max(held) - 1] * ranks)


def test_what_has_no_room_is_named() -> None:
    with pytest.raises(ValueError, match=r"piece 2 of 6 bytes finds no room on 2 ranks of \[7, 5\] bytes"):
        placed([3, 4, 6, 1], [7, 5])


def test_a_slot_that_is_taken_again_needs_no_emptying() -> None:
    model = Bloom(BloomShape(layers=2, hidden=16, heads=2), seed=1, dtype=torch.float64)
    own = Generator(model, slots=2, room=12)
    first = generate(own, [[5, 6, 7, 8, 9], [1]], new=6)
    again = generate(own, [[7], [1, 2, 3]], new=6)
    assert again == generate(Generator(fresh(), slots=2, room=12), [[7], [1, 2, 3]], new=6)
    assert first == generate(own, [[5, 6, 7, 8, 9], [1]], new=6)


def fresh() -> Bloom:
    return Bloom(BloomShape(layers=2, hidden=16, heads=2), seed=1, dtype=torch.float64)


@torch.no_grad()
def test_a_closed_cache_leaves_the_model_as_it_was() -> None:
    model = fresh()
    tokens = torch.tensor([[3, 1, 2]])
    before = model.scores(tokens)
    cache = Cache(list(model.blocks), slots=1, room=4)
    cache.look(Tokens.of([[3, 1, 2]], slots=[0], at=[0], device="cpu"))
    torch.testing.assert_close(model.scores(tokens), before)
    cache.close()
    assert torch.equal(model.scores(tokens), before)


def test_weights_of_another_model_or_cut_are_refused(tmp_path: Path) -> None:
    whole, other = fresh(), Bloom(BloomShape(layers=1, hidden=16, heads=2))
    weights.save(whole, tmp_path / "whole")
    found, _ = weights.read(tmp_path / "whole")
    weights.fill(fresh(), found)
    with pytest.raises(ValueError, match="another model's weights"):
        weights.fill(other, found)
    with pytest.raises(ValueError, match=r"head.norm.weight is \(3,\) in the file and \(16,\)"):
        weights.fill(fresh(), found | {"head.norm.weight": torch.zeros(3)})
