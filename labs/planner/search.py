"""Every layout of a model on a cluster, ranked by the seconds of a step among those that fit.

The search is exhaustive over what the papers vary: data x pipeline x tensor degrees, micro-batch, interleaving, ZeRO
stage, recomputation. Memory and time come from the same functions that the calculators show. What it may leave out
without a look is only what cannot win: more recomputation than is needed to fit, since it costs time and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from labs.planner.configuration import RECOMPUTE, STACKS, Configuration, Stack, divisors, within
from labs.planner.hardware import Accelerator
from labs.planner.links import axes, in_the_open
from labs.planner.memory import Memory, memory
from labs.planner.models import Model
from labs.planner.throughput import LAYER, bubble, compute_seconds, seconds, step_flops
from translations import CourseError

LARGEST_MICRO_BATCH = 16
LARGEST_INTERLEAVE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A layout that fits, its seconds a step, and the id of what the next one spends more on."""

    plan: Configuration
    seconds: float
    memory: Memory
    why_next_lost: str | None = None

    @property
    def bytes(self) -> int:
        return self.memory.total

    def as_json(self) -> dict[str, object]:
        plan = self.plan
        return {
            "dp": plan.dp,
            "tp": plan.tp,
            "pp": plan.pp,
            "zero": plan.zero,
            "recompute": plan.recompute,
            "micro_batch": plan.micro_batch,
            "interleave": plan.interleave,
            "seconds": self.seconds,
            "bytes": self.bytes,
            "why_next_lost": self.why_next_lost,
        }


def search(
    model: Model,
    *,
    gpus: int,
    gpu: Accelerator,
    batch: int,
    stack: Stack = STACKS["megatron"],
    sequence: int | None = None,
    efficiency: float = LAYER,
    most: int = 10,
    recompute: Sequence[str] = RECOMPUTE,
    sequence_parallel: bool = True,
) -> tuple[Ranked, ...]:
    """The best variant of each dp x tp x pp, at most `most` of them. Where the matrices are split, so is the sequence
    beside them, unless `sequence_parallel` says that the stack cannot. Raises CourseError where none fits, with the
    layout that comes nearest.
    """
    found = ranking(
        model, gpus=gpus, gpu=gpu, batch=batch, stack=stack, sequence=sequence, efficiency=efficiency,
        recompute=recompute, sequence_parallel=sequence_parallel,
    )  # fmt: skip
    kept = found[: most + 1]
    return tuple(
        replace(
            each,
            why_next_lost=spends_more_on(each, after, gpu=gpu, efficiency=efficiency) if after is not None else None,
        )
        for each, after in zip(kept[:most], [*kept[1:], None], strict=False)
    )


