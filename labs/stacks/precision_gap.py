"""What bf16 loses without fp32 masters, an ordinary torchrun script: `torchrun --nproc-per-node 2
labs/stacks/precision_gap.py`.

DeepSpeed and torch's FSDP2 fine-tune one model on the same batches, each with Adam on fp32 masters and with Adam on the
bf16 weights themselves. They take turns step by step, so that their times compare on a busy machine too.
"""

from __future__ import annotations

import importlib.metadata
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy

from labs import training
from labs.cases.rows import Row, rows_of, versions
from labs.catalogue import LabRun, run_lab, together
from labs.data import TEXTS, mixed
from labs.model import GPT, parameter_count
from labs.options.precision_gap import PrecisionGapOptions
from labs.runner import rank as this
from labs.runner import run
from labs.stacks.environment import needs
from labs.stacks.torchs_own import FullySharded
from labs.stacks.zero_engine import deepspeed_here, tensors_in
from labs.strategies.units import MicroBatch, Recipe

if TYPE_CHECKING:
    from labs.telemetry.rows import Told

WAYS = ("deepspeed-masters", "deepspeed-bf16", "fsdp2-upcast", "fsdp2-bf16")
WARM_UP_RATE, SETTLED = 2e-3, 5
"""The rate at which the model first learns, and steps before times count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """`step` trains on a micro-batch and gives this rank's loss; `weights` are what Adam updates, `model` its bf16
    parameters as they rest, `states` what else Adam keeps.
    """

    step: Callable[[MicroBatch], Tensor]
    model: Callable[[], list[Tensor]]
    weights: Callable[[], list[Tensor]]
    adam: torch.optim.Optimizer


def fsdp2(model: GPT, *, recipe: Recipe, upcast: bool, group: dist.ProcessGroup) -> Way:
    """FSDP2 around a model that was loaded in bf16. What shards, Adam updates; with `upcast` that is made fp32 first,
    and the policy has forward and backward in bf16, as Accelerate does since 0.30.
    """
    mesh = DeviceMesh.from_group(group, this.device().type, mesh_dim_names=("data",))
    policy = None
    if upcast:
        model = model.float()
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    sharded = FullySharded(model, model.pieces, mesh=mesh, recipe=recipe, policy=policy)
    shards: Callable[[], list[Tensor]] = lambda: [cast("Any", p).to_local().detach() for p in model.parameters()]  # noqa: E731
    return Way(
        step=lambda batch: sharded.train_step([batch]),
        model=lambda: [p.bfloat16() for p in shards()],
        weights=shards,
        adam=sharded.adam,
    )


def deepspeed(module: Any, model: GPT, *, recipe: Recipe, masters: bool, batch: int) -> Way:
    """ZeRO-2 of DeepSpeed in bf16; it keeps fp32 masters unless told not to."""
    told = {"enabled": True, "bf16_master_weights_and_grads": not masters, "bf16_optimizer_states": not masters}
    engine, *_ = module.initialize(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=recipe.lr, eps=recipe.eps, fused=True),
        config={
            "train_micro_batch_size_per_gpu": batch,
            "gradient_clipping": 0.0,  # where the file says nothing DeepSpeed clips at 1.0
            "zero_optimization": {"stage": 2, "reduce_bucket_size": 1_000_000},
            "bf16": told,
            "zero_allow_untested_optimizer": True,
            "zero_force_ds_cpu_optimizer": False,
            "steps_per_print": 10**9,
        },
        dist_init_required=False,
    )

    def step(micro_batch: MicroBatch) -> Tensor:
        loss: Tensor = engine(*micro_batch)
        engine.backward(loss)
        engine.step()
        return loss.detach()

    return Way(
        step=step,
        model=lambda: [p.detach() for p in engine.module.parameters()],
        weights=lambda: [p.detach() for p in engine.optimizer.single_partition_of_fp32_groups],
        adam=engine.optimizer.optimizer,
    )


def train(options: PrecisionGapOptions) -> dict[str, Any]:
    """What this rank reports."""
    module = deepspeed_here()
    with this.group() as group:
        rank, ranks = dist.get_rank(group), dist.get_world_size(group)
        size, recipe = options.sequences_at_once(ranks), Recipe(lr=options.lr)
        learned = warmed_up(options, ranks=ranks)

        def loaded() -> GPT:
            model = GPT(training.shape_of(options), seed=options.seed, dtype=torch.bfloat16).to(this.device())
            model.load_state_dict(learned)
            return model

        ways = {
            "deepspeed-masters": deepspeed(module, loaded(), recipe=recipe, masters=True, batch=size),
            "deepspeed-bf16": deepspeed(module, loaded(), recipe=recipe, masters=False, batch=size),
            "fsdp2-upcast": fsdp2(loaded(), recipe=recipe, upcast=True, group=group),
            "fsdp2-bf16": fsdp2(loaded(), recipe=recipe, upcast=False, group=group),
        }
        start = {name: copied(way.model()) for name, way in ways.items()}
        losses: dict[str, list[float]] = {name: [] for name in ways}
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        shares: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(options.steps):
            this.step(number)
            batch = batch_of("nl", options, number, size=ranks * size)
            mine = cast("MicroBatch", tuple(part.chunk(ranks)[rank].to(this.device()) for part in batch))
            for turn in range(len(ways)):
                name = WAYS[(number + turn) % len(WAYS)]
                way = ways[name]
                before = copied(way.weights())
                dist.barrier(group)
                begun = time.perf_counter()
                loss = way.step(mine)
                seconds[name].append(time.perf_counter() - begun)
                losses[name].append(training.mean_over_ranks(loss, group))
                shares[name].append(lost(before, way.weights(), group=group))
        return {
            "rank": rank,
            "parameters": parameter_count(loaded()),
            "losses": losses["fsdp2-upcast"],
            "whole": {
                "ways": {
                    name: {
                        "losses": losses[name],
                        "seconds": statistics.median(seconds[name][SETTLED:] or seconds[name]),
                        "lost": statistics.fmean(shares[name]),
                        "still": still(start[name], way.model(), group=group),
                        "adam": sum(local(each).nbytes for each in kept_by(way)),
                    }
                    for name, way in ways.items()
                },
                "versions": versions() | {"deepspeed": importlib.metadata.version("deepspeed")},
            },
        }


def kept_by(way: Way) -> list[Tensor]:
    """What Adam updates on this rank, and its states."""
    return [*way.weights(), *tensors_in(list(way.adam.state.values()))]


def local(tensor: Tensor) -> Tensor:
    """This rank's part of a sharded tensor."""
    return getattr(tensor, "_local_tensor", tensor)


