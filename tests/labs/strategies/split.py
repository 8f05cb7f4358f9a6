"""Runs in the ranks: tensor and sequence parallelism beside one process, beside torch's own, and used wrongly."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.profiler import record_function

import labs.model
from labs.data import global_batch, micro_batches
from labs.model import GPT, Shape
from labs.planner.tensor import Split, predict
from labs.runner import rank as this
from labs.strategies import tensor_parallel
from labs.strategies.tensor import ColumnParallelLinear, RowParallelLinear, Shard, part
from labs.strategies.tensor_parallel import TensorParallel, loss_of, parallelize, shards, squares, whole, whole_of
from labs.strategies.units import Recipe
from labs.telemetry import Tracker

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32, "fp64": torch.float64}
BATCH, SEQUENCE, STEPS = 4, 8, 3


def model_of(case: dict[str, Any]) -> GPT:
    shape = Shape(layers=2, hidden=16, heads=4, sequence=SEQUENCE, tied=case.get("tied", False))
    with mock.patch.object(labs.model, "VOCABULARY", case.get("vocabulary", 256)):
        model = GPT(shape, seed=1, dtype=DTYPES[case["precision"]])
    if case.get("frozen"):
        model.blocks[0].requires_grad_(False)
        model.embedding.position.requires_grad_(False)
    return model


def batch_of(case: dict[str, Any], step: int) -> tuple[Tensor, Tensor]:
    tokens, targets = global_batch(step, size=BATCH, sequence=SEQUENCE)
    return tokens % case.get("vocabulary", 256), targets % case.get("vocabulary", 256)


class Twin:
    """The same model on one process: torch's own Adam over master copies."""

    def __init__(self, case: dict[str, Any], recipe: Recipe) -> None:
        self.case, self.recipe, self.model = case, recipe, model_of(case)
        self.trained = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        self.masters = [p.detach().to(recipe.master, copy=True).requires_grad_() for p in self.trained.values()]
        self.adam = torch.optim.Adam(self.masters, lr=recipe.lr, eps=recipe.eps)

    def step(self, step: int) -> float:
        loss = self.model(*batch_of(self.case, step))
        self.model.zero_grad()
        loss.backward()
        for p, master in zip(self.trained.values(), self.masters, strict=True):
            master.grad = p.grad.to(master.dtype)
        if self.recipe.clip is not None:
            nn.utils.clip_grad_norm_(self.masters, self.recipe.clip)
        self.adam.step()
        for p, master in zip(self.trained.values(), self.masters, strict=True):
            p.data.copy_(master.detach())
        return float(loss.item())


def furthest(pairs: Iterable[tuple[Tensor, Tensor]]) -> float:
    return max((a.double() - b.double()).abs().max().item() for a, b in pairs)


def run(case: dict[str, Any], group: dist.ProcessGroup) -> dict[str, Any]:
    """Train both side by side; the largest differences, what was measured and what the formula says."""
    recipe = Recipe(master=DTYPES["fp64" if case["precision"] == "fp64" else "fp32"], clip=case.get("clip"))
    twin = Twin(case, recipe)
    sequence, accumulate = case.get("sequence", False), case.get("accumulate", 1)
    result: dict[str, Any] = {"case": case, "losses": [], "loss": 0.0}
    with ExitStack() as stack:
        tracker = stack.enter_context(Tracker())
        tracker.name_axis(group, "tensor")
        if case.get("forgotten"):
            stack.enter_context(mock.patch.object(tensor_parallel, "sum_partial_gradients"))
        with record_function("parameters"):
            model = model_of(case)
        strategy = TensorParallel(model, group=group, recipe=recipe, sequence=sequence)
        kept: list[int] = []
        model.register_forward_hook(lambda *_: kept.append(tracker.now.activations))
        for step in range(STEPS):
            tracker.reset_collectives()
            mine = micro_batches(batch_of(case, step), rank=0, ranks=1, accumulate=accumulate)
            result["losses"].append(strategy.train_step(mine).item())
            with record_function("report"):
                result["loss"] = max(result["loss"], abs(result["losses"][-1] - twin.step(step)))
            if step == 0:
                # Adam's first moment after one step is a tenth of the gradient.
                found = {
                    name: whole_of(strategy.adam.state[master]["exp_avg"], shards(model)[name], group=group)
                    for name, master in zip(twin.trained, strategy.masters, strict=True)
                }
                expected = zip(twin.trained, twin.masters, strict=True)
                result["gradients"] = 10 * furthest(
                    (found[name], twin.adam.state[master]["exp_avg"]) for name, master in expected
                )
        result["rest"], result["collectives"] = tracker.rest.as_dict(), tracker.axes["tensor"]
    result["collectives"] = {name: [c.count, c.bytes] for name, c in result["collectives"].items()}
    ours, theirs = whole(model, group=group), dict(twin.model.named_parameters())
    split = Split(
        layers=2,
        hidden=16,
        heads=4,
        sequence=SEQUENCE,
        batch=BATCH // accumulate,
        vocabulary=case.get("vocabulary", 256),
        ranks=dist.get_world_size(group),
        tied=case.get("tied", False),
        sequence_parallel=sequence,
    )
    prediction = predict(split, precision=case["precision"], micro_batches=accumulate)
    states = prediction.states
    return result | {
        "parameters": furthest((ours[name], theirs[name].detach()) for name in theirs),
        "norm": model.blocks[0].attention_norm.weight.tolist(),
        "kept": [min(kept), split.kept(case["precision"])],
        "predicted": {
            "states": [states.parameters, states.gradients, states.optimizer_states],
            "collectives": {name: [c.count, c.bytes] for name, c in prediction.collectives.items()},
        },
    }