def ranking(
    model: Model,
    *,
    gpus: int,
    gpu: Accelerator,
    batch: int,
    stack: Stack = STACKS["megatron"],
    sequence: int | None = None,
    efficiency: float = LAYER,
    recompute: Sequence[str] = RECOMPUTE,
    sequence_parallel: bool = True,
) -> list[Ranked]:
    """All of them, without what the next one spends more on."""
    within("gpus", gpus)
    within("batch", batch)
    if sequence is not None:
        within("sequence", sequence)
    found: list[Ranked] = []
    nearest: Memory | None = None
    unreachable = False
    for degrees in all_degrees(model, gpus=gpus, batch=batch, node=gpu.node):
        best: Ranked | None = None
        for plan in _variants(
            model, degrees, batch=batch, stack=stack, sequence=sequence, recompute=recompute,
            sequence_parallel=sequence_parallel,
        ):  # fmt: skip
            took = seconds(plan, gpu=gpu, efficiency=efficiency)
            unreachable |= took == float("inf")
            if took == float("inf") or (best is not None and took > best.seconds):
                continue
            held = memory(plan, gpu=gpu)
            if not held.fits:
                nearest = held if nearest is None or held.total < nearest.total else nearest
                continue
            if best is None or (took, held.total) < (best.seconds, best.bytes):
                best = Ranked(plan=plan, seconds=took, memory=held)
        if best is not None:
            found.append(best)
    if not found:
        if nearest is None and unreachable:
            raise CourseError("labs.plan-no-network", gpu=gpu.title, node=gpu.node)
        if nearest is None:
            raise CourseError("labs.plan-batch", batch=batch, gpus=gpus)
        raise CourseError("labs.plan-none-fits", least=-(-nearest.total // 10**9), memory=gpu.memory // 10**9)
    found.sort(key=lambda each: (each.seconds, each.bytes))
    return found


def candidates(
    model: Model, *, gpus: int, gpu: Accelerator, batch: int, stack: Stack = STACKS["megatron"]
) -> Iterator[Configuration]:
    """Every configuration that the search looks at, whether it fits or not."""
    for degrees in all_degrees(model, gpus=gpus, batch=batch, node=gpu.node):
        yield from _variants(model, degrees, batch=batch, stack=stack, sequence=None)


def largest_tensor_degree(*, heads: int, gpus: int, node: int) -> int:
    """The most tensor ranks that a search can try: they divide heads and accelerators, and stay inside of a node."""
    return max(tp for tp in divisors(gpus) if heads % tp == 0 and tp <= node)


def all_degrees(model: Model, *, gpus: int, batch: int, node: int) -> Iterator[tuple[int, int, int]]:
    """(dp, tp, pp) with dp x tp x pp = gpus; the tensor axis stays inside of a node."""
    for tp in divisors(gpus):
        if model.heads % tp or tp > node:
            continue
        for pp in divisors(gpus // tp):
            dp = gpus // tp // pp
            if pp <= model.layers and batch % dp == 0:
                yield dp, tp, pp


def _variants(
    model: Model,
    degrees: tuple[int, int, int],
    *,
    batch: int,
    stack: Stack,
    sequence: int | None,
    recompute: Sequence[str] = RECOMPUTE,
    sequence_parallel: bool = True,
) -> Iterator[Configuration]:
    """All that the degrees leave open, the cheaper recomputation first."""
    dp, tp, pp = degrees
    for micro_batch in range(1, LARGEST_MICRO_BATCH + 1):
        if batch // dp % micro_batch:
            continue
        micro_batches = batch // dp // micro_batch
        for interleave in _interleavings(model, pp=pp, micro_batches=micro_batches):
            for zero in (0, 1) if pp > 1 else (0, 1, 2, 3):
                if zero and dp == 1:
                    continue
                for how in recompute:
                    yield Configuration(
                        model=model,
                        dp=dp,
                        tp=tp,
                        pp=pp,
                        zero=zero,
                        micro_batch=micro_batch,
                        micro_batches=micro_batches,
                        sequence=sequence,
                        recompute=how,
                        sequence_parallel=sequence_parallel and tp > 1 and (sequence or model.sequence) % tp == 0,
                        interleave=interleave,
                        stack=stack,
                    )


def _interleavings(model: Model, *, pp: int, micro_batches: int) -> Iterator[int]:
    """One chunk a stage, or several where layers and micro-batches divide."""
    yield 1
    if pp > 1 and micro_batches % pp == 0 and model.layers % pp == 0:
        for chunks in range(2, min(LARGEST_INTERLEAVE, model.layers // pp) + 1):
            if model.layers // pp % chunks == 0:
                yield chunks


def spends_more_on(better: Ranked, worse: Ranked, *, gpu: Accelerator, efficiency: float = LAYER) -> str:
    """The id of what the worse layout spends most more seconds on."""

    def parts(ranked: Ranked) -> dict[str, float]:
        plan = ranked.plan
        computing = compute_seconds(plan, gpu=gpu, efficiency=efficiency)
        sent = {f"{name}-traffic": each for name, each in in_the_open(axes(plan, gpu=gpu), computing=computing).items()}
        outside = sent["data-traffic"] + sent["pipeline-traffic"]
        idle = (ranked.seconds - outside) * bubble(plan)
        again = 1 - step_flops(plan, recompute="none") / step_flops(plan)
        inside = ranked.seconds - outside - idle - sent["tensor-traffic"] - sent["context-traffic"]
        uneven = 1 - plan.model.layers / (max(plan.layers) * plan.pp)
        return {**sent, "bubble": idle, "recompute": inside * again, "uneven-stages": inside * uneven}

    own, other = parts(better), parts(worse)
    most = max(other, key=lambda name: other[name] - own[name])
    return most if other[most] - own[most] > 1e-9 * better.seconds else "memory"
