"""Checks `judge(layout, machine)` and `pick(layouts, machine)` on every layout that the planner's search looks at."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from labs.exercises.trial import Case, Failure, Result, Student, Work, kind
from labs.planner import links
from labs.planner.configuration import Configuration
from labs.planner.hardware import Accelerator, accelerator
from labs.planner.memory import memory, stage_parameters
from labs.planner.models import model
from labs.planner.search import candidates
from labs.planner.throughput import LAYER, bubble, seconds, step_flops

CASES = (Case(name="arithmetic", ranks=1, communicates=False),)
CLUSTERS = (("gpt-1.7b", "a100-40", 8, 16), ("gpt-18b", "a100-40", 16, 32), ("gpt-7.5b", "rtx-4090", 4, 8))
"""Models, accelerators, how many of them, and sequences in a step. On the last nothing fits."""
SAME = 1e-9


def work(student: Student, case: Case, seed: int, group: Any) -> Work:
    judge, pick = student["judge"], student["pick"]
    found: dict[str, Any] = {}
    for name, card, gpus, batch in CLUSTERS:
        gpu = accelerator(card)
        layouts = [layout_of(plan, gpu) for plan in plans(name, card, gpus, batch)]
        judged = [plain(judge(dict(layout), machine_of(gpu))) for layout in layouts]
        picked = None
        if all(isinstance(each, list) for each in judged):  # else it could not choose either
            picked = pick([dict(layout) for layout in layouts], machine_of(gpu))
        found[name] = {"judged": judged, "picked": picked if type(picked) is int or picked is None else kind(picked)}
    return Work(value=found)


def plain(value: object) -> list[float] | str:
    """Bytes and seconds, or what stands there instead."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        return kind(value)
    held, seconds = value
    if type(held) is not int or type(seconds) not in (int, float) or not math.isfinite(seconds):
        return f"({kind(held)}, {kind(seconds)})"
    return [held, seconds]


@cache
def plans(name: str, card: str, gpus: int, batch: int) -> tuple[Configuration, ...]:
    """What the search looks at."""
    return tuple(candidates(model(name), gpus=gpus, gpu=accelerator(card), batch=batch))


def machine_of(gpu: Accelerator) -> dict[str, float]:
    rate = gpu.peak * LAYER
    return {"memory": gpu.memory, "rate": rate, "link": gpu.link, "network": gpu.network, "node": gpu.node}


def layout_of(plan: Configuration, gpu: Accelerator) -> dict[str, float]:
    """The counts of one layout, from which bytes and seconds follow."""
    held = memory(plan)
    sent = {axis.name: axis for axis in links.axes(plan, gpu=gpu)}
    fullest = max(plan.layers) * plan.pp / plan.model.layers
    return {
        "dp": plan.dp,
        "tp": plan.tp,
        "pp": plan.pp,
        "zero": plan.zero,
        "micro_batches": plan.micro_batches,
        "chunks": plan.interleave,
        "parameters": sum(stage_parameters(plan, stage=held.stage)),
        "other": held.bars.total - held.bars.states,
        "operations": step_flops(plan) / plan.gpus * fullest,
        "tensor_bytes": sent["tensor"].bytes,
        "data_bytes": sent["data"].bytes,
        "hidden": sent["data"].overlap,
    }


# --- what is right, and what a wrong number means


