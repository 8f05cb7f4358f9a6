"""The largest micro-batch that fits a budget, an ordinary torchrun script: `torchrun --nproc-per-node 2
labs/stacks/largest_batch.py --strategy zero-2 --budget 18`.

Every rank trains the course's GPT under DDP, a stage of our ZeRO or FSDP2, with ever larger micro-batches, and notes
the most bytes that the tracker counted in each step. `largest_batch` is for any other training too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.profiler import record_function

from labs import training
from labs.cases.rows import Row, rows_of
from labs.catalogue import LabRun, run_lab, together
from labs.data import global_batch, micro_batches
from labs.model import GPT, parameter_count
from labs.options.largest_batch import LargestBatchOptions
from labs.runner import rank as this
from labs.stacks.running import run_of
from labs.stacks.torchs_own import FullySharded, Replicated, Trained, ended_first
from labs.strategies.zero_1 import Zero1
from labs.strategies.zero_2 import Zero2
from labs.strategies.zero_3 import Zero3
from labs.telemetry import Tracker

if TYPE_CHECKING:
    from labs.telemetry.rows import Row as MemoryRow
    from labs.telemetry.rows import Told

WARM = 2
"""Steps before the search: Adam makes its states in the first, and DDP its final buckets in the second."""
ZERO: dict[str, Callable[..., Trained]] = {"zero-1": Zero1, "zero-2": Zero2, "zero-3": Zero3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Largest:
    """What the search found: 0 where not even one sequence fits. `peaks` are the bytes of every micro-batch tried."""

    micro_batch: int
    peaks: dict[int, int] = field(default_factory=dict)


def largest_batch(peak: Callable[[int], int], *, budget: int, most: int = 256) -> Largest:
    """The largest micro-batch from 1 to `most` for which `peak(micro_batch)` is at most `budget` bytes.

    `peak` takes a real step with so many sequences and says the most bytes held in it, the same number on every rank
    (see `on_fullest`); it must not fall as the micro-batch grows. The search doubles until a step does not fit, then
    halves what is left between.
    """
    peaks: dict[int, int] = {}

    def fits(batch: int) -> bool:
        peaks[batch] = peak(batch)
        return peaks[batch] <= budget

    good, bad = 0, 1
    while bad <= most and fits(bad):
        good, bad = bad, 2 * bad
    bad = min(bad, most + 1)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return Largest(micro_batch=good, peaks=peaks)


def on_fullest(tracker: Tracker, group: dist.ProcessGroup | None = None) -> int:
    """The most bytes that any rank held at one moment since `tracker.reset_peak()`: the same number on every rank."""
    with record_function("report"):
        held = torch.tensor(tracker.peak_total, device=this.device())
        dist.all_reduce(held, op=dist.ReduceOp.MAX, group=group)
    return int(held)


def train(options: LargestBatchOptions) -> dict[str, Any]:
    """What this rank reports."""
    with ended_first() as group:
        return searched(options, group)


def searched(options: LargestBatchOptions, group: dist.ProcessGroup) -> dict[str, Any]:
    with training.watched(options) as tracker:
        rank, ranks, device = dist.get_rank(group), dist.get_world_size(group), this.device()
        tracker.name_axis(group, "data")
        model = training.model_of(options)
        parameters = parameter_count(model)
        strategy = built(options, model, group=group)
        if isinstance(strategy, Replicated | FullySharded):
            tracker.watch(strategy.model, strategy.adam)

        def step(number: int, *, micro_batch: int = 1) -> float:
            size = ranks * options.accumulate * micro_batch
            batch = global_batch(number, size=size, sequence=options.sequence, seed=options.seed)
            mine = micro_batches(batch, rank=rank, ranks=ranks, accumulate=options.accumulate, device=device)
            return training.mean_over_ranks(strategy.train_step(mine), group)

        report = training.steps(replace(options, steps=WARM), tracker, step)
        states = tracker.rest.model_states

        def peak(micro_batch: int) -> int:
            tracker.reset_peak()
            step(WARM, micro_batch=micro_batch)
            return on_fullest(tracker, group)

        found = largest_batch(peak, budget=round(options.budget * 10**6), most=options.most)
    return report | {
        "parameters": parameters,
        "micro_batch": found.micro_batch,
        "states": states,
        "peaks": {str(batch): size for batch, size in sorted(found.peaks.items())},
    }


def built(options: LargestBatchOptions, model: GPT, *, group: dist.ProcessGroup) -> Trained:
    """The strategy that the options name, around the model."""
    recipe, name = training.recipe_of(options), options.strategy
    if name == "ddp":
        return Replicated(model, group=group, recipe=recipe)
    if name == "fsdp2":
        mesh = DeviceMesh.from_group(group, this.device().type, mesh_dim_names=("data",))
        return FullySharded(model, model.pieces, mesh=mesh, recipe=recipe)
    return ZERO[cast("str", name)](model, model.pieces, group=group, recipe=recipe)


def conduct(
    options: LargestBatchOptions,
    *,
    ranks: int,
    timeout: float = 300.0,
    on_row: Callable[[int, Told], None] | None = None,
    on_output: Callable[[int, str], None] | None = None,
) -> LabRun:
    """The search for each strategy, one run each."""
    found: dict[str, dict[str, Any]] = {}
    rows: dict[int, tuple[MemoryRow, ...]] = {}
    reports: list[dict[str, Any]] = []
    for name in options.strategies():
        reports, rows = run_of(
            Path(__file__),
            replace(options, strategy=name),
            ranks=ranks,
            timeout=timeout,
            on_row=on_row,
            on_output=on_output,
        )
        found[name] = {key: reports[0][key] for key in ("micro_batch", "states", "peaks")}
    data = together("largest-batch", options, reports, reference_losses=[])
    results = [Row(name="largest-batch", value=each["micro_batch"], of=name) for name, each in found.items()]
    results += [
        Row(name="largest-batch-states", value=each["states"], unit="B", of=name) for name, each in found.items()
    ]
    return LabRun(data=data | {"found": found, "results": [each.as_dict() for each in results]}, rows=rows)


def results() -> Sequence[Row]:
    """For the table of all cases: on 2 ranks."""
    return rows_of(run_lab("largest-batch", ranks=2).data)


if __name__ == "__main__":
    training.main(LargestBatchOptions, train)
