"""The exercises of tensor parallelism: each wrong answer fails where it should, with the text that explains it."""

from __future__ import annotations

import pytest

from labs.exercises import check, exercise
from tests.labs.exercises.test_answers import Wrong, wrong

TENSOR, SEQUENCE, LOSS = "tensor-parallel", "sequence-parallel", "vocabulary-loss"
SUM_F = "        dist.all_reduce(grad, group=ctx.group)\n"
SUM_G = "        dist.all_reduce(y, group=group)\n"
HAND_ON = "        return grad, None\n\n\nclass SplitNetwork"
SUM_BACK = "        grad = grad.clone()\n        dist.all_reduce(grad)\n" + HAND_ON
RETURN = "return Reduce.apply(F.linear(h_BSf, self.down_weight), self.group) + self.down_bias"
UP = "nn.Parameter(up.weight.detach().chunk(ranks, 0)[rank].clone())"
SCATTER = "        dist.reduce_scatter_single(y_sBD, y_SBD.contiguous(), group=group)\n"
SCATTERED = "return Scatter.apply(F.linear(h_SBf, self.down_weight), self.group) + self.down_bias"
BACK_G = "        dist.reduce_scatter_single(grad_sBD, grad_SBD.contiguous(), group=ctx.group)\n"
BACK_BAR = "        dist.all_gather_single(grad_SBD, grad_sBD.contiguous(), group=ctx.group)\n"
WHOLE = "(self.norm_weight, self.norm_bias, self.down_bias)"
OWN_GRAD = "grad_SBD.chunk(dist.get_world_size(ctx.group))[dist.get_rank(ctx.group)]"
TOP = "    dist.all_reduce(top_N, op=dist.ReduceOp.MAX, group=group)\n"
TOTAL = "    dist.all_reduce(sum_N, group=group)\n"
HIT = "    dist.all_reduce(hit_N, group=group)\n"
ONE = "    grad_Nv.scatter_add_(-1, row_N1, -mine_N.to(grad_Nv.dtype).unsqueeze(-1))\n"
PAIR = "return sum_N.log() - hit_N, grad_Nv"

