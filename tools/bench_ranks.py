"""The part of `make bench` that runs in the ranks: the same training steps by our strategies and by torch's own, in
turns, timed beside each other.

A family is a set of steps that are compared; the arguments name the families to measure, all where there are none.
"""

from __future__ import annotations

import math
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from labs.data import global_batch, micro_batches
from labs.model import GPT, Shape
from labs.runner import rank as this
from labs.strategies.checkpoint import Checkpoints
from labs.strategies.context import Places, Ring
from labs.strategies.data_parallel import DataParallel
from labs.strategies.layout import Layout
from labs.strategies.offload import FileRoom, HostRoom, offload
from labs.strategies.overlap import OverlappedDataParallel, OverlappedZero1, OverlappedZero2, OverlappedZero3
from labs.strategies.parallel import Parallel, mesh_of
from labs.strategies.parts import names_of, parts_of, places_of, shapes_in
from labs.strategies.pipeline import PipelineParallel, stages_of
from labs.strategies.recompute import recompute
from labs.strategies.schedules import schedule
from labs.strategies.tensor_parallel import TensorParallel
from labs.strategies.units import Recipe
from labs.strategies.zero_1 import Zero1
from labs.strategies.zero_2 import Zero2
from labs.strategies.zero_3 import Zero3
from labs.telemetry import Tracker

SHAPE = Shape(layers=4, hidden=256, heads=4, sequence=32)
BATCH, STEPS, WARM = 12, 15, 3
BLOCK = 65536
Batch = tuple[Tensor, Tensor]
Step = Callable[[Batch], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """All ranks, and one folder of this machine that they share."""

    group: dist.ProcessGroup
    folder: Path


def mine(batch: Batch, accumulate: int = 1) -> Any:
    """This rank's part of the batch."""
    rank, ranks = this.number(), this.world_size()
    return micro_batches(batch, rank=rank, ranks=ranks, accumulate=accumulate, device=this.device())


def every(batch: Batch, accumulate: int = 1) -> Any:
    """The batch for a strategy whose ranks work on the same examples."""
    return micro_batches(batch, rank=0, ranks=1, accumulate=accumulate, device=this.device())


def adam_of(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-6, fused=True)


# --- data parallelism and ZeRO


def data(world: World) -> dict[str, Step]:
    def ours(kind: Callable[..., Any], room: Callable[..., Any] | None = None) -> Step:
        model = GPT(SHAPE).to(this.device())
        strategy = kind(model, model.pieces, group=world.group, recipe=Recipe())
        if room is not None:
            offload(strategy, room, block=BLOCK)
        return lambda batch: strategy.train_step(mine(batch))

    def theirs(prepare: Callable[[GPT], tuple[nn.Module, torch.optim.Optimizer]]) -> Step:
        model, adam = prepare(GPT(SHAPE).to(this.device()))

        def step(batch: Batch) -> None:
            for tokens, targets in mine(batch):
                model(tokens, targets).backward()
            adam.step()
            adam.zero_grad()

        return step

    def ddp(model: GPT) -> tuple[nn.Module, torch.optim.Optimizer]:
        wrapped = DistributedDataParallel(model)
        return wrapped, adam_of(wrapped)

    def ddp_zero(model: GPT) -> tuple[nn.Module, torch.optim.Optimizer]:
        wrapped = DistributedDataParallel(model)
        optimizer = ZeroRedundancyOptimizer(
            wrapped.parameters(), optimizer_class=torch.optim.Adam, lr=1e-3, eps=1e-6, fused=True
        )
        return wrapped, optimizer

    def fsdp(model: GPT, *, reshard: bool) -> tuple[nn.Module, torch.optim.Optimizer]:
        mesh = init_device_mesh(this.device().type, (this.world_size(),))
        for piece in model.pieces:
            fully_shard(piece, mesh=mesh, reshard_after_forward=reshard)
        fully_shard(model, mesh=mesh, reshard_after_forward=reshard)
        return model, adam_of(model)

    host = partial(HostRoom, pinned=this.device().type != "cpu")
    return {
        "stage 0": ours(DataParallel),
        "stage 1": ours(Zero1),
        "stage 2": ours(Zero2),
        "stage 3": ours(Zero3),
        "stage 0, overlapped": ours(OverlappedDataParallel),
        "stage 0, overlapped, in one bucket": ours(partial(OverlappedDataParallel, bucket=25 << 20)),
        "stage 1, overlapped": ours(OverlappedZero1),
        "stage 2, overlapped": ours(OverlappedZero2),
        "stage 3, overlapped": ours(OverlappedZero3),
        "stage 1, states in host memory": ours(Zero1, host),
        "stage 1, states in a file": ours(Zero1, partial(FileRoom, folder=world.folder)),
        "DDP": theirs(ddp),
        "DDP + ZeroRedundancyOptimizer": theirs(ddp_zero),
        "FSDP2, no reshard": theirs(partial(fsdp, reshard=False)),
        "FSDP2": theirs(partial(fsdp, reshard=True)),
    }


# --- tensor and sequence parallelism


def tensor(world: World) -> dict[str, Step]:
    def ours(*, sequence: bool) -> Step:
        strategy = TensorParallel(GPT(SHAPE).to(this.device()), group=world.group, recipe=Recipe(), sequence=sequence)
        return lambda batch: strategy.train_step(every(batch))

    def theirs(*, sequence: bool) -> Step:
        model = GPT(SHAPE).to(this.device())
        for block in model.blocks:
            cast("Any", block).attention.heads //= this.world_size()
        stream = Shard(1) if sequence else Replicate()
        plan: dict[str, Any] = {
            "embedding.token": RowwiseParallel(input_layouts=Replicate(), output_layouts=stream),
            "blocks.*.attention.qkv": ColwiseParallel(input_layouts=stream),
            "blocks.*.attention.out": RowwiseParallel(output_layouts=stream),
            "blocks.*.up": ColwiseParallel(input_layouts=stream),
            "blocks.*.down": RowwiseParallel(output_layouts=stream),
            "head.linear": ColwiseParallel(input_layouts=stream, output_layouts=Shard(-1), use_local_output=False),
        }
        if sequence:
            plan["embedding.position"] = RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(0))
            for name in ("blocks.*.attention_norm", "blocks.*.mlp_norm", "head.norm"):
                plan[name] = SequenceParallel(use_local_output=True)
        mesh = init_device_mesh(this.device().type, (this.world_size(),), mesh_dim_names=("tensor",))
        parallelize_module(model, mesh, plan)
        adam = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-6)  # fused takes no mixed kinds of tensors

        def step(batch: Batch) -> None:
            for tokens, targets in every(batch):
                with loss_parallel():
                    model(tokens, targets).backward()
            adam.step()
            adam.zero_grad()

        return step

    return {
        "tensor": ours(sequence=False),
        "tensor and sequence": ours(sequence=True),
        "parallelize_module": theirs(sequence=False),
        "parallelize_module, SequenceParallel": theirs(sequence=True),
    }


