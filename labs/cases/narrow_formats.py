"""Llama 3.1 405B trained with FP8 products on three systems: what NVIDIA measured, and what the planner says of it."""

from __future__ import annotations

from labs.cases.rows import Row
from labs.planner.configuration import STACKS, Configuration
from labs.planner.hardware import accelerator
from labs.planner.models import model
from labs.planner.recomputed import published
from labs.planner.throughput import throughput


def results() -> list[Row]:
    """TFLOP/s of each GPU: published, computed in FP8, and computed in bf16."""
    found = []
    table = published("megatron_bridge")["llama31_405b"]
    names = [*table["config_cols"], *table["value_cols"]]
    for values in table["rows"]:
        row = dict(zip(names, values, strict=True))
        plan, card = plan_of(row), accelerator(row["gpu"])
        found.append(Row(name="narrow-published", of=row["gpu"], value=row["tflops"], unit="TFLOP/s"))
        for precision in ("fp8", "bf16"):
            rate = throughput(plan, gpu=card, precision=precision).tflops_per_gpu
            found.append(Row(name=f"narrow-{precision}", of=row["gpu"], value=rate, unit="TFLOP/s"))
    return found


def plan_of(row: dict[str, int]) -> Configuration:
    """The published layout. Its chunks are left out: 126 layers do not divide into so many."""
    dp = row["gpus"] // row["tp"] // row["pp"] // row["cp"]
    return Configuration(
        model=model("llama-3-405b"), dp=dp, tp=row["tp"], pp=row["pp"], cp=row["cp"], zero=1, micro_batch=row["mbs"],
        micro_batches=row["gbs"] // dp // row["mbs"], sequence=row["sequence"], sequence_parallel=True,
        stack=STACKS["megatron"],
    )  # fmt: skip