def in_pieces(case: dict[str, Any], group: dist.ProcessGroup) -> dict[str, Any]:
    """Each piece split by itself, as pipeline stages have them, and the loss as a function beside the last."""
    reference, model = model_of(case), model_of(case)
    batch = batch_of(case, 0)
    expected = reference(*batch)
    expected.backward()
    pieces = [parallelize(piece, group=group, sequence=case["sequence"]) for piece in model.pieces]
    x = batch[0]
    for piece in pieces:
        x = piece(x)
    loss = loss_of(pieces[-1], group=group)(x.flatten(0, 1), batch[1].flatten())
    loss.backward()
    tensor_parallel.sum_partial_gradients(model.parameters(), group=group)
    lie = shards(model)
    gradients = furthest(
        (whole_of(p.grad, lie[name], group=group), dict(reference.named_parameters())[name].grad)
        for name, p in model.named_parameters()
    )
    norm = squares(list(model.parameters()), group=group).sqrt()
    expected_norm = nn.utils.get_total_norm([p.grad for p in reference.parameters()])
    return {
        "case": case,
        "loss": abs(loss.item() - expected.item()),
        "gradients": gradients,
        "clipping": abs(norm.item() - expected_norm.item()),
        "shards": {name: [shard.dim, shard.sections, shard.partial] for name, shard in lie.items()},
    }


def torchs_own(case: dict[str, Any], group: dist.ProcessGroup) -> dict[str, Any]:
    """torch's parallelize_module with a plan for the same model, and its loss_parallel."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate
    from torch.distributed.tensor import Shard as Placed
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        SequenceParallel,
        loss_parallel,
        parallelize_module,
    )

    ranks = dist.get_world_size(group)
    recipe = Recipe(master=DTYPES[case["precision"]])
    ours, theirs = model_of(case), model_of(case)
    strategy = TensorParallel(ours, group=group, recipe=recipe, sequence=case["sequence"])
    for block in theirs.blocks:  # torch splits rows in one stretch: put each rank's queries, keys and values together
        block.attention.heads //= ranks
        weight = block.attention.qkv.weight
        thirds = Shard(dim=0, size=len(weight), sections=3)
        weight.data = torch.cat([part(weight.data, thirds, rank=rank, ranks=ranks) for rank in range(ranks)])
    split = case["sequence"]
    stream = Placed(1) if split else Replicate()
    plan: dict[str, Any] = {
        "embedding.token": RowwiseParallel(input_layouts=Replicate(), output_layouts=stream),
        "blocks.*.attention.qkv": ColwiseParallel(input_layouts=stream),
        "blocks.*.attention.out": RowwiseParallel(output_layouts=stream),
        "blocks.*.up": ColwiseParallel(input_layouts=stream),
        "blocks.*.down": RowwiseParallel(output_layouts=stream),
        "head.linear": ColwiseParallel(input_layouts=stream, output_layouts=Placed(-1), use_local_output=False),
    }
    if split:
        plan["embedding.position"] = RowwiseParallel(input_layouts=Replicate(), output_layouts=Placed(0))
        for name in ("blocks.*.attention_norm", "blocks.*.mlp_norm", "head.norm"):
            plan[name] = SequenceParallel(use_local_output=True)
    parallelize_module(theirs, init_device_mesh("cpu", (ranks,), mesh_dim_names=("tensor",)), plan)
    adam = torch.optim.Adam(theirs.parameters(), lr=recipe.lr, eps=recipe.eps)
    worst = 0.0
    for step in range(STEPS):
        batch = batch_of(case, step)
        adam.zero_grad()
        with loss_parallel():
            loss = theirs(*batch)
            loss.backward()
        adam.step()
        loss = loss.full_tensor() if isinstance(loss, DTensor) else loss
        worst = max(worst, abs(strategy.train_step([batch]).item() - loss.item()))
    found, lie = whole(ours, group=group), shards(ours)

    def full(name: str, p: Tensor) -> Tensor:
        p = p.full_tensor().detach() if isinstance(p, DTensor) else p.detach()
        if lie[name].sections == 1:
            return p
        return tensor_parallel.joined(p.chunk(ranks), lie[name])

    parameters = furthest((found[name], full(name, p)) for name, p in theirs.named_parameters())
    return {"case": case, "loss": worst, "parameters": parameters}


def wrong_use(group: dist.ProcessGroup) -> dict[str, str]:
    """What each misuse says."""
    said = {}

    def collect(name: str, misuse: Any) -> None:
        try:
            misuse()
        except ValueError as error:
            said[name] = str(error)

    odd = Shape(layers=1, hidden=15, heads=3, sequence=SEQUENCE)
    collect("heads", lambda: parallelize(GPT(odd), group=group))
    collect("columns", lambda: ColumnParallelLinear(nn.Linear(4, 7), group=group))
    collect("rows", lambda: RowParallelLinear(nn.Linear(7, 4), group=group))
    model = parallelize(model_of({"precision": "fp32"}), group=group, sequence=True)
    collect("twice", lambda: parallelize(model, group=group))
    tokens = torch.zeros(1, SEQUENCE - 1, dtype=torch.long)
    collect("sequence", lambda: model(tokens, tokens))
    return said


if __name__ == "__main__":
    with this.group() as world:
        functions = {"run": run, "pieces": in_pieces, "torch": torchs_own}
        given = json.loads(sys.argv[1])
        results = [functions[case.get("as", "run")](case, world) for case in given]
        this.report({"results": results, "said": wrong_use(world)})