# --- pipelines


def pipeline(world: World) -> dict[str, Step]:
    ranks, m = this.world_size(), 6
    torchs = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}

    def loss(model: GPT) -> Callable[[Tensor, Tensor], Tensor]:
        return lambda logits, targets: model.loss(logits.flatten(0, 1), targets.flatten())

    def ours(name: str) -> Step:
        model = GPT(SHAPE).to(this.device())
        orders = schedule(name, ranks=ranks, micro_batches=m)
        strategy = PipelineParallel(
            model.pieces, orders=orders, hidden=SHAPE.hidden, loss=loss(model), group=world.group, recipe=Recipe()
        )
        return lambda batch: strategy.train_step(every(batch, m))

    def theirs(name: str) -> Step:
        model = GPT(SHAPE).to(this.device())
        own = nn.Sequential(*stages_of(model.pieces, stages=ranks)[this.number()])
        stage = PipelineStage(own, this.number(), ranks, this.device(), group=world.group)
        run = torchs[name](stage, n_microbatches=m, loss_fn=loss(model))
        adam = adam_of(own)

        def step(batch: Batch) -> None:
            tokens, targets = (each.to(this.device()) for each in batch)
            first, last = this.number() == 0, this.number() == ranks - 1
            run.step(*([tokens] if first else []), target=targets if last else None, losses=[] if last else None)
            adam.step()
            adam.zero_grad()

        return step

    return {name: ours(name) for name in torchs} | {f"torch's {name}": theirs(name) for name in torchs}


# --- context parallelism: attention alone, forward and backward


