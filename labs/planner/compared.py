"""The published outputs of estimators (`published/est_*.yaml`) beside what is counted here, byte by byte: what each
reason adds or leaves out, so that nothing of a difference remains but the rounding of the print.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from labs.planner import estimators
from labs.planner.configuration import STACKS, Configuration
from labs.planner.memory import memory, of_parameters
from labs.planner.models import gpt, model
from labs.planner.recomputed import published

GIB, MIB, GB = 2**30, 2**20, 10**9
COLD, LAYER = 2_851_000_000, 32_000_000
"""Parameters of the model in DeepSpeed's documentation, and of its largest layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why an estimate is more bytes than ours, or fewer; the id of a sentence."""

    id: str
    bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """One printed estimate in bytes, ours for the same, and what lies between; `half` is half of its last digit,
    `binary` says that it is printed in GiB or MiB.
    """

    estimator: str
    case: str
    bytes: float
    half: float
    binary: bool
    ours: int
    reasons: tuple[Reason, ...]

    @property
    def unexplained(self) -> float:
        """Bytes that no reason has: the rounding of the print."""
        return self.bytes - self.ours - sum(reason.bytes for reason in self.reasons)

    def as_json(self) -> dict[str, object]:
        reasons = [{"reason": reason.id, "bytes": round(reason.bytes)} for reason in self.reasons]
        return {
            "estimator": self.estimator,
            "case": self.case,
            "bytes": round(self.bytes),
            "ours": self.ours,
            "differs": reasons,
        }


def printed() -> tuple[Printed, ...]:
    """All of them."""
    return (*_deepspeed(), *_accelerate(), *_eleuther(), *_llm_analysis())


def _rows(source: str, table: str) -> Iterator[dict[str, Any]]:
    found = published(source)[table]
    names = [*found["config_cols"], *found["value_cols"]]
    for values in found["rows"]:
        yield dict(zip(names, values, strict=True))


def _of(estimator: str, case: str, value: float, unit: int, ours: float, *reasons: tuple[str, float]) -> Printed:
    digits = len(repr(value).partition(".")[2]) if value != int(value) else 0
    kept = tuple(Reason(id=id, bytes=amount) for id, amount in reasons if abs(amount) >= 1)
    half = 0.5 * 10**-digits * unit
    return Printed(
        estimator=estimator, case=case, bytes=value * unit, half=half, binary=unit != GB, ours=round(ours), reasons=kept
    )


def _deepspeed() -> Iterator[Printed]:
    zero_2 = of_parameters(COLD, dp=8, zero=2, stack=STACKS["zero"]).total
    for row in _rows("est_deepspeed", "z2_cold"):
        whole = 2 * COLD * 7 / 8
        yield _of(
            "deepspeed", "ZeRO-2, 2.85e9, 8 GPUs", row["gpu_gib_docs"], GIB, zero_2,
            ("older-formula", whole), ("fp32-gradients", 4 * COLD / 8),
        )  # fmt: skip
    gathered = 2 * 2 * LAYER
    for row in _rows("est_deepspeed", "z3_cold"):
        bars = of_parameters(COLD, dp=8, zero=3, stack=STACKS["zero"]).bars
        away = (bars.gradients + bars.optimizer_states) if row["offload_opt"] == "cpu" else 0
        away += bars.parameters if row["offload_param"] == "cpu" else 0
        kept = () if away else (("fp32-gradients", 2 * COLD / 8),)
        case = f"ZeRO-3, 2.85e9, 8 GPUs, offload: {row['offload_param']}, {row['offload_opt']}"
        yield _of("deepspeed", case, row["gpu_gib"], GIB, gathered + bars.total - away, *kept)
    for row in _rows("est_deepspeed", "t5large"):
        parameters, largest = row["params_m"] * 1e6, row["largest_m"] * 1e6
        ours = 4 * largest + (2 * parameters / 4 if row["case"] == "case3_offload_opt" else 0)
        yield replace(
            _of("deepspeed", f"ZeRO-3, t5-large, 4 GPUs, {row['case']}", row["mib"], MIB, ours),
            half=MIB + 4 * 0.05e6,  # whole MiB, cut off, and a layer that is printed rounded
        )


