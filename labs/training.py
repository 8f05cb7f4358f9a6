"""What every lab script shares: the watched training of the course's GPT, its report, and the same on one process."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Protocol, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.profiler import record_function

from labs.data import global_batch
from labs.model import GPT, VOCABULARY, Shape
from labs.options.base import Options, TrainingOptions
from labs.planner import peak
from labs.planner.operations import Sizes
from labs.planner.zero import ModelStates
from labs.runner import rank as this
from labs.strategies.units import Recipe
from labs.telemetry import Tracker
from labs.telemetry.rows import Writer

DTYPES = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp32": torch.float32,
    "fp64": torch.float64,
    "fp8": torch.bfloat16,  # of what is no matrix product
}
Batch = tuple[Tensor, Tensor]


class Counted(Protocol):
    """What a collective moved, counted or by formula."""

    @property
    def bytes(self) -> int: ...


Own = TypeVar("Own", bound=Options)


def shape_of(options: TrainingOptions) -> Shape:
    """The model's sizes; weights are tied, values dropped and attention not fused where the lab has that option."""
    return Shape(
        layers=options.layers,
        hidden=options.hidden,
        heads=options.heads,
        sequence=options.sequence,
        tied=getattr(options, "tied", False),
        dropout=getattr(options, "dropout", 0.0),
        fused=getattr(options, "fused", True),
    )


def sizes_of(options: TrainingOptions, *, ranks: int) -> Sizes:
    """What decides on the tensors of one micro-batch through the whole model."""
    shape = shape_of(options)
    return Sizes(
        batch=options.sequences_at_once(ranks),
        positions=shape.sequence,
        hidden=shape.hidden,
        heads=shape.heads,
        vocabulary=VOCABULARY,
        value=DTYPES[options.precision].itemsize,
        fused=shape.fused,
        dropout=shape.dropout > 0,
        eight_bits=options.precision == "fp8",
    )


def predicted(states: ModelStates, *, peak: int, axes: Mapping[str, Mapping[str, Counted]]) -> dict[str, Any]:
    """What the formulas say of a rank, in the words of the labs' JSON: what rests, the most at one moment, and what
    moves on each axis.
    """
    return {
        "states": asdict(states),
        "rest": states.total,
        "peak": peak,
        "traffic": {axis: sum(count.bytes for count in counts.values()) for axis, counts in axes.items()},
    }


def read(options: TrainingOptions, *, ranks: int) -> int:
    """Bytes of a global batch, which every rank reads: tokens, and the one behind the last."""
    return peak.batch(sequences=options.global_batch(ranks), length=options.sequence)


def recipe_of(options: TrainingOptions) -> Recipe:
    """How Adam trains: masters in fp64 for an fp64 model, else in fp32."""
    master = torch.float64 if options.precision == "fp64" else torch.float32
    return Recipe(master=master, lr=getattr(options, "lr", Recipe().lr), clip=getattr(options, "clip", None))


def model_of(options: TrainingOptions) -> GPT:
    """The whole model, the same on every rank, on this rank's device; its bytes count as parameters."""
    with record_function("parameters"):
        return GPT(shape_of(options), seed=options.seed, dtype=DTYPES[options.precision]).to(this.device())


def batch_of(options: TrainingOptions, step: int, *, ranks: int) -> Batch:
    """The global batch of a step: tokens and targets (global batch, sequence)."""
    return global_batch(step, size=options.global_batch(ranks), sequence=options.sequence, seed=options.seed)


def mean_over_ranks(loss: Tensor, group: dist.ProcessGroup) -> float:
    """For the report only: no strategy needs it."""
    with record_function("report"):
        loss = loss.double()
        dist.all_reduce(loss, op=dist.ReduceOp.AVG, group=group)
    return loss.item()


@contextmanager
def watched(options: TrainingOptions) -> Iterator[Tracker]:
    """The tracker; where a runner watches, it also leaves the live series in the run's folder."""
    writer = Writer.for_run()
    if writer is None:
        with Tracker(pause=options.slow) as tracker:
            yield tracker
    else:
        with writer, Tracker(writer=writer, pause=options.slow) as tracker:
            yield tracker


def steps(
    options: TrainingOptions, tracker: Tracker, step: Callable[[int], float | None], *, first: int = 0
) -> dict[str, Any]:
    """Take steps `first` to `options.steps` - 1 and tell what was measured, in the words of the labs' JSON.

    `step(n)` gives the loss of the whole global batch, or None where this rank has none. Peaks are taken from the
    second step on, and collectives of the last one: the first step allocates what later ones find there.
    """
    losses, started = [], time.perf_counter()
    for number in range(first, options.steps):
        this.step(number)
        if number == first + 1:
            tracker.reset_peak()
        tracker.reset_collectives()
        losses.append(step(number))
    seconds = time.perf_counter() - started
    collectives = {name: count.as_dict() for name, count in tracker.collectives.items()}
    return {
        "rank": this.number(),
        "losses": [loss for loss in losses if loss is not None],
        "seconds": seconds,
        "bytes": {"rest": tracker.rest.as_dict(), "peak": tracker.peak.as_dict()},
        "peak_total": tracker.peak_total,
        "clipping": collectives.pop("clipping", None),
        "collectives": collectives,
        "axes": {
            axis: {name: count.as_dict() for name, count in counts.items()} for axis, counts in tracker.axes.items()
        },
    }


def reference(options: TrainingOptions, *, ranks: int, model: GPT | None = None) -> list[float]:
    """Losses of one process that sees the whole batch of `ranks` ranks: torch's own Adam, no strategy of ours. Trains
    the given model, or the one of the options.
    """

    def whole_batch(model: GPT, step: int) -> float:
        loss: Tensor = model(*batch_of(options, step, ranks=ranks))
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.item()

    return alone(options, whole_batch, model=model)


def alone(options: TrainingOptions, gradients: Callable[[GPT, int], float], *, model: GPT | None = None) -> list[float]:
    """Losses of a training on one process, in which `gradients(model, step)` makes a step's gradients and its loss."""
    recipe = recipe_of(options)
    model = model or GPT(shape_of(options), seed=options.seed, dtype=DTYPES[options.precision])
    masters = [p.detach().to(recipe.master, copy=True).requires_grad_() for p in model.parameters()]
    adam = torch.optim.Adam(masters, lr=recipe.lr, eps=recipe.eps)
    losses = []
    for step in range(options.steps):
        model.zero_grad()
        losses.append(gradients(model, step))
        for p, master in zip(model.parameters(), masters, strict=True):
            master.grad = None if p.grad is None else p.grad.to(recipe.master)
        if recipe.clip is not None:
            torch.nn.utils.clip_grad_norm_(masters, recipe.clip)
        adam.step()
        for p, master in zip(model.parameters(), masters, strict=True):
            p.data.copy_(master.detach())
    return losses


def main(
    kind: type[Own],
    train: Callable[[Own], Mapping[str, Any]],
    twin: Callable[..., Sequence[float]] | None = None,
) -> None:
    """The end of a lab script: reads its options, trains and leaves. `--reference N` runs `twin(options, ranks=N)`
    instead: the same training on one process.
    """
    words = sys.argv[1:]
    if words[:1] == ["--reference"] and twin is not None:
        this.report({"losses": list(twin(kind.parse(words[2:]), ranks=int(words[1])))})
    else:
        this.report(train(kind.parse(words)))
    this.leave()
