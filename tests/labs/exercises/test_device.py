"""The exercise on devices: every wrong answer is told apart, and what it teaches is what the labs do."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from labs.exercises import check, exercise
from labs.exercises.device.check import MACHINES, right_of
from labs.exercises.device.solution import place
from labs.runner import rank

RULE = "if kind is None or kind not in backends or count < ranks:"
LAST = 'return f"{kind}:{local_rank}", f"cpu:gloo,{kind}:{backends[kind]}"'


@pytest.mark.parametrize(
    ("old", "new", "at"),
    [
        (LAST, 'return f"{kind}:{local_rank}"', "shape/not-a-pair"),
        (RULE, "if kind is None:\n        return 'cuda:0', 'nccl'\n    " + RULE, "device/nothing-there"),
        (RULE, "if kind is None or kind not in backends:", "device/shared"),
        (RULE, "if kind == 'mps':\n        return 'mps:0', 'gloo'\n    " + RULE, "device/cannot-talk"),
        (RULE, "if kind != 'cuda' or count < ranks:", "device/left-idle"),
        (LAST, 'return f"cuda:{local_rank}", f"cpu:gloo,{kind}:{backends[kind]}"', "device/other-kind"),
        (LAST, 'return f"{kind}:0", f"cpu:gloo,{kind}:{backends[kind]}"', "device/other-number"),
        (LAST, 'return f"{kind}:{local_rank}", f"{kind}:{backends[kind]}"', "backend/host-left-out"),
        (LAST, 'return f"{kind}:{local_rank}", backends[kind]', "backend/backend"),
    ],
)  # fmt: skip
def test_wrong_answers(old: str, new: str, at: str) -> None:
    code = exercise("device").code("solution")
    assert old in code
    verdict = check("device", code.replace(old, new), "en")
    assert (verdict.failed_at, verdict.passed) == (at, False), verdict.message


@pytest.mark.parametrize("name", MACHINES)
def test_the_labs_choose_as_the_solution_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = MACHINES[name]
    right = place(asked.kind, asked.count, asked.backends, ranks=asked.ranks, local_rank=asked.local_rank)
    assert right == right_of(asked)
    if asked.kind == "tpx":  # torch itself must know a kind before it makes a device of it
        return
    found = None if asked.kind is None else torch.device(asked.kind)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda **_: found)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: asked.count)
    monkeypatch.setattr(dist.Backend, "default_device_backend_map", {**asked.backends, "mps": "gloo"})
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(asked.ranks))
    monkeypatch.setenv("LOCAL_RANK", str(asked.local_rank))
    assert str(rank.device()) == right[0]