def _accelerate() -> Iterator[Printed]:
    """Four times what the weights take, whatever their precision; ours trains in mixed precision, or in fp32."""
    for row in _rows("est_accelerate", "bert"):
        if row["dtype"] == "float32":
            yield replace(
                _of("accelerate", "bert-base-cased, float32", row["adam_mib"], MIB, 4 * row["total_mib"] * MIB),
                half=0.005 * GIB,  # printed in GiB to two decimals
            )
        else:
            weights = row["total_mib"] * MIB
            yield _of(
                "accelerate", f"bert-base-cased, {row['dtype']}", row["adam_mib"], MIB, 16 * weights,
                ("four-times", -12 * weights + (row["adam_mib"] * MIB - 4 * weights)),
            )  # fmt: skip
    for row in _rows("est_accelerate", "idefics80b"):
        weights = row["total_gib"] * GIB
        size = {"float16": 2, "int4": 0.5}[row["dtype"]]
        ours = 16 * weights / size
        reason = "largest-only" if row["dtype"] == "float16" else "four-times"
        yield _of(
            "accelerate", f"idefics-80b, {row['dtype']}", row["adam_gib"], GIB, ours, (reason, 4 * weights - ours)
        )


def _eleuther() -> Iterator[Printed]:
    for row in _rows("est_eleuther_cookbook", "examples"):
        wide = 3.5 if row["name"].endswith("ff3p5") else 4.0
        sizes = {"layers": row["L"], "hidden": row["h"], "sequence": row["s"]}
        theirs = estimators.eleuther(
            parameters=estimators.eleuther_parameters(**sizes, vocabulary=51200, features=wide), **sizes,
            heads=row["a"], batch=row["b"], gpus=row["gpus"], tensor=row["tp"], stage=row["zero"],
            recompute=row["ckpt"],
        )  # fmt: skip
        shape = replace(gpt(**sizes, heads=row["a"], vocabulary=51200), tied=False, features=round(wide * row["h"]))
        held = memory(
            Configuration(
                model=shape, dp=row["gpus"] // row["tp"], tp=row["tp"], zero=row["zero"], micro_batch=row["b"],
                recompute="selective" if row["ckpt"] else "none", sequence_parallel=row["tp"] > 1,
                stack=STACKS["deepspeed"],
            )
        ).bars  # fmt: skip
        divided = theirs.gradients / row["tp"]
        states = theirs.model + divided / 2 + theirs.optimizer
        case = f"{row['name']}, tp {row['tp']}, ZeRO-{row['zero']}, {row['gpus']} GPUs"
        yield replace(
            _of(
                "eleuther", case, row["total"], GIB, held.total - held.slack,
                ("undivided-gradients", theirs.gradients - divided),
                ("fp32-gradients", divided / 2),
                ("count", states - held.states),
                ("bucket", theirs.communication - held.buckets),
                ("outside-layers", theirs.activations - held.activations - held.logits),
            ),
            half=0.01 * GIB,  # a sum of rounded parts
        )  # fmt: skip


def _llm_analysis() -> Iterator[Printed]:
    """Its stored outputs: weights, gradients, states and activations, added up."""
    for row in _rows("est_llm_analysis", "sc21_mem"):
        shape = model("gpt-175b" if row["params_b"] < 200 else "gpt-530b")
        shards = row["tp"] * row["pp"] * (row["dp"] if row["zero"] == 3 else 1)
        layers = 12 * shape.layers * shape.hidden**2 / shards
        table = 50257 * shape.hidden / row["tp"]
        held = memory(
            Configuration(
                model=shape, dp=row["dp"], tp=row["tp"], pp=row["pp"], zero=row["zero"], micro_batch=row["bs_per_gpu"],
                micro_batches=row["pp"], recompute="full", stack=STACKS["zero"],
            )
        ).bars  # fmt: skip
        checkpoints = 2 * 2048 * row["bs_per_gpu"] * shape.hidden * shape.layers / row["tp"]
        total = row["weight_gb"] + row["grad_gb"] + row["opt_gb"] + row["act_gb"]
        case = f"{row['params_b']:g}e9, dp {row['dp']}, tp {row['tp']}, pp {row['pp']}, ZeRO-{row['zero']}"
        yield replace(
            _of(
                "llm-analysis", case, round(total, 2), GB, held.total - held.slack,
                ("sixteen-bytes", 4 * layers),
                ("embedding-whole", 2 * layers + 2 * table + 2 * layers + 12 * layers - held.states),
                ("checkpoints-split", checkpoints - held.activations),
                ("no-gathered", -held.gathered - held.buckets),
                ("outside-layers", -held.logits),
            ),
            half=0.02 * GB,  # a sum of rounded parts
        )  # fmt: skip
