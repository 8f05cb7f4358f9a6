"""DeepSpeed beside our own ZeRO, an ordinary torchrun script: `torchrun --nproc-per-node 2
labs/stacks/deepspeed_zero.py --stage 2`.

Every rank trains the course's GPT under DeepSpeed's engine, with the same weights, data and Adam as `labs/zero.py`,
watched by the same tracker. The lab runs both, stage by stage.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.distributed as dist
from torch.profiler import record_function

from labs import training
from labs.cases.rows import Row as Found
from labs.cases.rows import versions
from labs.catalogue import LabRun, run_lab, together
from labs.data import micro_batches
from labs.model import parameter_count
from labs.options.base import TrainingOptions
from labs.options.deepspeed import DeepSpeedOptions
from labs.options.offload import OffloadOptions
from labs.options.zero import ZeroOptions
from labs.planner.deepspeed import BUCKET, predict_deepspeed
from labs.runner import rank as this
from labs.runner import run
from labs.stacks.environment import needs, version
from labs.stacks.running import run_of, summary
from labs.stacks.zero_engine import attribute, deepspeed_here, tensors_in
from labs.telemetry import Tracker

if TYPE_CHECKING:
    from labs.telemetry.rows import Told

STATES = ("parameters", "gradients", "optimizer_states")
ENGINE = ("optimizer", "adam_steps", "offloaded")
"""What only the engine's and the offloading ranks report."""


def train(options: DeepSpeedOptions) -> dict[str, Any]:
    """What this rank reports."""
    deepspeed = deepspeed_here()
    with this.group() as group, training.watched(options) as tracker:
        rank, ranks, device = dist.get_rank(group), dist.get_world_size(group), this.device()
        tracker.name_axis(group, "data")
        model = training.model_of(options)
        recipe, parameters = training.recipe_of(options), parameter_count(model)
        shapes = [p.numel() for p in model.parameters()]
        for p in model.parameters():
            p.register_post_accumulate_grad_hook(partial(made, tracker))  # type: ignore[no-untyped-call]
        adam = torch.optim.Adam(model.parameters(), lr=recipe.lr, eps=recipe.eps)
        with record_function("report"):  # it compares the parameters of the ranks
            engine, *_ = deepspeed.initialize(
                model=model, optimizer=adam, config=config(options, ranks=ranks), dist_init_required=False
            )
        attribute(tracker, engine)

        def step(number: int) -> float:
            batch = training.batch_of(options, number, ranks=ranks)
            losses = []
            for mine in micro_batches(batch, rank=rank, ranks=ranks, accumulate=options.accumulate, device=device):
                with record_function("forward"):
                    loss = engine(*mine)
                with record_function("backward"):
                    engine.backward(loss)
                losses.append(loss.detach())
                attribute(tracker, engine)
                with record_function("optimizer"):
                    engine.step()
                attribute(tracker, engine)
            return training.mean_over_ranks(torch.stack(losses).mean(), group)

        report = training.steps(options, tracker, step)
    states = getattr(engine.optimizer, "optimizer", engine.optimizer).state
    host = sum(each.nbytes for each in tensors_in(list(states.values()))) if options.offload != "none" else 0
    counters = [state["step"] for state in states.values() if "step" in state]
    return report | {
        "parameters": parameters,
        "optimizer": type(engine.optimizer).__name__,
        "adam_steps": int(counters[0]) if counters else None,
        "offloaded": host,
        "predicted": predict_deepspeed(
            shapes,
            stage=cast("int", options.stage),
            ranks=ranks,
            rank=rank,
            precision=options.precision,
            bucket=options.reduce_bucket,
            live=options.live_parameters,
            micro_batches=options.accumulate,
            offload=options.offload != "none",
        ).as_dict(),
    }