def copied(tensors: Iterable[Tensor]) -> list[Tensor]:
    return [each.clone() for each in tensors]


def lost(before: Sequence[Tensor], after: Sequence[Tensor], *, group: dist.ProcessGroup) -> float:
    """The share of Adam's updates that bf16 rounds away. Of fp32 weights: those that would not move the weight, rounded
    to bf16. Of bf16 weights: those that did not.
    """
    return share(
        [(w.bfloat16() + (new - w).float()).bfloat16() == w.bfloat16() for w, new in zip(before, after, strict=True)],
        group=group,
    )


def still(before: Sequence[Tensor], after: Sequence[Tensor], *, group: dist.ProcessGroup) -> float:
    """The share of the model's bf16 parameters that are bit for bit what they were."""
    return share([a == b for a, b in zip(before, after, strict=True)], group=group)


def share(true: Sequence[Tensor], *, group: dist.ProcessGroup) -> float:
    """The share of all ranks' elements that are true."""
    counts = torch.tensor([sum(int(each.sum()) for each in true), sum(each.numel() for each in true)])
    counts = counts.to(this.device())
    dist.all_reduce(counts, group=group)
    return float(counts[0] / counts[1])


def batch_of(language: str, options: PrecisionGapOptions, step: int, *, size: int) -> MicroBatch:
    """As `labs.data.global_batch`, from one language of the text."""
    text = torch.frombuffer(bytearray((TEXTS / f"{language}.txt").read_bytes()), dtype=torch.uint8)
    generator = torch.Generator().manual_seed(mixed(options.seed, step))
    starts = torch.randint(0, len(text) - options.sequence, (size, 1), generator=generator)
    stretches = text[starts + torch.arange(options.sequence + 1)].long()
    return stretches[:, :-1], stretches[:, 1:]