WRONG = [
    wrong(TENSOR, "no part", ("self.up_bias", "self.a"), at="shape/no-part", says="`up_bias` is None"),
    wrong(TENSOR, "no return", (RETURN, RETURN.replace("return ", "y = ")), at="shape/no-output", says="None"),
    wrong(TENSOR, "whole", (UP, "nn.Parameter(up.weight.detach().clone())"), at="ownership/whole-kept",
          says="one part in 2"),
    wrong(TENSOR, "other way", ("chunk(ranks, 1)", "chunk(ranks, 0)"), at="ownership/other-way",
          says="along the other dimension"),
    wrong(TENSOR, "other part", ("chunk(ranks, 1)[rank]", "chunk(ranks, 1)[rank - 1]"), at="ownership/other-part",
          says="another rank's part"),
    wrong(TENSOR, "window", (UP, UP.replace(".clone()", "")), at="ownership/window-kept", says="a window"),
    wrong(TENSOR, "no sum", (SUM_G, ""), at="forward/partial", says="one summand of 2"),
    wrong(TENSOR, "mean", ("dist.all_reduce(y, group=group)", "dist.all_reduce(y, op=dist.ReduceOp.AVG, group=group)"),
          at="forward/mean", says="must hold the sum"),
    wrong(TENSOR, "bias inside", (RETURN, "return Reduce.apply(F.linear(h_BSf, self.down_weight, self.down_bias), "
                                          "self.group)"), at="forward/bias-times", says="2 times"),
    wrong(TENSOR, "no bias", (" + self.down_bias", ""), at="forward/bias-missing", says="nobody has added"),
    wrong(TENSOR, "no f", (SUM_F, ""), at="gradients/x-partial", says="differently on each rank"),
    wrong(TENSOR, "g sums back", (HAND_ON, SUM_BACK), at="gradients/times", says="added up"),
    wrong(TENSOR, "sum in the wrong backward", (SUM_F, ""), (HAND_ON, SUM_BACK), at="gradients/times", says="2 times"),
    wrong(TENSOR, "sum of x in the wrong place", (SUM_F, "        grad *= dist.get_world_size(ctx.group)\n"),
          at="gradients/x-partial-times", says="which of the two backwards"),
    wrong(TENSOR, "mean of gradients", ("dist.all_reduce(grad, group=ctx.group)",
                                        "dist.all_reduce(grad, op=dist.ReduceOp.AVG, group=ctx.group)"),
          at="gradients/divided", says="2 times too small"),
    wrong(TENSOR, "cut off", ("self.up_weight, self.up_bias))",
                              "self.up_weight.detach(), self.up_bias))"), at="gradients/no-gradient", says="detach"),
    wrong(TENSOR, "right for 2 ranks only", ("dist.get_rank(group), dist.get_world_size(group)",
                                             "dist.get_rank(group), 2"), at="more-ranks/raised", says="IndexError"),
    wrong(SEQUENCE, "no return", (SCATTERED, SCATTERED.replace("return ", "y = ")), at="shape/no-output", says="None"),
    wrong(SEQUENCE, "not scattered", (SCATTERED, SCATTERED.replace("Scatter.apply", "all_reduced")),
          ("class SequenceNetwork", "def all_reduced(y, group):\n    dist.all_reduce(y.detach())\n    return y"
                                    "\n\n\nclass SequenceNetwork"),
          at="shape/all-positions", says="all positions"),
    wrong(SEQUENCE, "not summed", (SCATTER, "        y_sBD.copy_(y_SBD.chunk(dist.get_world_size(group))"
                                            "[dist.get_rank(group)])\n"), at="forward/partial", says="does not sum"),
    wrong(SEQUENCE, "bias inside", (SCATTERED, "return Scatter.apply(F.linear(h_SBf, self.down_weight, "
                                               "self.down_bias), self.group)"), at="forward/bias-times",
          says="2 times"),
    wrong(SEQUENCE, "no bias", (" + self.down_bias", ""), at="forward/bias-missing", says="nobody has added"),
    wrong(SEQUENCE, "other order", (SCATTER, "        dist.reduce_scatter_single(y_sBD, torch.cat(y_SBD.chunk("
                                             "dist.get_world_size(group))[::-1]), group=group)\n"),
          at="forward/other-positions", says="another rank's positions"),
    wrong(SEQUENCE, "cut off", ("F.linear(h_SBf, self.down_weight)", "F.linear(h_SBf, self.down_weight.detach())"),
          at="gradients/no-gradient", says="detach"),
    wrong(SEQUENCE, "cut instead of summed", (BACK_G, f"        grad_sBD.copy_({OWN_GRAD})\n"),
          at="gradients/x-partial", says="Cutting is not enough"),
    wrong(SEQUENCE, "nothing back", (BACK_G, "        grad_sBD.zero_()\n"), at="gradients/nothing", says="is zero"),
    wrong(SEQUENCE, "not gathered back", (BACK_BAR, f"        grad_SBD.zero_()\n        {OWN_GRAD}.copy_(grad_sBD)\n"),
          at="gradients/own-positions", says="Scatter.backward"),
    wrong(SEQUENCE, "all summed", (WHOLE, "self.parameters()"), at="gradients/parts-summed", says="different features"),
    wrong(SEQUENCE, "norms forgotten", (WHOLE, "(self.down_bias,)"), at="replicated/partial-norm",
          says="2 different models"),
    wrong(SEQUENCE, "bias forgotten", (WHOLE, "(self.norm_weight, self.norm_bias)"), at="replicated/partial-norm",
          says="`down_bias`"),
    wrong(SEQUENCE, "mean", ("dist.all_reduce(p.grad, group=self.group)",
                             "dist.all_reduce(p.grad, op=dist.ReduceOp.AVG, group=self.group)"),
          at="replicated/mean-of-parts", says="summands of one gradient"),
    wrong(LOSS, "one tensor", (PAIR, "return sum_N.log() - hit_N"), at="shape/no-pair", says="tensor float64 (8,)"),
    wrong(LOSS, "mean", (PAIR, "return (sum_N.log() - hit_N).mean(), grad_Nv"), at="shape/one-number",
          says="one number"),
    wrong(LOSS, "own sum", (TOTAL, ""), at="loss/own-vocabulary", says="this rank's tokens only"),
    wrong(LOSS, "own sum and hit", (TOTAL, ""), (HIT, ""), at="loss/own-vocabulary", says="this rank's tokens only"),
    wrong(LOSS, "own hit", (HIT, ""), at="loss/hit-own", says="right only where this rank"),
    wrong(LOSS, "no hit", (PAIR, "return sum_N.log(), grad_Nv"), at="loss/hit-missing", says="logarithm of the sum"),
    wrong(LOSS, "own top", (TOP, ""), at="loss/own-top", says="different scales"),
    wrong(LOSS, "target not shifted", ("hit_N = z_Nv.gather", "hit_N = logits_Nv.gather"), at="loss/hit-unshifted",
          says="too small by the largest score"),
    wrong(LOSS, "no top", ("    z_Nv = logits_Nv - top_N.unsqueeze(-1)", "    z_Nv = logits_Nv"),
          at="large/not-finite", says="infinity"),
    wrong(LOSS, "softmax", (ONE, ""), at="gradient/no-one-hot", says="softmax alone"),
    wrong(LOSS, "ones everywhere", ("-mine_N.to(grad_Nv.dtype).unsqueeze(-1)", "-grad_Nv.new_ones(len(grad_Nv), 1)"),
          at="gradient/one-hot-everywhere", says="in every row"),
    wrong(LOSS, "own softmax", ("z_Nv.exp() / sum_N.unsqueeze(-1)", "z_Nv.softmax(-1)"), at="gradient/own-softmax",
          says="add up to 2"),
    wrong(LOSS, "of the mean", (PAIR, "return sum_N.log() - hit_N, grad_Nv / len(grad_Nv)"),
          at="gradient/mean-gradient", says="asked for is that of the sum"),
]  # fmt: skip


