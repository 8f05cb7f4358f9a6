"""Runs in the ranks: a small BLOOM on several meshes beside one process, then what the checkpoint holds."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from labs import training
from labs.cases import bloom_training
from labs.options.bloom_training import BloomTrainingOptions
from labs.runner import rank as this
from labs.strategies.checkpoint import Checkpoints


def run(case: dict[str, Any], folder: Path, *, ranks: int) -> dict[str, Any]:
    options = BloomTrainingOptions(**case)
    own = bloom_training.Run(options, ranks=ranks)
    losses = [own.step(number) for number in range(options.steps)]
    checkpoints = Checkpoints(folder)
    checkpoints.save(own.parts(), {}, step=options.steps)
    checkpoints.wait()
    if dist.get_rank() != 0:
        return {"losses": losses}
    twin = bloom_training.model_of(options)
    adam = torch.optim.Adam(twin.parameters(), lr=1e-3, eps=1e-6)
    expected = []
    for step in range(options.steps):
        adam.zero_grad()
        loss = twin(*training.batch_of(options, step, ranks=ranks))
        loss.backward()
        adam.step()
        expected.append(loss.item())
    saved = bloom_training.loaded(options, folder, step=options.steps)
    worst = {
        name: (p - q).abs().max().item()
        for (name, p), (_, q) in zip(saved.named_parameters(), twin.named_parameters(), strict=True)
    }
    keys = max(error for name, error in worst.items() if name.endswith("qkv.bias"))
    others = max(error for name, error in worst.items() if not name.endswith("qkv.bias"))
    return {"losses": losses, "expected": expected, "others": others, "keys": keys}


if __name__ == "__main__":
    with this.group() as group:
        cases, place = json.loads(sys.argv[1]), Path(sys.argv[2])
        this.report([run(case, place / str(n), ranks=dist.get_world_size(group)) for n, case in enumerate(cases)])
    this.leave()