def warmed_up(options: PrecisionGapOptions, *, ranks: int) -> dict[str, Tensor]:
    """The weights after English, the same on every rank."""
    model = GPT(training.shape_of(options), seed=options.seed)
    adam = torch.optim.Adam(model.parameters(), lr=WARM_UP_RATE)
    for number in range(options.warm_up):
        adam.zero_grad()
        model(*batch_of("en", options, number, size=options.global_batch(ranks))).backward()
        adam.step()
    return model.state_dict()


def reference(options: PrecisionGapOptions, *, ranks: int) -> list[float]:
    """Losses of the same fine-tune in fp32, on one process."""
    model = GPT(training.shape_of(options), seed=options.seed)
    model.load_state_dict({name: p.bfloat16() for name, p in warmed_up(options, ranks=ranks).items()})
    recipe = Recipe(lr=options.lr)
    adam = torch.optim.Adam(model.parameters(), lr=recipe.lr, eps=recipe.eps)
    losses = []
    for number in range(options.steps):
        adam.zero_grad()
        loss: Tensor = model(*batch_of("nl", options, number, size=options.global_batch(ranks)))
        loss.backward()  # type: ignore[no-untyped-call]
        adam.step()
        losses.append(loss.item())
    return losses


def conduct(
    options: PrecisionGapOptions,
    *,
    ranks: int,
    timeout: float = 300.0,
    on_row: Callable[[int, Told], None] | None = None,  # noqa: ARG001
    on_output: Callable[[int, str], None] | None = None,
) -> LabRun:
    """All four ways in one run, and fp32 on one process."""
    here, words = Path(__file__), options.arguments()
    outcome = run(here, ranks=ranks, arguments=words, timeout=timeout, on_output=on_output, python=needs("deepspeed"))
    alone = run(here, ranks=1, arguments=["--reference", str(ranks), *words], timeout=timeout).ranks[0].value
    reports = [cast("dict[str, Any]", each.value) for each in outcome.ranks]
    data = together("precision-gap", options, reports, reference_losses=cast("dict[str, list[float]]", alone)["losses"])
    data["results"] = [each.as_dict() for each in rows_found(data)]
    return LabRun(data=data, rows={})


def rows_found(data: dict[str, Any]) -> list[Row]:
    """What goes into the table of the cases."""
    ways: dict[str, dict[str, Any]] = data["ways"]
    slowest = max(each["seconds"] for each in ways.values())
    columns: tuple[tuple[str, str, Callable[[dict[str, Any]], float]], ...] = (
        ("gap-loss", "", lambda each: at_end(each["losses"])),
        ("gap-lost", "share", lambda each: each["lost"]),
        ("gap-still", "share", lambda each: each["still"]),
        ("gap-adam", "B", lambda each: each["adam"]),
        ("gap-speed", "x", lambda each: slowest / each["seconds"]),
    )
    rows = [Row(name="gap-loss", value=at_end(data["reference_losses"]), of="fp32", versions=data["versions"])]
    return rows + [
        Row(name=name, value=value(each), unit=unit, of=way, versions=data["versions"])
        for name, unit, value in columns
        for way, each in ways.items()
    ]


def at_end(losses: Sequence[float]) -> float:
    """The mean of the last ten losses: one batch's is noise."""
    return statistics.fmean(losses[-10:])


def results() -> Sequence[Row]:
    """For the table of all cases: on 2 ranks."""
    return rows_of(run_lab("precision-gap", ranks=2).data)


if __name__ == "__main__":
    training.main(PrecisionGapOptions, train, reference)
