"""`make bench`: how fast the course is, as ratios of things measured in one run on one machine. Nothing here is a
test.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

ROOT = Path(__file__).parent.parent

# What is said of a family of tools/bench_ranks.py: one step, beside another of the same run.
BESIDE = {
    "data": [
        ("stage 0", "stage 0", "DDP"),
        ("stage 0 overlapped", "stage 0, overlapped", "DDP"),
        ("stage 0 overlapped, in one bucket", "stage 0, overlapped, in one bucket", "DDP"),
        ("ZeRO-1", "stage 1", "DDP"),
        ("ZeRO-1 overlapped", "stage 1, overlapped", "DDP"),
        ("ZeRO-1", "stage 1", "DDP + ZeroRedundancyOptimizer"),
        ("ZeRO-1 overlapped", "stage 1, overlapped", "DDP + ZeroRedundancyOptimizer"),
        ("ZeRO-2", "stage 2", "DDP"),
        ("ZeRO-2 overlapped", "stage 2, overlapped", "DDP"),
        ("ZeRO-2", "stage 2", "FSDP2, no reshard"),
        ("ZeRO-2 overlapped", "stage 2, overlapped", "FSDP2, no reshard"),
        ("ZeRO-3", "stage 3", "DDP"),
        ("ZeRO-3 overlapped", "stage 3, overlapped", "DDP"),
        ("ZeRO-3", "stage 3", "FSDP2"),
        ("ZeRO-3 overlapped", "stage 3, overlapped", "FSDP2"),
        ("ZeRO-1 with states in host memory", "stage 1, states in host memory", "stage 1"),
        ("ZeRO-1 with states in a file", "stage 1, states in a file", "stage 1"),
    ],
    "tensor": [
        ("tensor parallelism", "tensor", "parallelize_module"),
        ("with sequence parallelism", "tensor and sequence", "parallelize_module, SequenceParallel"),
    ],
    "pipeline": [("GPipe", "gpipe", "torch's gpipe"), ("1F1B", "1f1b", "torch's 1f1b")],
    "context": [("ring attention", "ring attention", "torch's ring attention")],
    "layout": [
        ("pipeline x tensor", "pipeline x tensor", "torch's pipeline x tensor"),
        ("data x tensor", "data x tensor", "torch's data x tensor"),
    ],
    "recompute": [
        ("full recomputation", "recompute", "torch.utils.checkpoint"),
        ("full recomputation", "recompute", "none"),
    ],
    "checkpoint": [("saving a checkpoint", "save", "dcp.save")],
    "collectives": [
        ("gloo's reduce-scatter", "reduce_scatter", "all_reduce"),
        ("gloo's all-gather", "all_gather", "all_reduce"),
    ],
}


def start_of_ranks(*, ranks: int) -> dict[str, float]:
    """Seconds to run a script that only meets: from the warm pool, and by torchrun."""
    from labs.runner import run, warm_up

    script = ROOT / "tools" / "bench_empty.py"
    warm_up()
    run(script, ranks=ranks)
    warm = [run(script, ranks=ranks).seconds for _ in range(10)]
    cold = []
    for _ in range(3):
        started = time.perf_counter()
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += [f"--nproc-per-node={ranks}", str(script)]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        cold.append(time.perf_counter() - started)
    return {"runner": statistics.median(warm), "torchrun": statistics.median(cold)}


def build_of_lessons() -> float:
    """Seconds to build every lesson in every language anew."""
    from lessons.builder import build

    started = time.perf_counter()
    build()
    return time.perf_counter() - started


def redraw() -> float:
    """Milliseconds from new sizes to the new picture: the formula, and the bars drawn from it."""
    from labs.catalogue import formula
    from labs.telemetry.drawing import stacked_bars
    from translations import language

    spent = []
    for ranks in range(2, 14):
        started = time.perf_counter()
        groups = [(str(stage), formula("zero", ranks=ranks, stage=stage, precision="bf16")) for stage in range(4)]
        stacked_bars(groups, language=language("ar"), title="·")
        spent.append(time.perf_counter() - started)
    return 1000 * statistics.median(spent)


def planning() -> dict[str, float]:
    """Seconds of the planner: all layouts of a model on so many GPUs, and failures drawn for months."""
    from labs.planner.failures import simulate
    from labs.planner.goodput import DEVICE_MTBF, Cluster
    from labs.planner.hardware import accelerator
    from labs.planner.models import model
    from labs.planner.search import search

    card = accelerator("a100-80")
    cluster = Cluster(devices=200_000, device_mtbf=DEVICE_MTBF, cost=30, detection=60, restart=300, spares=40)
    asked: dict[str, Callable[[], object]] = {
        "all layouts of 384 GPUs": lambda: search(model("bloom-176b"), gpus=384, gpu=card, batch=2048),
        "all layouts of 16,384 GPUs": lambda: search(model("gpt-1t"), gpus=16384, gpu=card, batch=8192),
        "90 days of failures of 200,000": lambda: simulate(cluster, interval=900, seconds=90 * 86400),
    }
    spent = {}
    for what, ask in asked.items():
        started = time.perf_counter()
        ask()
        spent[what] = time.perf_counter() - started
    return spent


def simulating() -> dict[str, dict[str, float]]:
    """Seconds, those of the processor, and bytes of simulating BLOOM's 384 ranks and eight times as many."""
    found = {}
    for implementation in ("labs", "torch"):
        for dp in (8, 64):
            command = [sys.executable, "-m", "tools.bench_simulation", implementation, str(dp)]
            done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300, cwd=ROOT)
            found[f"{implementation}, {48 * dp:,} ranks"] = json.loads(done.stdout)
    return found


