"""Runs in the ranks: ring attention beside attention on one process, alone and in the model, and beside torch's own
ring. Reports the largest differences.
"""

from __future__ import annotations

import itertools
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor.experimental._context_parallel import _attention as torchs
from torch.nn import functional as F

from labs.data import global_batch, micro_batches
from labs.model import GPT, Shape, attend
from labs.planner import context as formula
from labs.runner import rank as this
from labs.strategies.context import ORDERS, Places, Ring, parallelize
from labs.strategies.data_parallel import DataParallel
from labs.strategies.units import Recipe
from labs.telemetry import Tracker

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32, "fp64": torch.float64}
BATCH, HEADS, VALUES = 2, 2, 6


def worst(ours: Tensor, expected: Tensor) -> float:
    return (ours.double() - expected.double()).abs().max().item() if ours.numel() else 0.0


def random(length: int, dtype: torch.dtype) -> list[Tensor]:
    """Queries, keys, values and the gradient of the output, the same on every rank."""
    chance = torch.Generator().manual_seed(length)
    return [torch.randn(BATCH, HEADS, length, VALUES, generator=chance).to(dtype) for _ in range(4)]


def mine(whole: Tensor, places: Places, rank: int) -> Tensor:
    """A rank's positions; padding is filled with numbers that would show if anybody looked at them."""
    padded = F.pad(whole, (0, 0, 0, places.local * places.ranks - places.length), value=7.0)
    return padded[:, :, places.positions(rank)]


def attention(group: dist.ProcessGroup, *, length: int, order: str, precision: str) -> dict[str, float]:
    """Forward and gradients of attention alone. The gradient of padding's output is zero, as the loss makes it."""
    places = Places(length=length, ranks=dist.get_world_size(group), order=order)
    ring = Ring(places, group=group)
    *wholes, dout = random(length, DTYPES[precision])
    true = [x.to(torch.float64, copy=True).requires_grad_() for x in wholes]
    expected = attend(*true)
    torch.autograd.backward(expected, dout.double())
    own = [mine(x, places, ring.rank).requires_grad_() for x in wholes]
    out = ring.attend(*own)
    kept = places.positions(ring.rank) < length
    torch.autograd.backward(out, mine(dout, places, ring.rank) * kept[:, None])
    found = {"forward": worst(out[:, :, kept], mine(expected.detach(), places, ring.rank)[:, :, kept])}
    for name, x, y in zip("qkv", own, true, strict=True):
        assert x.grad is not None
        assert y.grad is not None
        found["d" + name] = worst(x.grad[:, :, kept], mine(y.grad, places, ring.rank)[:, :, kept])
        found["padding"] = max(found.get("padding", 0.0), worst(x.grad[:, :, ~kept], torch.zeros(1)))
    return found


def seen(group: dist.ProcessGroup, *, length: int, order: str) -> list[tuple[int, list[int]]]:
    """Which positions each true position of this rank looks at: equal scores, and values that name their position."""
    places = Places(length=length, ranks=dist.get_world_size(group), order=order)
    ring = Ring(places, group=group)
    positions = places.positions(ring.rank)
    named = F.one_hot(positions, places.local * places.ranks).double()[None, None]
    nothing = torch.zeros_like(named)
    weights = ring.attend(nothing, nothing, named)[0, 0]
    return [(int(p), row.nonzero().flatten().tolist()) for p, row in zip(positions, weights, strict=True) if p < length]


