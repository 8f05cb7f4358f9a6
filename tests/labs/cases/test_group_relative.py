"""Advantages, the estimator of the divergence and the loss, each beside what the paper says of it."""

from __future__ import annotations

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from labs.cases.countdown import END, PROMPT
from labs.cases.generation import generate, logits, sampled
from labs.cases.group_relative import (
    Samples,
    advantages,
    grpo_loss,
    kl_estimate,
    log_probabilities,
    output_means,
)
from labs.cases.grpo import mask_of, padded
from labs.model import GPT, Shape

BOUND = 1e-10
rewards = st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=2, max_size=12)


@given(st.lists(rewards, min_size=1, max_size=4).filter(lambda groups: len({len(each) for each in groups}) == 1))
def test_advantages_sum_to_zero_in_each_group(groups: list[list[float]]) -> None:
    found = advantages(torch.tensor(groups, dtype=torch.float64))
    assert found.sum(-1).abs().max() < 1e-9
    for mine, given_rewards in zip(found, groups, strict=True):
        if len(set(given_rewards)) == 1:
            assert not mine.any()
        else:
            assert abs(mine.std(correction=0) - 1) < 2e-3
            assert [*mine.argsort(stable=True)] == [*torch.tensor(given_rewards).argsort(stable=True)]


def test_a_group_does_not_know_of_the_others() -> None:
    one = torch.tensor([[0.0, 1.0, 2.0, 1.0]])
    other = torch.tensor([[2.0, 2.0, 0.0, 2.0]])
    assert torch.equal(advantages(torch.cat([one, other]))[:1], advantages(one))


distributions = st.lists(st.floats(-5, 5), min_size=6, max_size=6).map(
    lambda scores: torch.tensor(scores, dtype=torch.float64).log_softmax(-1)
)


@given(distributions, distributions)
def test_the_estimator_is_never_negative_and_right_in_the_mean(log_policy: Tensor, log_reference: Tensor) -> None:
    each = kl_estimate(log_policy, log_reference)
    assert each.min() > -1e-12
    exact = (log_policy.exp() * (log_policy - log_reference)).sum()
    assert abs((log_policy.exp() * each).sum() - exact) < 1e-9


@given(distributions)
def test_of_the_reference_itself_it_is_zero(log_policy: Tensor) -> None:
    assert not kl_estimate(log_policy, log_policy).any()


def samples_of(seed: int, *, old_shift: float = 0.2) -> tuple[Tensor, Samples]:
    chance = torch.Generator().manual_seed(seed)

    def normal(*size: int) -> Tensor:
        return torch.randn(size, generator=chance, dtype=torch.float64)

    outputs, positions = 6, 7
    log_policy = (normal(outputs, positions) - 2).clamp(max=-0.05)
    lengths = torch.randint(1, positions, (outputs, 1), generator=chance)
    return log_policy.requires_grad_(), Samples(
        tokens_BS=torch.zeros(outputs, positions, dtype=torch.long),
        targets_BS=torch.zeros(outputs, positions, dtype=torch.long),
        mask_BS=(torch.arange(positions) < lengths).double(),
        advantages_B=normal(outputs),
        old_BS=log_policy.detach() + old_shift * normal(outputs, positions),
        reference_BS=log_policy.detach() + 0.3 * normal(outputs, positions),
    )


def plain(log_policy: Tensor, samples: Samples, *, epsilon: float, beta: float) -> Tensor:
    """Equation 3 of the paper, written out, a token at a time."""
    outputs = []
    for i in range(len(log_policy)):
        tokens = []
        for t in range(log_policy.size(1)):
            if not samples.mask_BS[i, t]:
                continue
            gain = samples.advantages_B[i]
            ratio = (log_policy[i, t] - samples.old_BS[i, t]).exp()
            clipped = min(max(ratio, 0 * ratio + 1 - epsilon), 0 * ratio + 1 + epsilon)
            against = samples.reference_BS[i, t].exp() / log_policy[i, t].exp()
            tokens.append(torch.minimum(ratio * gain, clipped * gain) - beta * (against - against.log() - 1))
        outputs.append(torch.stack(tokens).mean())
    return -torch.stack(outputs).mean()


@settings(max_examples=25)
@given(st.integers(0, 1000), st.sampled_from([0.1, 0.2, 0.4]), st.sampled_from([0.0, 0.04]))
def test_loss_and_gradient_are_those_of_the_paper(seed: int, epsilon: float, beta: float) -> None:
    log_policy, samples = samples_of(seed)
    found, expected = (each(log_policy, samples, epsilon=epsilon, beta=beta) for each in (grpo_loss, plain))
    assert abs(found - expected) < BOUND
    (ours,), (theirs,) = (torch.autograd.grad(loss, log_policy, retain_graph=True) for loss in (found, expected))
    assert (ours - theirs).abs().max() < BOUND
    assert not ours[samples.mask_BS == 0].any()