def conduct(
    options: DeepSpeedOptions,
    *,
    ranks: int,
    timeout: float = 300.0,
    on_row: Callable[[int, Told], None] | None = None,
    on_output: Callable[[int, str], None] | None = None,
) -> LabRun:
    """Each stage under DeepSpeed, and the same with our own, whose ranks need nothing but torch."""
    python = needs("deepspeed")
    here = Path(__file__)
    stages = []
    for stage in options.stages():
        chosen = dataclasses.replace(options, stage=stage)
        theirs, rows = run_of(
            here, chosen, ranks=ranks, timeout=timeout, on_row=on_row, on_output=on_output, python=python
        )
        ours, _ = run_of(*_ours(chosen), ranks=ranks, timeout=timeout)
        stages.append({"stage": stage, "deepspeed": summary(theirs, *ENGINE), "ours": summary(ours, *ENGINE)})
    words = ["--reference", str(ranks), *chosen.arguments()]
    alone = run(here, ranks=1, arguments=words, timeout=timeout).ranks[0].value
    data = together("deepspeed-zero", options, theirs, reference_losses=cast("dict[str, Any]", alone)["losses"])
    return LabRun(data=data | {"stages": stages}, rows=rows)


def _ours(options: DeepSpeedOptions) -> tuple[Path, TrainingOptions]:
    """The script of ours that does the same, and its options."""
    shared = {
        each.name: getattr(options, each.name)
        for each in dataclasses.fields(ZeroOptions)
        if hasattr(options, each.name)
    }
    folder = Path(__file__).parents[1]
    if options.offload == "none":
        return folder / "zero.py", ZeroOptions(**shared)
    return folder / "offload.py", OffloadOptions(**shared, to="memory")


def results() -> list[Found]:
    """For the table of what was found: each stage on two ranks in fp32, with DeepSpeed's own bucket."""
    run = run_lab("deepspeed-zero", ranks=2, reduce_bucket=BUCKET)
    told = versions() | {"deepspeed": version("deepspeed")}
    alone, found = run.data["reference_losses"], []

    def row(name: str, value: float, unit: str, stage: int) -> Found:
        return Found(name=f"deepspeed-{name}", value=value, unit=unit, of=str(stage), versions=told)

    for each in run.data["stages"]:
        theirs, ours, stage = each["deepspeed"], each["ours"], each["stage"]
        states = [sum(one["rest"][name] for name in STATES) for one in (theirs, ours)]
        off = max(abs(a - b) for a, b in zip(theirs["losses"], alone, strict=True))
        found += [
            row("loss", off, "", stage),
            row("states", states[0] / states[1], "x", stage),
            row("traffic", theirs["traffic"] / ours["traffic"], "x", stage),
            row("peak", theirs["peak_total"], "B", stage),
        ]
    return found


def made(tracker: Tracker, parameter: torch.Tensor) -> None:
    """Backward has made a gradient; DeepSpeed's own hooks take it from here."""
    if parameter.grad is not None:
        tracker.retag(parameter.grad, "gradients")


def config(options: DeepSpeedOptions, *, ranks: int) -> dict[str, Any]:
    """What stands in `ds_config.json`."""
    zero: dict[str, Any] = {"stage": options.stage, "reduce_bucket_size": options.reduce_bucket}
    if options.stage == 3:
        # Without the first, matrices below 100,000 elements would stay whole on every rank.
        zero |= {"stage3_param_persistence_threshold": 0, "stage3_max_live_parameters": options.live_parameters}
        zero |= {
            "stage3_max_reuse_distance": options.live_parameters,
            "stage3_prefetch_bucket_size": min(options.live_parameters, 50_000_000),
        }
    if options.offload != "none":
        zero["offload_optimizer"] = {"device": "cpu"}
    if options.offload == "all":
        zero["offload_param"] = {"device": "cpu"}
    return {
        "train_batch_size": options.global_batch(ranks),
        "train_micro_batch_size_per_gpu": options.sequences_at_once(ranks),
        "gradient_accumulation_steps": options.accumulate,
        "gradient_clipping": options.clip or 0.0,  # where the file says nothing DeepSpeed clips at 1.0
        "zero_optimization": zero,
        "bf16": {"enabled": options.precision == "bf16"},
        "zero_allow_untested_optimizer": True,  # torch's own Adam, so that nothing is compiled
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 10**9,
    }


if __name__ == "__main__":
    training.main(DeepSpeedOptions, train, training.reference)