def context(world: World) -> dict[str, Step]:
    from torch.distributed.tensor.experimental._context_parallel import _attention as torchs

    if this.device().type != "cpu":
        return {}
    ranks, length, width = this.world_size(), 1024, 32
    ring = Ring(Places(length=length, ranks=ranks, order="zigzag"), group=world.group)
    inputs = [torch.randn(2, 4, length // ranks, width) for _ in range(4)]
    torchs._cp_options.enable_load_balance = True

    def ours(_: Batch) -> None:
        q, k, v = (each.clone().requires_grad_() for each in inputs[:3])
        torch.autograd.backward(ring.attend(q, k, v), inputs[3])

    def backward(grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, **named: Any) -> Any:
        own = grad_out, query, key, value, named["out"], named["logsumexp"], 0.0, named["is_causal"]
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(*own)

    def theirs(_: Batch) -> None:
        q, k, v, dout = inputs
        forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        out, lse = torchs._templated_ring_attention(world.group, 2, forward, q, k, v, is_causal=True)
        torchs._templated_ring_attention_backward(
            world.group, 2, cast("Any", backward), dout, "grad_out", q, k, v, out, lse, is_causal=True
        )

    return {"ring attention": ours, "torch's ring attention": theirs}


# --- layouts: a tensor axis of 2 beside a pipeline, or beside data


def layout(_: World) -> dict[str, Step]:
    if this.world_size() % 2:
        return {}
    half, m = this.world_size() // 2, 6
    piece: dict[str, Any] = {
        "*.token": RowwiseParallel(input_layouts=Replicate()),
        "*.attention.qkv": ColwiseParallel(),
        "*.attention.out": RowwiseParallel(),
        "*.up": ColwiseParallel(),
        "*.down": RowwiseParallel(),
        "*.linear": ColwiseParallel(output_layouts=Replicate()),
    }

    def parts(layout: Layout, batch: Batch) -> Any:
        data = layout.coordinates(this.number())["data"]
        return micro_batches(batch, rank=data, ranks=layout.dp, accumulate=m // layout.dp, device=this.device())

    def ours(layout: Layout) -> Step:
        model = GPT(SHAPE).to(this.device())
        strategy = Parallel(
            model.pieces,
            layout=layout,
            mesh=mesh_of(layout, device=this.device().type),
            orders=schedule("1f1b", ranks=layout.pp, micro_batches=m // layout.dp),
            hidden=SHAPE.hidden,
            length=SHAPE.sequence,
            loss=model.loss,
            recipe=Recipe(),
        )
        return lambda batch: strategy.train_step(parts(layout, batch))

    def theirs(layout: Layout) -> Step:
        mesh, model = mesh_of(layout, device=this.device().type), GPT(SHAPE).to(this.device())
        for block in model.blocks:
            cast("Any", block).attention.heads //= layout.tp
        rank = layout.coordinates(this.number())["pipeline"]
        own = nn.Sequential(*stages_of(model.pieces, stages=layout.pp)[rank])
        names = [name for name, _ in own.named_modules()]
        known = {key: style for key, style in piece.items() if any(name.endswith(key[1:]) for name in names)}
        parallelize_module(own, mesh["tensor"], known)
        if layout.dp > 1:
            fully_shard(own, mesh=mesh["data"], reshard_after_forward=False)
        stage = PipelineStage(own, rank, layout.pp, this.device(), group=mesh.get_group("pipeline"))

        def loss(logits: Tensor, targets: Tensor) -> Tensor:
            return model.loss(logits.flatten(0, 1), targets.flatten())

        run = Schedule1F1B(stage, n_microbatches=m // layout.dp, loss_fn=loss)
        adam = torch.optim.Adam(own.parameters(), lr=1e-3, eps=1e-6)  # fused takes no mixed kinds of tensors
        first, last = rank == 0, rank == layout.pp - 1

        def step(batch: Batch) -> None:
            tokens, targets = (torch.cat(each) for each in zip(*parts(layout, batch), strict=True))
            run.step(*([tokens] if first else []), target=targets if last else None, losses=[] if last else None)
            adam.step()
            adam.zero_grad()

        return step

    layouts = {"pipeline x tensor": Layout(pp=half, tp=2), "data x tensor": Layout(dp=half, tp=2)}
    return {name: ours(each) for name, each in layouts.items()} | {
        f"torch's {name}": theirs(each) for name, each in layouts.items()
    }


# --- recomputation


def recomputation(world: World) -> dict[str, Step]:
    def step_of(model: GPT) -> Step:
        strategy = DataParallel(model, model.pieces, group=world.group, recipe=Recipe())
        return lambda batch: strategy.train_step(mine(batch))

    plain, ours, theirs = (GPT(SHAPE).to(this.device()) for _ in range(3))
    recompute(ours, mode="full")
    for block in theirs.blocks:
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)
    return {"none": step_of(plain), "recompute": step_of(ours), "torch.utils.checkpoint": step_of(theirs)}


# --- checkpoints: saving what ZeRO-1 holds, beside dcp.save of as many bytes


def saving(world: World) -> dict[str, Step]:
    model = GPT(SHAPE).to(this.device())
    strategy = Zero1(model, model.pieces, group=world.group, recipe=Recipe())
    strategy.train_step(mine(global_batch(0, size=BATCH, sequence=SHAPE.sequence)))
    places = places_of(shapes_in(strategy.units), names_of(model))
    checkpoints, steps = Checkpoints(world.folder / "ours"), iter(range(10**6))

    def begin() -> None:
        checkpoints.save(parts_of(strategy.units, places), {}, step=next(steps))

    def ours(_: Batch) -> None:
        begin()
        checkpoints.wait()

    def theirs(_: Batch) -> None:
        """Every rank saves its own tensors under names of its own: nothing could be resharded from it."""
        own = [part for part in parts_of(strategy.units, places) if part.saves]
        state = {f"rank-{this.number()}-{number}": part.local.clone() for number, part in enumerate(own)}
        place = world.folder / f"dcp-{next(steps)}"
        cast("Any", dcp).save(state, checkpoint_id=place)
        dist.barrier()
        if this.number() == 0:
            shutil.rmtree(place)

    return {"save": ours, "dcp.save": theirs}


# --- the collectives themselves, on 13 MB


def collectives(world: World) -> dict[str, Step]:
    flat = torch.zeros(math.lcm(16, this.world_size()) * 200_000)
    shard = flat.chunk(this.world_size())[this.number()].clone()
    return {
        "all_reduce": lambda _: dist.all_reduce(flat, group=world.group),
        "reduce_scatter": lambda _: dist.reduce_scatter_single(shard, flat, group=world.group),
        "all_gather": lambda _: dist.all_gather_single(flat, shard, group=world.group),
    }


FAMILIES = {
    "collectives": collectives,
    "data": data,
    "tensor": tensor,
    "pipeline": pipeline,
    "context": context,
    "layout": layout,
    "recompute": recomputation,
    "checkpoint": saving,
}


# --- measuring


def in_turns(steps: dict[str, Step]) -> dict[str, float]:
    """Seconds of a step of each, the median of turns in which each has one."""
    spent: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(STEPS):
        batch = global_batch(turn, size=BATCH, sequence=SHAPE.sequence)
        for name, step in steps.items():
            dist.barrier()
            started = time.perf_counter()
            step(batch)
            dist.barrier()
            spent[name].append(time.perf_counter() - started)
    return {name: statistics.median(own[WARM:]) for name, own in spent.items()}


@contextmanager
def shared_folder() -> Iterator[Path]:
    """One folder on a disk, known to all ranks of this machine, gone at the end."""
    places = [tempfile.mkdtemp(prefix="shardwise-bench-") if this.number() == 0 else ""]
    dist.broadcast_object_list(places)
    try:
        yield Path(places[0])
    finally:
        if this.number() == 0:
            shutil.rmtree(places[0], ignore_errors=True)


def one_step_cpu() -> dict[str, float]:
    """CPU seconds of a step of plain training on one rank: alone, under our tracker, under torch's MemTracker."""
    from contextlib import nullcontext

    from torch.distributed._tools.mem_tracker import MemTracker

    batch = global_batch(0, size=BATCH, sequence=SHAPE.sequence)
    model = GPT(SHAPE)
    adam = adam_of(model)

    def step() -> None:
        model(*batch).backward()
        adam.step()
        adam.zero_grad()

    def timed(context: Any, before: Callable[[], None] = lambda: None) -> float:
        spent = []
        with context:
            for _ in range(STEPS):
                before()
                started = time.process_time()
                step()
                spent.append(time.process_time() - started)
        return statistics.median(spent[WARM:])

    step()
    alone = timed(nullcontext())
    tracked = timed(Tracker(model=model, optimizer=adam))
    tracker = MemTracker()
    tracker.track_external(model, adam)
    return {"alone": alone, "tracker": tracked, "memtracker": timed(tracker, tracker.reset_mod_stats)}


if __name__ == "__main__":
    with this.group() as group, shared_folder() as place:
        world = World(group=group, folder=place)
        found: dict[str, Any] = {}
        for name in sys.argv[1:] or FAMILIES:
            found[name] = in_turns(FAMILIES[name](world))
        cpu = one_step_cpu() if this.number() == 0 else None
        this.report({"steps": found, "cpu": cpu})
