"""The pipeline's exercises: each wrong answer fails where it should, and the message says what it means."""

from __future__ import annotations

import pytest

from labs.exercises import check, exercise

WARM_UP = "warm_up = ranks - 1 - rank"
PAIR = 'order += [Action("F", warm_up + k), Action("B", k)]'
REST = 'return order + [Action("B", k) for k in range(micro_batches - warm_up, micro_batches)]'
ORDERS: list[tuple[str, list[tuple[str, str]], str, str]] = [
    ("a generator", [("return order +", "yield from order +")], "shape/not-a-list", "generator"),
    ("names", [('Action("F", k) for', 'f"F{k}" for')], "shape/not-actions", "str"),
    ("counted from 1", [('Action("F", k) for k in range(warm_up)', 'Action("F", k) for k in range(1, warm_up + 1)'),
                        ('Action("F", warm_up + k)', 'Action("F", warm_up + k + 1)')],
     "complete/stranger", "rank 0 of 2 does what is not there to be done: F5"),
    ("twice", [("range(micro_batches - warm_up, micro_batches)", "range(micro_batches)")], "complete/twice", "B0"),
    ("no rest", [(REST, "return order")], "complete/missing", "B4"),
    ("backward first", [(PAIR, 'order += [Action("B", k), Action("F", warm_up + k)]')],
     "order/backward-first", "Rank 1 of 2 has the backward of micro-batch 0"),
    ("reversed warm-up", [(WARM_UP, "warm_up = rank")], "order/waits", "0: B0, 1: F1"),
    ("no warm-up", [(WARM_UP, "warm_up = 0")], "bubble/idle", "16.7%"),
    ("gpipe", [(WARM_UP, "warm_up = micro_batches")], "in-flight/all-forwards-first", "holds all 5"),
    ("one more", [(WARM_UP, "warm_up = ranks - rank")], "in-flight/one-more", "one more than it needs"),
    ("same on all", [(WARM_UP, "warm_up = ranks - 1")], "in-flight/same-on-all", "as many as rank 0"),
    ("twice as many", [(WARM_UP, "warm_up = min(ranks - rank + 1, micro_batches)")],
     "in-flight/too-many", "oldest one"),
    ("another order in ranks",
     [(WARM_UP, "import os\n    warm_up = rank if os.environ.get('WORLD_SIZE', '1') != '1' else ranks - 1 - rank")],
     "run/other-order", "three arguments only"),
]  # fmt: skip
STEPS: list[tuple[str, list[tuple[str, str]], str, str]] = [
    ("no backward", [("y.backward(None if last else receive(after))", "receive(after) if not last else None"),
                     ("send(x.grad, before)", "send(torch.zeros_like(x), before)")],
     "gradients/no-gradient", "no backward has gone through"),
    ("sum of losses", [("stage.losses[k](y) / len(stage.losses)", "stage.losses[k](y)")],
     "gradients/sum", "2 times too large"),
    ("divided twice", [("y.backward(None if last else receive(after))",
                        "y.backward(None if last else receive(after) / (len(order) // 2))")],
     "gradients/divided-twice", "2 times too small"),
    ("last micro-batch only", [("x, y = kept.pop(k)", "x, y = kept.pop(k)\n            stage.chunk.zero_grad()")],
     "gradients/one-only", "that of one micro-batch"),
    ("no leaf", [(".requires_grad_()", "")], "shape/raised", "line 17, in send"),
    ("loss of the last", [("y.detach() if total is None else total + y.detach()", "y.detach()")],
     "loss/loss-of-one", "Add up all"),
    ("no loss", [("return total", "return None")], "loss/no-loss", "returned None"),
    ("loss everywhere", [("return total", "return torch.zeros(()) if total is None else total")],
     "loss/loss-elsewhere", "Only the last stage"),
    ("sum for a loss", [("return total", "return total and total * len(stage.losses)")], "loss/loss-sum", "too large"),
    ("waits with every send",
     [("sent.append(dist.isend(tensor, group=stage.group, group_dst=to))",
       "dist.send(tensor, group=stage.group, group_dst=to)")],
     "shape/hung", "neither ever receives"),
    ("another shape", [("send(y.detach(), after)", "send(torch.cat([y, y]).detach(), after)")],
     "shape/mismatch", "their gradients the other way"),
    ("mean of two uses", [("dist.all_reduce(stage.shared.grad, group",
                           "dist.all_reduce(stage.shared.grad, op=dist.ReduceOp.AVG, group")],
     "shared/halved", "half of what it must be"),
    ("never put together", [("if stage.shared is not None:", "if False:")], "shared/own-part", "No error says so"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("id", "name", "changes", "failed_at", "says"),
    [("one-f-one-b", *case) for case in ORDERS] + [("pipeline-step", *case) for case in STEPS],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) and len(value) < 30 else "",
)
def test_a_wrong_answer_is_told_what_it_means(
    id: str, name: str, changes: list[tuple[str, str]], failed_at: str, says: str
) -> None:
    code = exercise(id).code("solution")
    for old, new in changes:
        assert old in code, (name, old)
        code = code.replace(old, new)
    verdict = check(id, code, patience=5)
    assert verdict.failed_at == failed_at, verdict.message
    assert says in verdict.message
    assert verdict.points < verdict.of


def test_more_traffic_than_needed_is_told_and_costs_nothing() -> None:
    code = exercise("pipeline-step").code("solution")
    code = code.replace("    return total", "    dist.all_reduce(torch.zeros(9), group=stage.group)\n    return total")
    verdict = check("pipeline-step", code)
    assert verdict.passed
    assert "rank 0 sent 232 bytes where 160 would do" in verdict.message
