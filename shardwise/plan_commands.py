"""`shardwise memory|traffic|throughput|compare-estimators|simulate|plan`: the planner from the terminal. The numbers
are of `labs.planner`; here they are asked for and shown.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Context, Option

from shardwise import deepspeed_command, goodput_command, inference_command, megatron_command
from shardwise.plan_options import Json, Lang, Printer, positive
from translations import CourseError

if TYPE_CHECKING:
    from labs.planner.configuration import Configuration
    from labs.planner.hardware import Accelerator

ModelName = Annotated[str | None, Option("--model", help="cli-plan-model")]
Gpu = Annotated[str | None, Option("--gpu", help="cli-plan-gpu")]
File = Annotated[Path | None, Option("--file", metavar="FILE", help="cli-plan-file")]
Dp = Annotated[int, Option("--dp", help="cli-plan-dp")]
Tp = Annotated[int, Option("--tp", help="cli-plan-tp")]
Pp = Annotated[int, Option("--pp", help="cli-plan-pp")]
Cp = Annotated[int, Option("--cp", help="cli-plan-cp")]
Zero = Annotated[int, Option("--zero", help="cli-plan-zero")]
MicroBatch = Annotated[int, Option("--micro-batch", help="cli-plan-micro-batch")]
Batch = Annotated[int | None, Option("--batch", help="cli-plan-batch")]
Sequence = Annotated[int | None, Option("--sequence", help="cli-plan-sequence")]
Recompute = Annotated[str, Option("--recompute", help="cli-plan-recompute")]
SequenceParallel = Annotated[bool, Option("--sequence-parallel", help="cli-plan-sequence-parallel")]
Interleave = Annotated[int, Option("--interleave", help="cli-plan-interleave")]
Stages = Annotated[str | None, Option("--stages", help="cli-plan-stages")]
StackName = Annotated[str | None, Option("--stack", help="cli-plan-stack")]
Offload = Annotated[str, Option("--offload", help="cli-plan-offload")]


def add(app: typer.Typer, *, print_json: Printer, right_use: Callable[[], Any]) -> None:
    """The planner's commands, in the course's command line."""
    deepspeed_command.add(app, print_json=print_json, right_use=right_use)
    megatron_command.add(app, print_json=print_json, right_use=right_use)
    goodput_command.add(app, print_json=print_json, right_use=right_use)
    inference_command.add(app, print_json=print_json, right_use=right_use)

    @app.command("memory", help="cli-memory")
    def memory(
        context: Context,
        model: ModelName = None,
        params: Annotated[float | None, Option("--params", help="cli-plan-params")] = None,
        gpu: Gpu = None,
        dp: Dp = 1,
        tp: Tp = 1,
        pp: Pp = 1,
        cp: Cp = 1,
        zero: Zero = 0,
        micro_batch: MicroBatch = 1,
        batch: Batch = None,
        sequence: Sequence = None,
        recompute: Recompute = "none",
        sequence_parallel: SequenceParallel = False,
        interleave: Interleave = 1,
        stages: Stages = None,
        stack: StackName = None,
        offload: Offload = "none",
        file: File = None,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from labs.planner import memory as planner
        from shardwise import plan_shown

        with right_use():
            card = _gpu(gpu, file)
            if (model is None) == (params is None):
                raise CourseError("shardwise.plan-model-or-params")
            if params is not None:
                others = {
                    "tp": tp != 1, "pp": pp != 1, "cp": cp != 1, "micro-batch": micro_batch != 1,
                    "batch": batch is not None, "sequence": sequence is not None, "recompute": recompute != "none",
                    "sequence-parallel": sequence_parallel, "interleave": interleave != 1, "stages": stages is not None,
                    "offload": offload != "none",
                }  # fmt: skip
                for name, given in others.items():
                    if given:
                        raise CourseError("shardwise.plan-params-alone", name=name)
                kind, plan = _stack(stack, "zero"), None
                found = planner.of_parameters(_whole(params), dp=dp, zero=zero, stack=kind, gpu=card)
            else:
                plan = _plan(
                    model, file, dp=dp, tp=tp, pp=pp, cp=cp, zero=zero, micro_batch=micro_batch, batch=batch,
                    sequence=sequence, recompute=recompute, sequence_parallel=sequence_parallel, interleave=interleave,
                    stages=stages, stack=stack, offload=offload,
                )  # fmt: skip
                kind, found = plan.stack, planner.memory(plan, gpu=card)
        if as_json:
            print_json(found.as_json())
        else:
            plan_shown.memory(
                found, plan, stack=kind, zero_over=dp * cp if zero else None, gpu=card, text=context.obj.text
            )

    @app.command("traffic", help="cli-traffic")
    def traffic(
        context: Context,
        model: ModelName = None,
        gpu: Gpu = None,
        dp: Dp = 1,
        tp: Tp = 1,
        pp: Pp = 1,
        cp: Cp = 1,
        zero: Zero = 0,
        micro_batch: MicroBatch = 1,
        batch: Batch = None,
        sequence: Sequence = None,
        recompute: Recompute = "none",
        sequence_parallel: SequenceParallel = False,
        interleave: Interleave = 1,
        stages: Stages = None,
        stack: StackName = None,
        file: File = None,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from labs.planner import links, throughput
        from shardwise import plan_shown

        with right_use():
            card = _needed_gpu(gpu, file)
            plan = _plan(
                model, file, dp=dp, tp=tp, pp=pp, cp=cp, zero=zero, micro_batch=micro_batch, batch=batch,
                sequence=sequence, recompute=recompute, sequence_parallel=sequence_parallel, interleave=interleave,
                stages=stages, stack=stack,
            )  # fmt: skip
            found = links.axes(plan, gpu=card)
            computing = throughput.compute_seconds(plan, gpu=card)
            if any(axis.seconds == float("inf") for axis in found):
                raise CourseError("labs.plan-no-network", gpu=card.title, node=card.node)
        if as_json:
            open_ = links.in_the_open(found, computing=computing)
            axes = {
                axis.name: {
                    "bytes": axis.bytes,
                    "link": axis.link,
                    "seconds": axis.seconds,
                    "exposed_seconds": open_[axis.name],
                }
                for axis in found
            }
            carried = {
                each.link: {"bytes_per_second": each.rate, "bytes": each.bytes, "seconds": each.seconds}
                for each in links.busy(found, gpu=card)
            }
            print_json(
                {
                    "axes": axes,
                    "links": carried,
                    "compute_seconds": computing,
                    "bottleneck": links.bottleneck(found, computing=computing),
                }
            )
        else:
            plan_shown.traffic(found, plan, computing=computing, gpu=card, text=context.obj.text)

    @app.command("throughput", help="cli-throughput")
    def throughput(
        context: Context,
        model: ModelName = None,
        gpu: Gpu = None,
        tokens: Annotated[float | None, Option("--tokens", help="cli-plan-tokens")] = None,
        step_seconds: Annotated[float | None, Option("--step-seconds", help="cli-plan-step-seconds")] = None,
        price: Annotated[float | None, Option("--price", help="cli-plan-price")] = None,
        pue: Annotated[float | None, Option("--pue", help="cli-plan-pue")] = None,
        grid: Annotated[float | None, Option("--grid", help="cli-plan-grid")] = None,
        precision: Annotated[str, Option("--precision", help="cli-plan-precision")] = "bf16",
        dp: Dp = 1,
        tp: Tp = 1,
        pp: Pp = 1,
        cp: Cp = 1,
        zero: Zero = 0,
        micro_batch: MicroBatch = 1,
        batch: Batch = None,
        sequence: Sequence = None,
        recompute: Recompute = "none",
        sequence_parallel: SequenceParallel = False,
        interleave: Interleave = 1,
        stages: Stages = None,
        stack: StackName = None,
        file: File = None,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from labs.planner import throughput as planner
        from shardwise import plan_shown

        with right_use():
            card = _needed_gpu(gpu, file)
            plan = _plan(
                model, file, dp=dp, tp=tp, pp=pp, cp=cp, zero=zero, micro_batch=micro_batch, batch=batch,
                sequence=sequence, recompute=recompute, sequence_parallel=sequence_parallel, interleave=interleave,
                stages=stages, stack=stack,
            )  # fmt: skip
            positive(tokens=tokens, step_seconds=step_seconds, price=price, pue=pue, grid=grid)
            if price is not None and tokens is None:
                raise CourseError("shardwise.plan-price-alone")
            if (pue is not None or grid is not None) and tokens is None:
                raise CourseError("shardwise.plan-place-alone")
            if pue is not None and pue < 1:
                raise CourseError("shardwise.plan-pue", value=pue)
            found = planner.throughput(
                plan, gpu=card, tokens=tokens, step_seconds=step_seconds, price=price, pue=pue or 1.0, grid=grid,
                precision=precision,
            )  # fmt: skip
        if as_json:
            print_json(found.as_json())
        else:
            plan_shown.throughput(found, text=context.obj.text)

    @app.command("compare-estimators", help="cli-compare-estimators")
    def compare_estimators(
        context: Context,
        model: ModelName = None,
        gpus_per_node: Annotated[int, Option("--gpus-per-node", help="cli-plan-gpus-per-node", min=1)] = 8,
        dp: Dp = 1,
        tp: Tp = 1,
        pp: Pp = 1,
        cp: Cp = 1,
        zero: Zero = 0,
        micro_batch: MicroBatch = 1,
        batch: Batch = None,
        sequence: Sequence = None,
        recompute: Recompute = "none",
        sequence_parallel: SequenceParallel = False,
        interleave: Interleave = 1,
        stages: Stages = None,
        stack: StackName = None,
        file: File = None,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from labs.planner.compared import printed
        from labs.planner.estimators import compare
        from shardwise import plan_shown

        if model is None and file is None:
            published = printed()
            if as_json:
                print_json({"published": [each.as_json() for each in published]})
            else:
                plan_shown.published_estimates(published, text=context.obj.text)
            return

        with right_use():
            plan = _plan(
                model, file, dp=dp, tp=tp, pp=pp, cp=cp, zero=zero, micro_batch=micro_batch, batch=batch,
                sequence=sequence, recompute=recompute, sequence_parallel=sequence_parallel, interleave=interleave,
                stages=stages, stack=stack,
            )  # fmt: skip
            found = compare(plan, gpus_per_node=gpus_per_node)
        if as_json:
            print_json(
                {
                    "estimators": [
                        {
                            "name": each.name,
                            "bytes": each.bytes,
                            "ours": each.ours,
                            "counts": each.counts,
                            "differs": list(each.differs),
                        }
                        for each in found
                    ]
                }
            )
        else:
            plan_shown.estimators(found, text=context.obj.text)

    @app.command("simulate", help="cli-simulate")
    def simulate(
        context: Context,
        model: ModelName = None,
        dp: Dp = 1,
        tp: Tp = 1,
        pp: Pp = 1,
        cp: Cp = 1,
        zero: Zero = 0,
        micro_batch: MicroBatch = 1,
        batch: Batch = None,
        sequence: Sequence = None,
        recompute: Recompute = "none",
        sequence_parallel: SequenceParallel = False,
        interleave: Interleave = 1,
        stages: Stages = None,
        stack: StackName = None,
        implementation: Annotated[str, Option("--implementation", help="cli-plan-implementation")] = "labs",
        file: File = None,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from shardwise import plan_shown

        with right_use():
            plan = _plan(
                model, file, dp=dp, tp=tp, pp=pp, cp=cp, zero=zero, micro_batch=micro_batch, batch=batch,
                sequence=sequence, recompute=recompute, sequence_parallel=sequence_parallel, interleave=interleave,
                stages=stages, stack=stack,
            )  # fmt: skip
            found = plan_shown.simulating(plan, implementation=implementation, text=context.obj.text)
        if as_json:
            print_json(
                {
                    "implementation": implementation,
                    "ranks": plan.gpus,
                    "stages": [
                        {
                            "stage": each.stage,
                            "rank": each.rank,
                            "layers": each.layers,
                            "in_flight": each.in_flight,
                            "bytes": {"states": each.states.as_dict(), "peak": each.peak.as_dict()},
                            "peak_total": each.peak_total,
                            "axes": {
                                axis: {name: count.as_dict() for name, count in counts.items()}
                                for axis, counts in each.axes.items()
                            },
                        }
                        for each in found
                    ],
                }
            )
        else:
            plan_shown.simulated(found, ranks=plan.gpus, text=context.obj.text)

    @app.command("compare-planners", help="cli-compare-planners")
    def compare_planners(context: Context, as_json: Json = False, _lang: Lang = None) -> None:
        from labs.planner.beside import beside
        from shardwise import plan_shown

        found = beside()
        if as_json:
            print_json({"planner": "alpa", "models": [each.as_json() for each in found]})
        else:
            plan_shown.beside(found, text=context.obj.text)

    @app.command("plan", help="cli-plan")
    def plan(
        context: Context,
        model: Annotated[str, Argument(metavar="MODEL", help="cli-plan-model")],
        gpus: Annotated[int, Option("--gpus", help="cli-plan-gpus")],
        gpu: Annotated[str, Option("--gpu", help="cli-plan-gpu")],
        batch: Annotated[int, Option("--batch", help="cli-plan-batch")],
        sequence: Sequence = None,
        stack: StackName = None,
        most: Annotated[int, Option("--most", help="cli-plan-most", min=1)] = 10,
        file: File = None,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from labs.planner.layouts import placed, published_for
        from labs.planner.models import model as find
        from labs.planner.search import search
        from shardwise import plan_shown

        with right_use():
            shape, card = find(model, file=file), _needed_gpu(gpu, file)
            kind = _stack(stack, shape.stack)
            found = search(shape, gpus=gpus, gpu=card, batch=batch, stack=kind, sequence=sequence, most=most)
        if as_json:
            print_json({"layouts": [each.as_json() for each in found]})
            return
        run = published_for(shape.name, gpu=card.name, gpus=gpus, batch=batch) if sequence is None else None
        plan_shown.plan(found, run=placed(run) if run else None, text=context.obj.text)


def _plan(
    name: str | None, file: Path | None, *, batch: int | None, stages: str | None, stack: str | None, **degrees: Any
) -> Configuration:
    """What was asked, as one value. Without a batch a step has as many micro-batches as fill the pipeline."""
    from labs.planner.configuration import Configuration
    from labs.planner.models import model as find

    if name is None:
        raise CourseError("shardwise.plan-model-missing")
    shape = find(name, file=file)
    micro_batches = degrees["pp"]
    if batch is not None:
        parts = degrees["dp"] * degrees["micro_batch"]
        if parts > 0 and (batch < 1 or batch % parts):
            near = max(1, round(batch / parts)) * parts
            raise CourseError("shardwise.plan-batch-divides", batch=batch, parts=parts, nearest=near)
        parts = max(parts, 1)
        micro_batches = batch // parts
    layers = _stages(stages)
    kind = _stack(stack, shape.stack)
    return Configuration(model=shape, micro_batches=micro_batches, stages=layers, stack=kind, **degrees).checked()


def _stages(words: str | None) -> tuple[int, ...]:
    try:
        return tuple(int(each) for each in words.split(",")) if words else ()
    except ValueError as error:
        raise CourseError("shardwise.plan-stages-list", given=words) from error


def _stack(name: str | None, default: str) -> Any:
    from labs.planner.configuration import STACKS

    chosen = name or default
    if chosen not in STACKS:
        raise CourseError("labs.unknown-choice", name="stack", value=chosen, known=", ".join(STACKS))
    return STACKS[chosen]


def _gpu(name: str | None, file: Path | None) -> Accelerator | None:
    from labs.planner.hardware import accelerator

    return None if name is None else accelerator(name, file=file)


def _needed_gpu(name: str | None, file: Path | None) -> Accelerator:
    found = _gpu(name, file)
    if found is None:
        raise CourseError("shardwise.plan-gpu-missing")
    return found


def _whole(params: float) -> int:
    if not 1 <= params < 1e18:
        raise CourseError("shardwise.plan-positive", name="params", value=params)
    return round(params)