@pytest.mark.parametrize("case", WRONG, ids=lambda case: f"{case.exercise}-{case.name.replace(' ', '-')}")
def test_wrong_answers(case: Wrong) -> None:
    verdict = check(case.exercise, case.source, patience=5)
    assert verdict.failed_at == case.failed_at, verdict.message
    assert case.says in verdict.message
    assert verdict.points < verdict.of


@pytest.mark.parametrize("id", [TENSOR, SEQUENCE, LOSS])
def test_every_text_of_a_failure_is_told_by_some_answer(id: str) -> None:
    told = {case.failed_at.split("/")[1] for case in WRONG if case.exercise == id}
    assert set(exercise(id).failures) <= told


def test_more_traffic_than_needed_is_told_and_costs_nothing() -> None:
    sources = {
        TENSOR: (SUM_F, SUM_F + "        dist.all_reduce(grad.clone(), group=ctx.group)\n"),
        SEQUENCE: (BACK_G, "        whole = grad_SBD.clone()\n        dist.all_reduce(whole)\n"
                           "        grad_sBD.copy_(whole.chunk(dist.get_world_size(ctx.group))"
                           "[dist.get_rank(ctx.group)])\n"),
        LOSS: (TOP, TOP + "    dist.all_gather([torch.empty_like(logits_Nv) for _ in range(dist.get_world_size())], "
                          "logits_Nv)\n"),
    }  # fmt: skip
    for id, (old, new) in sources.items():
        verdict = check(id, "import torch\n" + exercise(id).code("solution").replace(old, new))
        assert verdict.passed, verdict.message
        assert "no points" in verdict.message
