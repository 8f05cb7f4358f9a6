"""PyTorch's FSDP2 beside our own ZeRO, an ordinary torchrun script: `torchrun --nproc-per-node 4 labs/stacks/fsdp.py
--sharding free`.

Every rank trains the course's GPT under `fully_shard`, or under DistributedDataParallel, with the same weights, data
and Adam as `labs/zero.py`, watched by the same tracker. The lab runs both, one sharding after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy

from labs import training
from labs.cases.rows import Row
from labs.catalogue import LabRun, run_lab, together
from labs.data import micro_batches
from labs.model import GPT, parameter_count
from labs.options.base import TrainingOptions
from labs.options.fsdp import FsdpOptions
from labs.options.zero import ZeroOptions
from labs.planner import fsdp_units
from labs.runner import rank as this
from labs.runner import run
from labs.stacks.running import run_of, summary
from labs.stacks.torchs_own import FullySharded, Replicated, ended_first
from labs.telemetry import Tracker
from labs.telemetry.categories import Bytes

if TYPE_CHECKING:
    from labs.telemetry.rows import Told

Part = nn.Module | list[nn.Module]
STATES = ("parameters", "gradients", "optimizer_states")
STAGES = {"none": 0, "keep": 2, "free": 3}
"""The stage of ZeRO that does the same; the two others have none."""


def train(options: FsdpOptions) -> dict[str, Any]:
    """What this rank reports."""
    with ended_first() as group:
        return trained(options, group)


def trained(options: FsdpOptions, group: dist.ProcessGroup) -> dict[str, Any]:
    with training.watched(options) as tracker:
        rank, ranks, device = dist.get_rank(group), dist.get_world_size(group), this.device()
        tracker.name_axis(group, fsdp_units.AXIS)
        model = shaped(options)
        parameters, predicted = parameter_count(model), prediction(options, model, ranks=ranks, rank=rank)
        strategy = built(options, model, group=group)
        tracker.watch(strategy.model, strategy.adam)
        if options.sharding == "part":
            follow(tracker, strategy.model)

        def step(number: int) -> float:
            batch = training.batch_of(options, number, ranks=ranks)
            mine = micro_batches(batch, rank=rank, ranks=ranks, accumulate=options.accumulate, device=device)
            return training.mean_over_ranks(strategy.train_step(mine), group)

        report = training.steps(options, tracker, step)
    return report | {
        "parameters": parameters,
        "predicted": {
            "states": asdict(predicted.states),
            "rest": predicted.states.total,
            "gathered": predicted.gathered,
            "traffic": predicted.traffic,
        },
    }


def conduct(
    options: FsdpOptions,
    *,
    ranks: int,
    timeout: float = 300.0,
    on_row: Callable[[int, Told], None] | None = None,
    on_output: Callable[[int, str], None] | None = None,
) -> LabRun:
    """Each sharding under FSDP2, and the stage of our own ZeRO that does the same, where there is one."""
    here, found = Path(__file__), []
    for sharding in options.shardings(ranks):
        chosen = replace(options, sharding=sharding)
        theirs, rows = run_of(here, chosen, ranks=ranks, timeout=timeout, on_row=on_row, on_output=on_output)
        ours = None
        if sharding in STAGES:
            names = [each.name for each in fields(ZeroOptions) if hasattr(options, each.name)]
            same = ZeroOptions(stage=STAGES[sharding], **{name: getattr(options, name) for name in names})
            ours = summary(run_of(here.parents[1] / "zero.py", same, ranks=ranks, timeout=timeout)[0])
        found.append({"sharding": sharding, "fsdp": summary(theirs), "ours": ours})
    words = ["--reference", str(ranks), *chosen.arguments()]
    alone = cast("dict[str, Any]", run(here, ranks=1, arguments=words, timeout=timeout).ranks[0].value)
    data = together("fsdp", options, theirs, reference_losses=alone["losses"])
    return LabRun(data=data | {"shardings": found, "device": this.device().type}, rows=rows)


def results() -> list[Row]:
    """For the table of all cases: on 4 ranks, by block and as one unit."""
    found = []
    for wrap in ("block", "model"):
        data = run_lab("fsdp", ranks=4, wrap=wrap).data
        for each in data["shardings"]:
            theirs, of = each["fsdp"], f"{each['sharding']}, {wrap}"
            off = max(abs(a - b) for a, b in zip(theirs["losses"], data["reference_losses"], strict=True))
            rows = [
                Row(name="fsdp-gathered", value=theirs["gathered"], unit="B", of=of),
                Row(name="fsdp-loss", value=off, of=of),
                Row(name="fsdp-states", value=sum(theirs["rest"][name] for name in STATES), unit="B", of=of),
                Row(name="fsdp-peak", value=theirs["peak_total"], unit="B", of=of),
                Row(name="fsdp-moved", value=theirs["traffic"], unit="B", of=of),
            ]
            found += rows if wrap == "block" else rows[:1]  # units change only what is gathered at once
    return found


def at_rest(options: FsdpOptions, *, ranks: int, rank: int = 0) -> Bytes:
    """What the formula says that a rank holds as the optimizer step begins, under the first of the shardings; no rank
    is started for it.
    """
    with torch.device("meta"):
        states = prediction(options, GPT(training.shape_of(options)), ranks=ranks, rank=rank).states
    return Bytes(parameters=states.parameters, gradients=states.gradients, optimizer_states=states.optimizer_states)


def built(options: FsdpOptions, model: GPT, *, group: dist.ProcessGroup) -> Replicated | FullySharded:
    """The strategy that the options name, around the model."""
    recipe = training.recipe_of(options)
    if options.sharding == "none":
        return Replicated(model, group=group, recipe=recipe)
    mixed = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    return FullySharded(
        model,
        units_of(options, model),
        mesh=mesh_of(options, group),
        recipe=recipe,
        reshard={"keep": False, "part": options.shards}.get(str(options.sharding), True),
        policy=mixed if options.precision == "bf16" else None,
        offload=CPUOffloadPolicy(pin_memory=this.device().type != "cpu") if options.cpu_offload else None,
    )


def follow(tracker: Tracker, model: nn.Module) -> None:
    """Between forward and backward a unit's parameters lie on a smaller mesh of their own, of which only FSDP2's
    private names tell: its group gets an axis, and what the unit keeps there counts as communication.
    """

    def resharded(module: nn.Module, *_: Any) -> None:
        for p in module.parameters():
            tracker.retag(p, "communication")

    for module in model.modules():
        if isinstance(module, FSDPModule) and (unit := module._get_fsdp_state()._fsdp_param_group) is not None:
            assert unit.post_forward_mesh_info is not None
            tracker.name_axis(unit.post_forward_mesh_info.shard_process_group, fsdp_units.WITHIN)
            module.register_forward_hook(resharded)


def shaped(options: TrainingOptions) -> GPT:
    """The labs' model as FSDP2 shards it: in bf16 the values are rounded already and stand in fp32."""
    model = training.model_of(options)
    return model.float() if options.precision == "bf16" else model


