"""Wrong answers to the exercises of context and expert parallelism fail where they should, and are told why."""

from __future__ import annotations

import pytest

from labs.exercises import check, exercise
from tests.labs.exercises.test_answers import Wrong, wrong

MERGE = (
    "        out_HLK = out_HLK * (lse_HL1 - new_HL1).exp() + (scores_HLL - new_HL1).exp() @ values\n"
    "        lse_HL1 = new_HL1\n"
)
SOFTMAX = "scores_HLL.softmax(-1).nan_to_num() @ values"

WRONG = [
    wrong("ring-attention", "keys not passed", ("            kv = arriving\n", ""), at="two-ranks/not-passed",
          says="never used"),
    wrong("ring-attention", "first turn only", (MERGE, f"        out_HLK = out_HLK if turn else {SOFTMAX}\n"),
          at="two-ranks/own-only", says="no other key counts"),
    wrong("ring-attention", "last block only", (MERGE, f"        out_HLK = {SOFTMAX}\n"),
          at="two-ranks/last-only", says="the last block alone"),
    wrong("ring-attention", "added", (MERGE, f"        out_HLK = out_HLK + {SOFTMAX}\n"), at="two-ranks/added",
          says="add up to 1"),
    wrong("ring-attention", "averaged", (MERGE, f"        out_HLK = out_HLK + {SOFTMAX} / ranks\n"),
          at="two-ranks/averaged", says="do not weigh the same"),
    wrong("ring-attention", "no mask", ("later_LL = positions[source] > positions[rank].unsqueeze(-1)",
                                        "later_LL = positions[source] > 99"),
          at="two-ranks/no-mask", says="Nothing is hidden"),
    wrong("ring-attention", "other way", ("(rank - turn) % ranks", "(rank + turn) % ranks"), at="more-ranks/other-way",
          says="from rank r - t"),
    wrong("ring-attention", "unscaled", (" / q_HLK.size(-1) ** 0.5", ""), at="two-ranks/unscaled", says="square root"),
    wrong("ring-attention", "block's own sum",
          ("(scores_HLL - new_HL1).exp() @ values", "scores_HLL.softmax(-1) @ values"),
          at="two-ranks/all-hidden", says="softmax of nothing"),
    wrong("ring-attention", "bare exponentials",
          ("        new_HL1 = torch.logaddexp(lse_HL1, scores_HLL.logsumexp(-1, keepdim=True))\n",
           "        new_HL1 = (lse_HL1.exp() + scores_HLL.exp().sum(-1, keepdim=True)).log()\n"),
          at="large/overflow", says="bare score"),
    wrong("ring-attention", "mask by rank", ("positions[source] > positions[rank].unsqueeze(-1)",
                                             "torch.full((4, 4), source > rank).logical_or("
                                             "torch.ones(4, 4, dtype=torch.bool).triu(1).logical_and("
                                             "torch.tensor(source == rank)))"),
          at="order/by-rank", says="not ranks"),
    wrong("ring-attention", "returns nothing", ("    return out_HLK\n", ""), at="two-ranks/no-output", says="None"),
    wrong("ring-attention", "send first",
          ("            sending = dist.P2POp(dist.isend, kv, group=group, group_peer=right)\n"
           "            receiving = dist.P2POp(dist.irecv, arriving, group=group, group_peer=left)\n"
           "            for work in dist.batch_isend_irecv([sending, receiving]):\n"
           "                work.wait()\n",
           "            dist.send(kv, group=group, group_dst=right)\n"
           "            dist.recv(arriving, group=group, group_src=left)\n"),
          at="two-ranks/hung", says="deadlock"),
    wrong("expert-dispatch", "not sent", ("all_to_all(given_ECD, group)", "given_ECD"),
          ("all_to_all(torch.cat(made_XCD.chunk(ranks, dim=1)), group)", "torch.cat(made_XCD.chunk(ranks, dim=1))"),
          at="forward/not-sent", says="never left this rank"),
    wrong("expert-dispatch", "not returned",
          ("all_to_all(torch.cat(made_XCD.chunk(ranks, dim=1)), group)", "torch.cat(made_XCD.chunk(ranks, dim=1))"),
          at="forward/not-returned", says="stayed where they were made"),
    wrong("expert-dispatch", "viewed",
          ("torch.cat(arrived_ECD.chunk(ranks), dim=1)", "arrived_ECD.view(count // ranks, -1, x_TD.size(-1))"),
          ("torch.cat(made_XCD.chunk(ranks, dim=1))", "made_XCD.view(count, -1, x_TD.size(-1))"),
          at="forward/viewed", says="the wrong expert"),
    wrong("expert-dispatch", "one below the other", ("torch.cat(arrived_ECD.chunk(ranks), dim=1)", "arrived_ECD"),
          at="shape/experts-given", says="with the places of all ranks"),
    wrong("expert-dispatch", "no gate", (" * gate_T[kept_M].unsqueeze(-1)", " + 0 * gate_T.sum()"),
          at="forward/no-gate", says="the gate is missing"),
    wrong("expert-dispatch", "dropped passed", ("torch.zeros_like(x_TD)", "x_TD"), at="dropped/dropped-passed",
          says="came out as it went in"),
    wrong("expert-dispatch", "stream added", (".index_put((kept_M,), y_MD)", ".index_put((kept_M,), y_MD) + x_TD"),
          at="forward/stream-added", says="`x` in it"),
    wrong("expert-dispatch", "nothing", (".index_put((kept_M,), y_MD)", " * gate_T.sum()"), at="forward/nothing",
          says="zero"),
    wrong("expert-dispatch", "cut", ("back_ECD[seat]", "back_ECD.detach()[seat]"), at="gradients/no-gradient",
          says="cut"),
    wrong("expert-dispatch", "no output", ("    return torch", "    y = torch"), at="shape/no-output", says="None"),
    wrong("expert-dispatch", "not in forward",
          ("    ranks = dist", "    if len(x_TD) == 0:\n        return x_TD * 1\n    ranks = dist"),
          at="empty/mismatch", says="nothing to send"),
    wrong("expert-dispatch", "not in backward",
          ("    return torch.zeros_like(x_TD)", "    if len(x_TD) == 0:\n        return x_TD\n"
           "    return torch.zeros_like(x_TD)"), at="empty/mismatch", says="leaves it out in backward"),
    wrong("expert-dispatch", "constant for none",
          ("    return torch.zeros_like(x_TD)", "    if len(x_TD) == 0:\n        return torch.zeros(0, 3).double()\n"
           "    return torch.zeros_like(x_TD)"), at="empty/cut-off", says="does not depend"),
    wrong("expert-dispatch", "all places", ("place_T < places", "place_T < 2"), at="forward/differs", says="wrong"),
]  # fmt: skip


@pytest.mark.parametrize("case", WRONG, ids=lambda case: f"{case.exercise}-{case.name.replace(' ', '-')}")
def test_wrong_answers(case: Wrong) -> None:
    verdict = check(case.exercise, case.source, patience=4)
    assert verdict.failed_at == case.failed_at, verdict.message
    assert case.says in verdict.message
    assert verdict.points < verdict.of


TURNS = "    for turn in range(ranks):"


def test_what_costs_memory_or_traffic_is_told_and_costs_no_points() -> None:
    code = exercise("ring-attention").code("solution")
    gathering = check("ring-attention", code.replace(TURNS, f"    dist.barrier(group=group)\n{TURNS}"))
    assert gathering.passed
    assert "barrier" in gathering.message
    sent = "all_to_all(given_ECD, group)\n"
    twice = exercise("expert-dispatch").code("solution").replace(sent, f"{sent}    {sent}")
    telling = check("expert-dispatch", twice)
    assert telling.passed
    assert "need not be told" in telling.message
    once_more = check("ring-attention", code.replace("if turn < ranks - 1:", "if turn < ranks:"))
    assert once_more.passed
    assert "in the last turn nobody needs them" in once_more.message
