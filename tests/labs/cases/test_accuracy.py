"""The accuracy test of a ported model tells rounding from faults, and names the token at which models part."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch

from labs.cases.accuracy import Expected, compare, expected
from labs.cases.bloom import Bloom, BloomShape, prompts, taught
from labs.cases.bloom_accuracy import with_large_values
from labs.cases.serving import without_cache


@pytest.fixture(scope="module")
def model() -> Bloom:
    return taught(BloomShape(layers=2, hidden=32, heads=4, sequence=24), steps=30)


@pytest.fixture(scope="module")
def right(model: Bloom) -> list[Expected]:
    return expected(model, prompts(4, length=12), new=6)


def test_the_model_itself_is_equal(model: Bloom, right: list[Expected]) -> None:
    for each in right:
        assert list(each.tokens) == without_cache(model, each.prompt, new=6)
        found = compare(model, each)
        assert (found.kind, found.at) == ("equal", None)
        assert found.gap is not None
        assert found.gap < 1e-5


def test_a_fault_is_found_at_its_token(model: Bloom, right: list[Expected]) -> None:
    wrong = deepcopy(model)
    with torch.no_grad():
        wrong.blocks[0].attention.qkv.weight.copy_(wrong.blocks[0].attention.qkv.weight.flip(0))
        wrong.blocks[1].down.weight.mul_(-3)
    found = [compare(wrong, each) for each in right]
    assert "equal" not in {each.kind for each in found}
    first = found[0]
    assert first.at is not None
    assert first.right == right[0].tokens[first.at] != first.got
    written = without_cache(wrong, right[0].prompt, new=6)
    assert written[: first.at] == list(right[0].tokens[: first.at])
    assert written[first.at] == first.got


def test_a_tie_is_told_from_a_fault() -> None:
    """The same small disturbance decides where two tokens are close, and nothing else."""
    model = taught(BloomShape(layers=1, hidden=16, heads=2, sequence=16), steps=5)
    (one,) = expected(model, [[72, 101]], new=1)
    other = int(one.scores_TV[0].argsort(descending=True)[1])
    disturbed = deepcopy(model)
    right_score, other_score = one.scores_TV[0, one.tokens[0]], one.scores_TV[0, other]
    scores = disturbed.scores

    def nudged(tokens: torch.Tensor) -> torch.Tensor:
        found = scores(tokens)
        found[..., other] += right_score - other_score + 1e-3
        return found

    disturbed.scores = nudged  # type: ignore[method-assign]
    found = compare(disturbed, one)
    assert (found.kind, found.got) == ("tie", other)
    assert found.margin == pytest.approx(float(right_score - other_score))


def test_large_values_are_the_same_function_and_too_large_for_fp16(model: Bloom, right: list[Expected]) -> None:
    large = with_large_values(model, layer=1, scale=20)
    tokens = torch.tensor([right[0].prompt])
    assert torch.equal(large.scores(tokens), model.scores(tokens))
    for precision in (torch.bfloat16, torch.float16):
        plain, scaled = (deepcopy(each).to(precision).scores(tokens) for each in (model, large))
        assert plain.isfinite().all()
        assert scaled.isfinite().all() == (precision == torch.bfloat16)
    assert torch.equal(deepcopy(large).bfloat16().scores(tokens), deepcopy(model).bfloat16().scores(tokens))
    assert {compare(deepcopy(large).half(), each).kind for each in right} == {"overflow"}