def mesh_of(options: FsdpOptions, group: dist.ProcessGroup) -> DeviceMesh:
    """One axis for all ranks; for HSDP two, copies and shards."""
    device = this.device().type
    if options.sharding != "hybrid":
        return DeviceMesh.from_group(group, device, mesh_dim_names=(fsdp_units.AXIS,))
    shape = (dist.get_world_size(group) // options.shards, options.shards)
    return init_device_mesh(device, shape, mesh_dim_names=(fsdp_units.COPIES, fsdp_units.WITHIN))


# --- what is a unit


def units_of(options: FsdpOptions, model: GPT) -> list[Part]:
    """The units in the order of forward, without what is left of the model. A table that embedding and head share must
    lie in one unit with both.
    """
    if options.wrap == "model":
        return []
    if options.wrap == "size":
        return [*by_size(model, least=options.unit_size)]
    embedding, *blocks, head = model.pieces
    return [[embedding, head], *blocks] if options.tied else [embedding, *blocks, head]


def by_size(model: nn.Module, *, least: int) -> list[nn.Module]:
    """From the leaves up: a module becomes a unit as soon as `least` of its parameters are in no unit yet. A list of
    modules never does: it has no forward at which to gather. What is left stays with the whole model.
    """
    units: list[nn.Module] = []

    def loose(module: nn.Module) -> int:
        """How many parameters of the module are in no unit."""
        count = sum(p.numel() for p in module.parameters(recurse=False)) + sum(map(loose, module.children()))
        if count < least or module is model or isinstance(module, nn.ModuleList):
            return count
        units.append(module)
        return 0

    loose(model)
    return units


def shapes_of(options: FsdpOptions, model: GPT) -> list[fsdp_units.Unit]:
    """The units with the shapes of their parameters, in the order in which forward comes to them."""
    parts: list[Part] = [*units_of(options, model), model]
    owner: dict[nn.Module, int] = {}
    for number, part in enumerate(parts):
        for module in part if isinstance(part, list) else [part]:
            owner[module] = number
    shapes: dict[int, list[torch.Size]] = {}
    inside: dict[int, int | None] = {}
    seen: set[nn.Parameter] = set()

    def visit(module: nn.Module, around: int | None) -> None:
        """`around` is the number of the part that has the modules about this one."""
        here = owner.get(module, around)
        if here is not None and here not in inside:
            inside[here] = around
            shapes[here] = []
        for p in module.parameters(recurse=False):
            if here is not None and p not in seen:
                seen.add(p)
                shapes[here].append(p.shape)
        for child in module.children():
            visit(child, here)

    visit(model, None)
    if options.tied and options.wrap == "block":  # from the embedding's forward to the head's
        inside |= {number: 0 for number in inside if number != 0}
        inside[0] = None
    order = sorted((number for number in inside if shapes[number]), key=list(inside).index)
    place = {number: index for index, number in enumerate(order)}
    return [fsdp_units.Unit(shapes=shapes[number], within=_around(number, inside, place)) for number in order]


def _around(number: int, inside: dict[int, int | None], place: dict[int, int]) -> int | None:
    """The nearest unit about it that has parameters of its own."""
    around = inside[number]
    while around is not None and around not in place:
        around = inside[around]
    return None if around is None else place[around]


def prediction(options: FsdpOptions, model: GPT, *, ranks: int, rank: int) -> fsdp_units.Prediction:
    return fsdp_units.predict(
        shapes_of(options, model),
        sharding=options.shardings(ranks)[0],
        ranks=ranks,
        rank=rank,
        group=options.shards,
        precision=options.precision,
        micro_batches=options.accumulate,
    )


if __name__ == "__main__":
    training.main(FsdpOptions, train, training.reference)