def model(group: dist.ProcessGroup, *, length: int, order: str, precision: str, accumulate: int = 1) -> dict[str, Any]:
    """Losses, first gradients and parameters of a few steps beside one process; the ring's traffic in one."""
    dtype, ranks = DTYPES[precision], dist.get_world_size(group)
    recipe = Recipe(master=torch.float64 if precision == "fp64" else torch.float32)
    shape = Shape(layers=2, hidden=12, heads=2, sequence=length)
    ours, twin = GPT(shape, dtype=dtype), GPT(shape, dtype=dtype)
    ring = parallelize(ours, group=group, length=length, order=order)
    strategy = DataParallel(ours, ours.pieces, group=group, recipe=recipe)
    masters = [p.detach().to(recipe.master, copy=True).requires_grad_() for p in twin.parameters()]
    adam = torch.optim.Adam(masters, lr=recipe.lr, eps=recipe.eps)
    found: dict[str, Any] = {"loss": 0.0}
    for step in range(4):
        batch = global_batch(step, size=4, sequence=length)
        parts = [ring.share(*each) for each in micro_batches(batch, rank=0, ranks=1, accumulate=accumulate)]
        with Tracker() as tracker:
            loss = strategy.train_step(parts).double()
        found["moved"] = {name: [c.count, c.bytes] for name, c in tracker.collectives.items() if name != "all_reduce"}
        dist.all_reduce(loss, op=dist.ReduceOp.AVG, group=group)
        expected = twin(*batch)
        twin.zero_grad()
        expected.backward()
        for p, master in zip(twin.parameters(), masters, strict=True):
            assert p.grad is not None
            master.grad = p.grad.to(master.dtype)
        adam.step()
        for p, master in zip(twin.parameters(), masters, strict=True):
            p.data.copy_(master.detach())
        found["loss"] = max(found["loss"], abs(loss.item() - expected.item()))
        if step == 0:
            # After one step Adam's first moment is a tenth of the gradient.
            moments = [adam.state[master]["exp_avg"] for master in masters]
            first = torch.cat([unit.adam.state[unit.master]["exp_avg"][: unit.size] for unit in strategy.trained])
            found["gradients"] = 10 * worst(first, torch.cat([moment.flatten() for moment in moments]))
    pairs = zip(ours.parameters(), twin.parameters(), strict=True)
    found["parameters"] = max(worst(a.detach(), b.detach()) for a, b in pairs)
    predicted = formula.collectives(
        layers=2,
        hidden=12,
        sequence=length,
        batch=4 // accumulate,
        ranks=ranks,
        order=order,
        precision=precision,
        micro_batches=accumulate,
    )
    found["predicted"] = {name: [count.count, count.bytes] for name, count in predicted.items()}
    return found


def beside_torch(group: dist.ProcessGroup, *, length: int, order: str) -> float:
    """torch's ring in fp32, given the kernel that it lacks on the CPU, beside ours: output and gradients."""
    places = Places(length=length, ranks=dist.get_world_size(group), order=order)
    ring = Ring(places, group=group)
    q, k, v, dout = (mine(x, places, ring.rank) for x in random(length, torch.float32))
    torchs._cp_options.enable_load_balance = order == "zigzag"

    def backward(grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, **named: Any) -> Any:
        own = grad_out, query, key, value, named["out"], named["logsumexp"], 0.0, named["is_causal"]
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(*own)

    forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    out, lse = torchs._templated_ring_attention(group, 2, forward, q, k, v, is_causal=True)
    theirs = torchs._templated_ring_attention_backward(
        group, 2, cast("Any", backward), dout, "grad_out", q, k, v, out, lse, is_causal=True
    )
    own = [x.clone().requires_grad_() for x in (q, k, v)]
    result = ring.attend(*own)
    torch.autograd.backward(result, dout)
    differences = [worst(result.detach(), out)]
    for x, y in zip(own, theirs[:3], strict=True):
        assert x.grad is not None
        differences.append(worst(x.grad, y))
    return max(differences)


if __name__ == "__main__":
    with this.group() as world:
        n = dist.get_world_size(world)
        report: dict[str, Any] = {"attention": [], "seen": [], "model": [], "torch": []}
        for length, order, precision in itertools.product((1, n + 1, 8 * n + 3), ORDERS, DTYPES):
            case: dict[str, Any] = {"length": length, "order": order, "precision": precision}
            report["attention"].append([case, attention(world, **case)])
        for length, order in itertools.product((1, 2 * n, 4 * n + 1), ORDERS):
            report["seen"].append([{"length": length}, seen(world, length=length, order=order)])
        for length, order, precision in itertools.product((max(1, n - 1), 13), ORDERS, DTYPES):
            if length < n and precision != "fp64":
                continue
            case = {"length": length, "order": order, "precision": precision, "accumulate": 2 if length > n else 1}
            report["model"].append([case, model(world, **case)])
        for order in ORDERS:
            report["torch"].append(beside_torch(world, length=8 * n, order=order))
        this.report(report)
