"""The loss of GRPO: each way to write it wrongly gets its own text."""

from __future__ import annotations

import pytest

from labs.exercises import check, exercise

RETURN = "return -each.mean()"
GAIN = "gain = self.advantages(rewards)[:, None]"
SCALED = "scaled = centred / (groups.std(-1, correction=0, keepdim=True) + 1e-4)"
GROUPS = "groups = everyone.view(-1, self.group_size)"
LESSER = "torch.min(ratio * gain, ratio.clamp(1 - self.epsilon, 1 + self.epsilon) * gain)"
RATIO = "ratio = (log_policy - log_old).exp()"
KL = "kl = log_ratio.exp() - log_ratio - 1"
EACH = "((surrogate - self.beta * kl) * mask).sum(-1) / mask.sum(-1)"
OWN = "own = rewards.view(1, -1)\n        return ((own - own.mean()) / (own.std(correction=0) + 1e-4)).flatten()"
WRONG = [
    (RETURN, "return -each.mean().item()", "shape/no-number", "returns float"),
    (RETURN, "return -each", "shape/shape", "must be"),
    (RETURN, "return -each.mean().float()", "shape/dtype", "float32"),
    (RETURN, "return -each.mean().detach()", "shape/no-gradient", "learn nothing"),
    (GROUPS, f"{OWN}\n        {GROUPS}", "together/own", "judged its 4 outputs"),
    (GROUPS, "groups = everyone[None]", "advantages/all-one-group", "one group"),
    (GAIN, "gain = rewards[:, None]", "advantages/raw-rewards", "more likely"),
    (SCALED, "scaled = centred", "advantages/not-scaled", "standard deviation"),
    (LESSER, "ratio * gain", "ratio/no-clip", "not clipped"),
    (LESSER, "ratio.clamp(1 - self.epsilon, 1 + self.epsilon) * gain", "ratio/clip-alone", "Only the clipped"),
    (LESSER, LESSER.replace("min", "max", 1), "ratio/the-larger", "larger counts"),
    (RATIO, RATIO.replace("log_old", "log_reference"), "ratio/old-is-reference", "own term"),
    (KL, "kl = 0", "divergence/no-kl", "near the reference"),
    (KL, "kl = -(log_ratio.exp() - log_ratio - 1)", "divergence/kl-adds", "run away"),
    (KL, "kl = -log_ratio", "divergence/kl-plain", "below zero"),
    (KL, "kl = (-log_ratio).exp() + log_ratio - 1", "divergence/kl-turned", "exchanged"),
    (EACH, "((surrogate - self.beta * kl) * mask).sum() / mask.sum()", "means/token-mean", "long outputs"),
    (EACH, "(surrogate - self.beta * kl).mean(-1)", "means/mask-ignored", "nobody will read"),
    (EACH, "((surrogate - self.beta * kl) * mask).mean(-1)", "means/padding-counts", "width of the batch"),
    (RETURN, "return each.mean()", "means/upwards", "sign is turned"),
    (RETURN, "return -each.mean() * 2", "means/factor", "2 times"),
    (KL, "kl = log_ratio.exp() - log_ratio", "means/value", "constant"),
    (RATIO, f"{RATIO} * 1.5", "means/differs", "wrong"),
]


@pytest.mark.parametrize(("old", "new", "failed_at", "says"), WRONG, ids=[each[2] for each in WRONG])
def test_a_wrong_loss_fails_where_it_should(old: str, new: str, failed_at: str, says: str) -> None:
    code = exercise("grpo-loss").code("solution")
    assert old in code
    verdict = check("grpo-loss", code.replace(old, new), patience=6)
    assert verdict.failed_at == failed_at, verdict.message
    assert says in verdict.message


def test_more_traffic_than_needed_is_said_and_costs_nothing() -> None:
    code = exercise("grpo-loss").code("solution")
    wasteful = RATIO + "\n        for _ in range(9):\n            dist.all_reduce(mask.clone(), group=self.group)"
    verdict = check("grpo-loss", code.replace(RATIO, wasteful), patience=6)
    assert verdict.passed
    assert "bytes" in verdict.message
