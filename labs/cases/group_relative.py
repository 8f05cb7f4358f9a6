"""Group relative policy optimization (Shao et al. 2024, DeepSeekMath, section 4.1), as R1 was trained with.

For each question q a group of G outputs is sampled. An output's advantage is its reward beside those of its own
group, so no second model is needed to judge how good a reward is. The loss is (equation 3, with the sign turned):

    - mean over the group of, mean over an output's tokens of
        min(ratio A, clip(ratio, 1 - epsilon, 1 + epsilon) A) - beta D_KL[policy || reference]

    Shapes:  B outputs = questions x G, T tokens of an output, of which a mask tells those that count.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional as F


def advantages(rewards_QG: Tensor) -> Tensor:
    """(reward - mean of its group) / standard deviation of its group (section 4.1.2): they sum to zero in each group.

    Where all rewards of a group are the same there is nothing to learn from: zero.
    """
    centred_QG = rewards_QG - rewards_QG.mean(-1, keepdim=True)
    return centred_QG / (rewards_QG.std(-1, correction=0, keepdim=True) + 1e-4)


def kl_estimate(log_policy: Tensor, log_reference: Tensor) -> Tensor:
    """The estimator of D_KL[policy || reference] from tokens that the policy has sampled (equation 4): reference /
    policy - log(reference / policy) - 1. Never below zero, and right in the mean.
    """
    log_ratio = log_reference - log_policy
    return log_ratio.exp() - log_ratio - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """What a policy has written and what came of it, for B outputs of the same number of questions a rank.

    tokens_BS       prompts and outputs; targets_BS the same, one further on
    mask_BS         1 where the target is a token of the output, up to its end
    advantages_B    of each output
    old_BS          log probabilities of the targets when they were sampled
    reference_BS    the same under the reference
    """

    tokens_BS: Tensor
    targets_BS: Tensor
    mask_BS: Tensor
    advantages_B: Tensor
    old_BS: Tensor
    reference_BS: Tensor

    def part(self, number: int, of: int) -> Self:
        """One of so many equal parts."""
        return type(self)(**{each.name: getattr(self, each.name).chunk(of)[number] for each in fields(self)})


def log_probabilities(logits_BSV: Tensor, targets_BS: Tensor) -> Tensor:
    """log p(target) at each position, in at least single precision."""
    if logits_BSV.dtype.itemsize < 4:
        logits_BSV = logits_BSV.float()
    return -F.cross_entropy(logits_BSV.flatten(0, 1), targets_BS.flatten(), reduction="none").view_as(targets_BS)


def output_means(values_BS: Tensor, mask_BS: Tensor) -> Tensor:
    """For each output the mean over its own tokens: long outputs weigh as much as short ones."""
    return (values_BS * mask_BS).sum(-1) / mask_BS.sum(-1)


def grpo_loss(log_policy_BS: Tensor, samples: Samples, *, epsilon: float, beta: float) -> Tensor:
    """The loss of these samples, to be made smaller.

    In the first update after sampling the policy is the one that sampled: every ratio is 1, and only the gradient
    tells good from bad.
    """
    ratio_BS = (log_policy_BS - samples.old_BS).exp()
    gain_B1 = samples.advantages_B[:, None]
    surrogate_BS = torch.min(ratio_BS * gain_B1, ratio_BS.clamp(1 - epsilon, 1 + epsilon) * gain_B1)
    kl_BS = kl_estimate(log_policy_BS, samples.reference_BS)
    return -output_means(surrogate_BS - beta * kl_BS, samples.mask_BS).mean()