def compare(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    (result,) = results
    for cluster in CLUSTERS:
        gpu, every = accelerator(cluster[1]), plans(*cluster)
        found: Any = result.get(cluster[0])
        for plan, got in zip(every, found["judged"], strict=True):
            if failure := misjudged(plan, gpu, got):
                yield failure
                return
    for cluster in CLUSTERS:
        picked: Any = result.get(cluster[0])
        if failure := mispicked(plans(*cluster), accelerator(cluster[1]), picked["picked"]):
            yield failure
            return


def misjudged(plan: Configuration, gpu: Accelerator, got: Any) -> Failure | None:
    """What is wrong with the bytes and seconds of one layout."""
    told: dict[str, object] = {"layout": shown(plan)}
    if not isinstance(got, list):
        return Failure(group="shape", id="not-a-pair", values={**told, "got": got})
    layout, bars = layout_of(plan, gpu), memory(plan).bars
    held, took = got
    if held != bars.total:
        told |= {"got": f"{held:,}", "expected": f"{bars.total:,}"}
        return Failure(group="memory", id=meaning_of_bytes(layout, held), values=told)
    expected = seconds(plan, gpu=gpu)
    if not math.isclose(took, expected, rel_tol=SAME):
        told |= {"got": f"{took:.4g}", "expected": f"{expected:.4g}"}
        return Failure(group="time", id=meaning_of_seconds(plan, gpu, layout, took), values=told)
    return None


def meaning_of_bytes(layout: Mapping[str, float], held: float) -> str:
    whole, other = layout["parameters"], layout["other"]
    shard = -(-whole // layout["dp"])
    wrong = {
        "no-other": held_by(layout) - other,
        "nothing-sharded": 18 * whole + other,
        "all-sharded": 18 * shard + other,
        "sixteen-bytes": held_by(layout) - 2 * (shard if layout["zero"] >= 2 else whole),
    }
    return next((id for id, value in wrong.items() if value == held), "bytes")


def held_by(layout: Mapping[str, float]) -> float:
    whole, stage = layout["parameters"], layout["zero"]
    shard = -(-whole // layout["dp"])
    cost = ((2, 3), (4, 2), (12, 1))
    return sum(width * (shard if stage >= least else whole) for width, least in cost) + layout["other"]


def meaning_of_seconds(plan: Configuration, gpu: Accelerator, layout: Mapping[str, float], took: float) -> str:
    """The first rule whose breach gives this number."""
    computing = layout["operations"] / (gpu.peak * LAYER)
    tensor, sent = layout["tensor_bytes"] / gpu.link, layout["data_bytes"] * (1 - layout["hidden"])

    def over(near: bool) -> float:
        return sent / gpu.link if near else sent / gpu.network if gpu.network else 0.0

    data, idle = over(plan.tp * plan.dp <= gpu.node), bubble(plan)
    one_chunk = (plan.pp - 1) / (plan.micro_batches + plan.pp - 1)
    right = (computing + tensor) / (1 - idle)
    wrong = {
        "no-bubble": computing + tensor + data,
        "bubble-of-computing": (computing + tensor) * (1 + idle) + data,
        "no-chunks": (computing + tensor) / (1 - one_chunk) + data,
        "data-in-the-slots": (computing + tensor + data) / (1 - idle),
        "tensor-after": computing / (1 - idle) + tensor + data,
        "data-near": right + over(plan.dp <= gpu.node),
        "data-always-far": right + over(near=False),
        "not-hidden": right + data / (1 - layout["hidden"]),
    }
    return next((id for id, value in wrong.items() if math.isclose(value, took, rel_tol=SAME)), "seconds")


def mispicked(every: Sequence[Configuration], gpu: Accelerator, got: Any) -> Failure | None:
    """What is wrong with the choice among layouts that are all judged right."""
    costs = [(seconds(plan, gpu=gpu), memory(plan, gpu=gpu)) for plan in every]
    fit = [(took, place) for place, (took, held) in enumerate(costs) if held.fits]
    told: dict[str, object] = {"count": len(every), "got": str(got)}
    if isinstance(got, str) or (got is not None and not 0 <= got < len(every)):
        return Failure(group="choice", id="no-place", values=told)
    if not fit:
        return None if got is None else Failure(group="choice", id="none-fits", values=told)
    best = min(fit)
    told |= {"best": shown(every[best[1]])}
    if got is None:
        return Failure(group="choice", id="some-fit", values=told)
    took, held = costs[got]
    told |= {"layout": shown(every[got]), "seconds": f"{took:.4g}", "least": f"{best[0]:.4g}"}
    if not held.fits:
        return Failure(group="choice", id="too-large", values=told)
    return None if took == best[0] else Failure(group="choice", id="slower", values=told)


def shown(plan: Configuration) -> str:
    chunks = f", {plan.interleave} chunks" if plan.interleave > 1 else ""
    return f"dp {plan.dp} x tp {plan.tp} x pp {plan.pp}, ZeRO-{plan.zero}, {plan.micro_batches} micro-batches{chunks}"


def remarks(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    return iter(())
