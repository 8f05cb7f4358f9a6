"""The ZeRO lab, an ordinary torchrun script: `torchrun --nproc-per-node 4 labs/zero.py --stage 2`.

Every rank trains the course's GPT with data parallelism (stage 0) or a stage of ZeRO, watched by the tracker, and
reports its losses, the bytes it held and what its collectives moved. `--reference` trains the same on one process,
without any of it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.profiler import record_function

from labs.data import global_batch, micro_batches
from labs.model import GPT, Shape
from labs.options import ZeroOptions
from labs.planner.zero import pieces_of, predict
from labs.runner import rank as this
from labs.strategies.data_parallel import DataParallel
from labs.strategies.units import Recipe, Strategy
from labs.strategies.zero_1 import Zero1
from labs.strategies.zero_2 import Zero2
from labs.strategies.zero_3 import Zero3
from labs.telemetry import Tracker
from labs.telemetry.rows import Writer, path_of

STRATEGIES: dict[int, Callable[..., Strategy]] = {0: DataParallel, 1: Zero1, 2: Zero2, 3: Zero3}
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32, "fp64": torch.float64}


def shape_of(options: ZeroOptions) -> Shape:
    return Shape(
        layers=options.layers, hidden=options.hidden, heads=options.heads, sequence=options.sequence, tied=options.tied
    )


def recipe_of(options: ZeroOptions) -> Recipe:
    master = torch.float64 if options.precision == "fp64" else torch.float32
    return Recipe(master=master, clip=options.clip)


def mean_over_ranks(loss: Tensor, group: dist.ProcessGroup) -> float:
    """For the report only: no strategy needs it."""
    with record_function("report"):
        loss = loss.double()
        dist.all_reduce(loss, op=dist.ReduceOp.AVG, group=group)
    return loss.item()


@contextmanager
def watched(options: ZeroOptions) -> Iterator[Tracker]:
    """The tracker; where a runner watches, it also leaves the live series in the run's folder."""
    folder = os.environ.get("SHARDWISE_RUN")
    if folder is None:
        with Tracker(pause=options.slow) as tracker:
            yield tracker
    else:
        with (
            Writer(path_of(Path(folder), rank=this.number())) as writer,
            Tracker(writer=writer, pause=options.slow) as tracker,
        ):
            yield tracker


def train(options: ZeroOptions) -> dict[str, Any]:
    """What this rank reports."""
    with this.group() as group, watched(options) as tracker:
        rank, ranks, device = dist.get_rank(group), dist.get_world_size(group), this.device()
        with record_function("parameters"):
            model = GPT(shape_of(options), seed=options.seed, dtype=DTYPES[options.precision]).to(device)
        pieces = pieces_of(model.pieces)
        strategy: Strategy = STRATEGIES[options.stage](model, model.pieces, group=group, recipe=recipe_of(options))

        losses, started = [], time.perf_counter()
        for step in range(options.steps):
            this.step(step)
            if step == 1:
                tracker.reset_peak()
            tracker.reset_collectives()
            batch = global_batch(step, size=options.global_batch(ranks), sequence=options.sequence, seed=options.seed)
            mine = micro_batches(batch, rank=rank, ranks=ranks, accumulate=options.accumulate, device=device)
            losses.append(mean_over_ranks(strategy.train_step(mine), group))
        seconds = time.perf_counter() - started

        collectives = {name: {"count": c.count, "bytes": c.bytes} for name, c in tracker.collectives.items()}
        prediction = predict(
            pieces, stage=options.stage, ranks=ranks, precision=options.precision, micro_batches=options.accumulate
        )
        report: dict[str, Any] = {
            "rank": rank,
            "losses": losses,
            "seconds": seconds,
            "bytes": {"rest": tracker.rest.as_dict(), "peak": tracker.peak.as_dict()},
            "peak_total": tracker.peak_total,
            "clipping": collectives.pop("clipping", None),
            "collectives": collectives,
            "parameters": sum(piece.trained + piece.frozen for piece in pieces),
            "predicted": {
                "states": asdict(prediction.states),
                "communication": prediction.communication,
                "collectives": {name: asdict(count) for name, count in prediction.collectives.items()},
            },
        }
        this.report(report)
        return report


def reference(options: ZeroOptions, *, ranks: int) -> list[float]:
    """Losses of one process that sees the whole batch: torch's own Adam, no strategy of ours."""
    recipe = recipe_of(options)
    model = GPT(shape_of(options), seed=options.seed, dtype=DTYPES[options.precision])
    masters = [p.detach().to(recipe.master, copy=True).requires_grad_() for p in model.parameters()]
    adam = torch.optim.Adam(masters, lr=recipe.lr, eps=recipe.eps)
    losses = []
    for step in range(options.steps):
        batch = global_batch(step, size=options.global_batch(ranks), sequence=options.sequence, seed=options.seed)
        loss = model(*batch)
        model.zero_grad()
        loss.backward()
        for p, master in zip(model.parameters(), masters, strict=True):
            master.grad = None if p.grad is None else p.grad.to(recipe.master)
        if recipe.clip is not None:
            torch.nn.utils.clip_grad_norm_(masters, recipe.clip)
        adam.step()
        for p, master in zip(model.parameters(), masters, strict=True):
            p.data.copy_(master.detach())
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[:1] == ["--reference"]:
        this.report({"losses": reference(ZeroOptions.parse(words[2:]), ranks=int(words[1]))})
    else:
        train(ZeroOptions.parse(words))
    this.leave()
