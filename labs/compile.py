"""The lab of torch.compile, an ordinary torchrun script: `torchrun --nproc-per-node 1 labs/compile.py`.

One process trains the course's GPT twice, side by side: as it is, and compiled. It reports the first call and the later
ones, how many operations a step has before and after fusion, the peak of what torch allocated, whether the losses are
the same, and what a tracker makes of compiled code. `--reference` trains the same once more, without any of it.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast
from unittest import mock

import torch
import torch._dynamo
import torch.distributed as dist
from torch import nn
from torch._C._autograd import DeviceType
from torch.profiler import profile, supported_activities
from torch.utils._python_dispatch import TorchDispatchMode

from labs import training
from labs.data import micro_batches
from labs.model import GPT, parameter_count
from labs.options.compile import CompileOptions
from labs.planner.zero import pieces_of, predict
from labs.runner import rank as this
from labs.strategies.data_parallel import DataParallel
from labs.telemetry import Tracker
from labs.telemetry.categories import Bytes
from translations import CourseError

BOUND = 2e-6
"""By how much the losses may differ in fp32: a fused kernel adds up in another order."""


def train(options: CompileOptions) -> dict[str, Any]:
    """What this process reports: the eager training as every lab does, and under "compile" the two side by side."""
    if options.backend == "inductor":
        needs_a_compiler()
    with this.group() as group:
        with training.watched(options) as tracker:
            model = training.model_of(options)
            strategy = strategy_of(model, model, options, group)
            report = training.steps(options, tracker, lambda number: strategy.train_step(batch(options, number)).item())
        found = side_by_side(options, group)
    prediction = predict(pieces_of(model.pieces), stage=0, ranks=1, precision=options.precision)
    return report | {
        "parameters": parameter_count(model),
        "predicted": {
            "states": asdict(prediction.states),
            "communication": prediction.communication,
            "collectives": {name: asdict(count) for name, count in prediction.collectives.items()},
        },
        "whole": {"compile": found},
    }


def strategy_of(called: nn.Module, model: GPT, options: CompileOptions, group: dist.ProcessGroup) -> DataParallel:
    """Adam over a model of which `called` does forward and backward: itself, or what was compiled from it."""
    return DataParallel(called, model.pieces, group=group, recipe=training.recipe_of(options))


def batch(options: CompileOptions, number: int) -> Sequence[training.Batch]:
    """The micro-batches of a step."""
    whole = training.batch_of(options, number, ranks=1)
    return micro_batches(whole, rank=0, ranks=1, accumulate=options.accumulate, device=this.device())


def side_by_side(options: CompileOptions, group: dist.ProcessGroup) -> dict[str, Any]:
    """The same steps eager and compiled, in turn, so that what else the machine does falls on both alike."""
    with a_cache_of_its_own():
        one = batch(options, 0)[0]
        graphs = torch._dynamo.explain(training.model_of(options))(*one)
        torch.compiler.reset()
        plain, other = training.model_of(options), training.model_of(options)
        compiled = cast("nn.Module", torch.compile(other, backend=options.backend))
        both = {
            "eager": strategy_of(plain, plain, options, group),
            "compiled": strategy_of(compiled, other, options, group),
        }
        losses: dict[str, list[float]] = {name: [] for name in both}
        seconds: dict[str, list[float]] = {name: [] for name in both}
        for number in range(options.steps):
            mine = batch(options, number)
            for name, strategy in both.items():
                started = time.perf_counter()
                losses[name].append(strategy.train_step(mine).item())
                seconds[name].append(time.perf_counter() - started)
        operations = Operations()
        with operations:
            both["eager"].model(*one).backward()
        seen = {name: profiled(strategy, one) for name, strategy in both.items()}
        # Last of all: what ran once under a dispatch mode is not compiled again.
        tracker = Tracker()
        tracked = profiled(both["compiled"], one, within=tracker)

    later = {name: statistics.median(each[1:]) for name, each in seconds.items()}
    return {
        "backend": options.backend,
        "graphs": graphs.graph_count,
        "graph_breaks": graphs.graph_break_count,
        "captured": graphs.op_count,
        "seconds": {"first": seconds["compiled"][0], "eager": later["eager"], "compiled": later["compiled"]},
        "first_in_eager_steps": seconds["compiled"][0] / later["eager"],
        "speedup": later["eager"] / later["compiled"],
        "operations": {
            "eager": operations.count,
            "fused": seen["compiled"]["fused"],
            "library": seen["compiled"]["library"],
        },
        "peak": {name: each["peak"] for name, each in seen.items()},
        "losses": losses,
        "largest_difference": max(abs(a - b) for a, b in zip(*losses.values(), strict=True)),
        "bound": BOUND,
        "under_a_tracker": {"fused": tracked["fused"], "peak": tracker.peak_total},
    }


class Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts what torch is asked to compute. A view computes nothing."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.count += not func.is_view
        return func(*args, **(kwargs or {}))


def profiled(
    strategy: DataParallel, one: training.Batch, *, within: AbstractContextManager[Any] | None = None
) -> dict[str, int]:
    """Forward and backward of one micro-batch, by the profiler: fused kernels, calls of a library's operation from
    outside any other, and the highest sum of what torch allocated on the device.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it would print that it starts and stops
    activities = supported_activities()  # type: ignore[no-untyped-call]
    with profile(activities=activities, profile_memory=True) as profiler, within or nullcontext():
        strategy.model(*one).backward()
    fused = library = 0
    for event in profiler.events():
        outside = event.cpu_parent is None or not event.cpu_parent.name.startswith("aten::")
        fused += "_fused_" in event.name and event.device_type == DeviceType.CPU
        library += event.name.startswith("aten::") and outside and not is_view(event.name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    held = peak = 0
    on_cpu = this.device().type == "cpu"
    for event in sorted((each for each in events if each["name"] == "[memory]"), key=lambda each: each["ts"]):
        if (event["args"]["Device Type"] == 0) == on_cpu:
            held += event["args"]["Bytes"]
            peak = max(peak, held)
    return {"fused": fused, "library": library, "peak": peak}


def is_view(name: str) -> bool:
    """Whether an operation of torch ("aten::t") only looks at what is there."""
    packet = getattr(torch.ops.aten, name.removeprefix("aten::"), None)
    return packet is not None and any(getattr(packet, each).is_view for each in packet.overloads())


@contextmanager
def a_cache_of_its_own() -> Iterator[None]:
    """What is compiled here is not found again by a later run, so that its first call is a first call too. No further
    process compiles beside this one, and each kernel tells the profiler its name.
    """
    import torch._inductor.config as inductor

    settings = {"compile_threads": 1, "cpp.enable_kernel_profile": True}
    with (
        tempfile.TemporaryDirectory(prefix="shardwise-", ignore_cleanup_errors=True) as folder,
        mock.patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=folder),
        inductor.patch(settings),
    ):
        yield


def needs_a_compiler() -> None:
    """Raises CourseError that says what is missing: a C++ compiler for a CPU, Triton for an accelerator."""
    from torch._inductor.cpp_builder import get_cpp_compiler

    if this.device().type != "cpu":
        if find_spec("triton") is None:
            raise CourseError("labs.compile-needs-triton")
        return
    try:
        get_cpp_compiler()
    except RuntimeError as error:
        raise CourseError("labs.compile-needs-compiler") from error


def at_rest(options: CompileOptions, *, ranks: int, rank: int = 0) -> Bytes:  # noqa: ARG001
    """What the formula says that the process holds as the optimizer step begins: compiling changes nothing of it."""
    with torch.device("meta"):
        pieces = pieces_of(GPT(training.shape_of(options)).pieces)
    states = predict(pieces, stage=0, ranks=ranks, precision=options.precision).states
    return Bytes(parameters=states.parameters, gradients=states.gradients, optimizer_states=states.optimizer_states)


if __name__ == "__main__":
    training.main(CompileOptions, train, training.reference)