def redraw_of_controls() -> dict[str, float]:
    """Milliseconds from a new choice in the planner's controls to its figures, by topic."""
    from lessons.controls import PlannerControl
    from lessons.controls.planner import TOPICS
    from translations import language

    found = {}
    for topic in TOPICS:
        control, spent = PlannerControl(topic, language=language("ar")), []
        for turn in range(1, 13):
            field = "micro_batches" if topic == "timetable" else "batch"
            value = 4 * turn if topic == "timetable" else 512 * turn
            started = time.perf_counter()
            control.choose(control.choice | {field: str(value)}, turn=turn)
            spent.append(time.perf_counter() - started)
        found[topic] = 1000 * statistics.median(spent)
    return found


def service() -> dict[str, dict[str, float]]:
    """Exam answers on one core beside a bare FastAPI route, and a few hundred learners in an exam at once."""
    command = [sys.executable, "-m", "tools.bench_service"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600, cwd=ROOT)
    found: dict[str, dict[str, float]] = json.loads(done.stdout)
    return found


def certificates() -> dict[str, float]:
    """How many certificates are issued, verified and drawn in a second of one core."""
    command = [sys.executable, "-m", "tools.bench_certificates"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600, cwd=ROOT)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def grading(*, count: int) -> dict[str, Any]:
    """CPU and wall seconds a submission: in sandboxes, by the number of workers, and by nbgrader as it comes."""
    workers = ",".join(str(each) for each in (1, 2, 4) if each <= max(1, os.cpu_count() or 1))
    command = [sys.executable, "-m", "tools.bench_grading", "--count", str(count), "--workers", workers]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=4 * 3600, cwd=ROOT)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--submissions", type=int, default=120, help="graded in sandboxes; 0 leaves grading out")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    from labs.runner import run

    found: dict[str, object] = {}
    parts: dict[str, Callable[[], object]] = {
        "start": lambda: start_of_ranks(ranks=arguments.ranks),
        "training": lambda: run(ROOT / "tools" / "bench_ranks.py", ranks=arguments.ranks, timeout=600).ranks[0].value,
        "lessons": build_of_lessons,
        "redraw": redraw,
        "controls": redraw_of_controls,
        "planner": planning,
        "simulation": simulating,
        "service": service,
        "certificates": certificates,
        **({"grading": lambda: grading(count=arguments.submissions)} if arguments.submissions else {}),
    }
    for name in track(parts, description="bench", console=Console(stderr=True)):
        found[name] = parts[name]()
    if arguments.json:
        print(json.dumps(found, indent=1))
        return

    start, training, planner, simulation = (found[name] for name in ("start", "training", "planner", "simulation"))
    assert isinstance(start, dict)
    assert isinstance(planner, dict)
    assert isinstance(simulation, dict)
    assert isinstance(training, dict)
    steps, cpu = training["steps"], training["cpu"]
    table = Table("what", "ours", "beside", "ratio")

    def row(what: str, own: float, other: float, unit: str = "s") -> None:
        table.add_row(what, f"{own:.3f} {unit}", f"{other:.3f} {unit}", f"{own / other:.2f}")

    row(f"start of {arguments.ranks} ranks, beside torchrun", start["runner"], start["torchrun"])
    for family, pairs in BESIDE.items():
        for what, own, other in pairs:
            if {own, other} <= steps[family].keys():
                row(f"{what}, beside {other}", steps[family][own], steps[family][other])
    row("CPU time of a step with the tracker, beside without", cpu["tracker"], cpu["alone"])
    row("CPU time of a step with the tracker, beside MemTracker", cpu["tracker"], cpu["memtracker"])
    table.add_row("building all lessons", f"{found['lessons']:.2f} s", "", "")
    table.add_row("new sizes to a new picture", f"{found['redraw']:.1f} ms", "", "")
    controls = found["controls"]
    assert isinstance(controls, dict)
    for topic, spent in controls.items():
        table.add_row(f"a choice in the controls of {topic} to its figures", f"{spent:.1f} ms", "", "")
    for what, limit in (
        ("all layouts of 384 GPUs", 1),
        ("all layouts of 16,384 GPUs", 10),
        ("90 days of failures of 200,000", 2),
    ):
        row(f"{what}, beside what it may take", planner[what], limit)
    for what, own in simulation.items():
        row(f"simulating {what}, beside what 384 may take", own["seconds"], 10)
        row(f"simulating {what}, memory beside what 384 may take", own["bytes"] / 1e9, 1, "GB")
    served = found["service"]
    assert isinstance(served, dict)
    own, beside, crowd = served["answers"]["service"], served["answers"]["bare"], served["at once"]
    row("exam answers a second on one core, beside a bare route", own["per_second"], beside["per_second"], "")
    row("p99 of an exam answer, beside a bare route", own["p99_ms"], beside["p99_ms"], "ms")
    lost = f"{crowd['lost']:.0f} lost, {crowd['refused']:.0f} refused"
    table.add_row(f"{crowd['learners']:.0f} learners at once: p99 of an answer", f"{crowd['p99_ms']:.0f} ms", lost, "")
    issued = found["certificates"]
    assert isinstance(issued, dict)
    for what, a_second in issued.items():
        table.add_row(f"certificates a second: {what}", f"{a_second:.0f}", "", "")
    graded = found.get("grading")
    if isinstance(graded, dict):
        beside = graded["plain"]
        for workers, took in graded["workers"].items():
            row(f"CPU time of a graded submission, {workers} workers, beside nbgrader", took["cpu"], beside["cpu"])
            row(f"time for it, {workers} workers, beside nbgrader", took["seconds"], beside["seconds"])
    Console().print(table)


if __name__ == "__main__":
    main()
