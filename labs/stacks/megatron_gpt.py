"""Megatron Core's GPT and its 1F1B beside ours, an ordinary torchrun script: `torchrun --nproc-per-node 4
labs/stacks/megatron_gpt.py --tp 2 --pp 2`.

Every rank first puts Megatron's three tensor-parallel layers beside ours and beside unsplit ones, then trains its part
of Megatron's GPTModel with the weights, the data and the Adam of ours, by Megatron's own schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.profiler import record_function

from labs import training
from labs.cases.rows import Row, versions
from labs.catalogue import LabRun, run_lab, together
from labs.data import micro_batches
from labs.model import parameter_count
from labs.options.megatron import MegatronOptions
from labs.runner import rank as this
from labs.runner import run
from labs.stacks.environment import needs, version
from labs.stacks.megatron_here import PATCHES, config_of, gpt_of, megatron_here, take_weights
from labs.stacks.megatron_layers import layers_beside
from labs.stacks.running import run_of

if TYPE_CHECKING:
    from labs.telemetry.rows import Told


def train(options: MegatronOptions) -> dict[str, Any]:
    """What this rank reports."""
    with (
        this.group() as group,
        megatron_here(tensor=options.tp, pipeline=options.pp) as called,
        training.watched(options) as tracker,
    ):
        from megatron.core import parallel_state
        from megatron.core.pipeline_parallel import get_forward_backward_func

        tensor = parallel_state.get_tensor_model_parallel_group()
        for axis, own in (("tensor", tensor), ("pipeline", parallel_state.get_pipeline_model_parallel_group())):
            tracker.name_axis(own, axis)
        double = config_of(options, tensor=options.tp, pipeline=options.pp, dtype=torch.float64)
        with record_function("report"):
            beside = layers_beside(double, hidden=options.hidden, group=tensor)

        whole = training.model_of(options)
        parameters = parameter_count(whole)
        stage = parallel_state.get_pipeline_model_parallel_rank()
        config = config_of(options, tensor=options.tp, pipeline=options.pp, dtype=training.DTYPES[options.precision])
        with record_function("parameters"):
            model = gpt_of(options, config)
        take_weights(
            model,
            whole,
            first_layer=stage * options.layers // options.pp,
            tensor_rank=dist.get_rank(tensor),
            tensor_ranks=options.tp,
        )
        del whole
        trained = [p for p in model.parameters() if p.requires_grad]
        recipe = training.recipe_of(options)
        adam = torch.optim.Adam(trained, lr=recipe.lr, eps=recipe.eps)
        schedule = get_forward_backward_func()
        last = parallel_state.is_pipeline_last_stage()
        future_11SS = torch.ones(1, 1, options.sequence, options.sequence, dtype=torch.bool).triu(1)

        def one(batches: Iterator[training.Batch], model: Any) -> tuple[Tensor, Callable[..., Any]]:
            tokens, targets = next(batches)
            positions = torch.arange(options.sequence).expand_as(tokens)
            output: Tensor = model(tokens, positions, future_11SS, labels=targets)
            return output, lambda losses: (losses.mean(), {"loss": losses.detach().mean()})

        def step(number: int) -> float | None:
            batch = training.batch_of(options, number, ranks=dist.get_world_size(group))
            own = micro_batches(batch, rank=0, ranks=1, accumulate=options.micro_batches, device=this.device())
            told = schedule(
                forward_step_func=one,
                data_iterator=iter(own),
                model=[model] if options.pp > 1 else model,
                num_microbatches=options.micro_batches,
                seq_length=options.sequence,
                micro_batch_size=options.sequences_at_once(options.ranks()),
                forward_only=False,
            )
            for p in trained:
                if p.grad is not None:
                    tracker.retag(p.grad, "gradients")
            with record_function("optimizer"), record_function("optimizer_states"):
                adam.step()
            adam.zero_grad()
            return torch.stack([each["loss"] for each in told]).double().mean().item() if last else None

        report = training.steps(options, tracker, step)
    return report | {
        "parameters": parameters,
        "layers": beside,
        "patches": {name: called.get(name, 0) for name in PATCHES} if this.device().type == "cpu" else {},
        "schedule": schedule.__name__,
        "whole": {"stages": options.pp},
    }


def conduct(
    options: MegatronOptions,
    *,
    ranks: int,
    timeout: float = 300.0,
    on_row: Callable[[int, Told], None] | None = None,
    on_output: Callable[[int, str], None] | None = None,
) -> LabRun:
    """Megatron's ranks, then ours on the same layout, then one process."""
    python, here = needs("megatron.core"), Path(__file__)
    reports, rows = run_of(
        here, options, ranks=ranks, timeout=timeout, on_row=on_row, on_output=on_output, python=python
    )
    own = options.ours()
    ours, _ = run_of(here.parents[1] / "layout.py", own, ranks=ranks, timeout=timeout)
    words = ["--reference", str(ranks), *own.arguments()]
    alone = run(here.parents[1] / "layout.py", ranks=1, arguments=words, timeout=timeout).ranks[0].value
    data = together("megatron-gpt", options, reports, reference_losses=cast("dict[str, Any]", alone)["losses"])
    kept = ("rank", "losses", "bytes", "peak_total", "axes", "collectives")
    data["ours"] = [{name: each[name] for name in kept} for each in ours]
    return LabRun(data=data, rows=rows)


def results() -> list[Row]:
    """For the table of what was found: two tensor ranks and two stages."""
    run = run_lab("megatron-gpt", tp=2, pp=2)
    told = versions() | {"megatron-core": version("megatron-core")}
    layers = max(each["megatron"] for report in run.data["ranks"] for each in report["layers"].values())
    off = max(abs(a - b) for a, b in zip(run.losses, run.data["reference_losses"], strict=True))
    moved = [
        sum(count["bytes"] for report in reports for counts in report["axes"].values() for count in counts.values())
        for reports in (run.data["ranks"], run.data["ours"])
    ]
    return [
        Row(name="megatron-layers", value=layers, versions=told),
        Row(name="megatron-loss", value=off, versions=told),
        Row(name="megatron-traffic", value=moved[0] / moved[1], unit="x", versions=told),
        Row(name="megatron-patches", value=len(run.data["ranks"][0]["patches"]), versions=told),
    ]


if __name__ == "__main__":
    training.main(MegatronOptions, train)