def test_where_every_ratio_is_one_the_gradient_is_the_advantage() -> None:
    log_policy, samples = samples_of(3, old_shift=0.0)
    loss = grpo_loss(log_policy, samples, epsilon=0.2, beta=0.0)
    (gradient,) = torch.autograd.grad(loss, log_policy)
    expected = -samples.advantages_B[:, None] * samples.mask_BS / samples.mask_BS.sum(-1, keepdim=True) / 6
    assert (gradient - expected).abs().max() < BOUND


def test_beyond_the_clip_a_good_output_is_pushed_no_further_and_a_bad_one_is() -> None:
    log_policy = torch.tensor([[0.0], [0.0]], dtype=torch.float64, requires_grad=True)
    ones = torch.ones(2, 1, dtype=torch.float64)
    samples = Samples(
        tokens_BS=ones.long(),
        targets_BS=ones.long(),
        mask_BS=ones,
        advantages_B=torch.tensor([1.0, -1.0], dtype=torch.float64),
        old_BS=-math.log(1.5) * ones,
        reference_BS=0 * ones,
    )
    loss = grpo_loss(log_policy, samples, epsilon=0.2, beta=0.0)
    (gradient,) = torch.autograd.grad(loss, log_policy)
    assert gradient.flatten().tolist() == [0.0, 0.75]  # clipped, and 1.5 / 2


# --- what a sample is


def model() -> GPT:
    return GPT(Shape(layers=2, hidden=32, heads=4, sequence=20), seed=3, dtype=torch.float64)


def test_the_cache_writes_what_a_whole_forward_would() -> None:
    gpt = model()
    with torch.no_grad():
        for p in gpt.parameters():
            p *= 4  # so that tokens are not all alike
    prompts = torch.randint(0, 256, (5, 6), generator=torch.Generator().manual_seed(1))
    chances = torch.rand(5, 14, generator=torch.Generator().manual_seed(2))
    found, text = generate(gpt, prompts, chances_BT=chances, end=256), prompts
    with torch.no_grad():
        for step in range(14):
            probabilities = logits(gpt, text)[:, -1].float().softmax(-1)
            text = torch.cat([text, sampled(probabilities, chances[:, step])[:, None]], 1)
    assert torch.equal(found, text[:, 6:])
    assert len(found.unique()) > 10


def test_after_generating_the_model_is_as_it_was() -> None:
    gpt, tokens = model(), torch.arange(12).view(1, 12)
    with torch.no_grad():
        before = logits(gpt, tokens)
        generate(gpt, tokens, chances_BT=torch.rand(1, 8), end=0)
        assert torch.equal(logits(gpt, tokens), before)


@given(st.floats(0, 1, exclude_max=True), st.lists(st.floats(0.0, 10), min_size=3, max_size=9))
def test_a_token_is_the_first_whose_sum_is_above_the_chance(chance: float, weights: list[float]) -> None:
    if sum(weights) < 0.1:
        return
    probabilities = torch.tensor([weights], dtype=torch.float64) / sum(weights)
    found = int(sampled(probabilities, torch.tensor([chance], dtype=torch.float64)))
    assert found == 255 or found < len(weights)
    if found < len(weights):
        sums = probabilities[0].cumsum(-1)
        assert sums[found] > chance * sums[-1]
        assert found == 0 or sums[found - 1] <= chance * sums[-1]


def test_the_mask_covers_an_output_up_to_its_end() -> None:
    tokens, targets = padded([[7] * PROMPT + [65, 66, END]], PROMPT + 5, torch.device("cpu"))
    assert tokens.shape == targets.shape == (1, PROMPT + 5)
    assert mask_of(targets)[0].tolist() == [0] * (PROMPT - 1) + [1, 1, 1] + [0] * 3


def test_an_output_without_an_end_counts_whole() -> None:
    _, targets = padded([[7] * PROMPT + [65] * 5], PROMPT + 4, torch.device("cpu"))
    assert mask_of(targets)[0].sum() == 5


def test_long_outputs_weigh_as_much_as_short_ones() -> None:
    values, mask = torch.ones(2, 4), torch.tensor([[1.0, 1, 1, 1], [1, 0, 0, 0]])
    assert output_means(values, mask).tolist() == [1, 1]


def test_log_probabilities_are_those_of_the_targets() -> None:
    scores = torch.randn(2, 3, 256, dtype=torch.float64)
    targets = torch.randint(0, 256, (2, 3))
    expected = scores.log_softmax(-1).gather(-1, targets[..., None])[..., 0]
    assert (log_probabilities(scores, targets) - expected).abs().max() < BOUND
