"""This search beside another planner's published answer: Alpa's (Zheng et al. 2022), for GPT on 2 to 64 V100.

Alpa assigns a pipeline stage to each part of the cluster by dynamic programming, and shards inside of it by an integer
program, with profiled costs. Here the same models, cluster and batch are asked of our search twice: under Alpa's own
rules (as many micro-batches, full recomputation, no interleaving, a sharded update), and with all that our search may
vary. What the published layout costs more is computed by our model of time, with its own layout put in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import yaml

from labs.planner.configuration import STACKS, Configuration
from labs.planner.hardware import Accelerator, accelerator
from labs.planner.memory import memory
from labs.planner.models import Model, gpt
from labs.planner.recomputed import FOLDER, Row, published
from labs.planner.search import Ranked, all_degrees, search, spends_more_on
from labs.planner.throughput import throughput

STACK = STACKS["zero"]
TIE = 0.01
"""Layouts whose seconds differ by less than this are the same to us: the model of time claims no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """One model. `published` is Alpa's layout (where its stages have unequal parts of the cluster, the nearest with
    equal ones), `ours` the best under its rules, `free` the best without them; `measured` is the published TFLOP/s a
    GPU and `predicted` what our model gives for the published layout.

    `reason` is "same", "tie" or the id of what the published layout spends more on; `unequal` says that the published
    stages are; `rivals` are layouts under the same rules that would be faster and do not fit.
    """

    model: Model
    gpus: int
    published: Ranked
    unequal: bool
    ours: Ranked
    free: Ranked
    rivals: tuple[Ranked, ...]
    measured: float
    predicted: float

    @property
    def costs(self) -> float:
        """By which share the published layout is slower than ours under the same rules, as our model has it."""
        return self.published.seconds / self.ours.seconds - 1

    @property
    def rules_cost(self) -> float:
        """By which share the best under Alpa's rules is slower than the best without them."""
        return self.ours.seconds / self.free.seconds - 1

    @property
    def reason(self) -> str:
        if _degrees_of(self.published.plan) == _degrees_of(self.ours.plan):
            return "same"
        return "tie" if self.costs < TIE else str(self.ours.why_next_lost)

    def as_json(self) -> dict[str, object]:
        return {
            "model": self.model.name,
            "gpus": self.gpus,
            "published": self.published.as_json(),
            "unequal_stages": self.unequal,
            "ours": self.ours.as_json(),
            "free": self.free.as_json(),
            "too_large": [each.as_json() for each in self.rivals],
            "measured_tflops": self.measured,
            "predicted_tflops": self.predicted,
            "reason": self.reason,
            "costs": self.costs,
            "rules_cost": self.rules_cost,
        }


def beside() -> tuple[Beside, ...]:
    """Every published row."""
    table = published("alpa_osdi22")["gpt"]
    names, card = [*table["config_cols"], *table["value_cols"]], cluster()
    return tuple(_beside(dict(zip(names, row, strict=True)), card) for row in table["rows"])


def cluster() -> Accelerator:
    """The published machines: eight V100 of 16 GB a node, whose one network card they share."""
    data = yaml.safe_load((FOLDER / "alpa_osdi22.yaml").read_text(encoding="utf-8"))["cluster"]
    rate = data["network_gbps_per_node"] * 1e9 / 8 / data["node"]
    return replace(accelerator("v100-16"), node=data["node"], network=rate)


def _beside(row: Row, card: Accelerator) -> Beside:
    shape = gpt(
        name=row["model"], **{name: row[name] for name in ("layers", "hidden", "heads", "sequence", "vocabulary")}
    )
    gpus, batch, micro_batches = row["gpus"], row["global_batch"], row["micro_batches"]
    dp, tp = min(row["dp_of_stages"]), min(row["tp_of_stages"])
    unequal = len(set(zip(row["layers_of_stages"], row["dp_of_stages"], row["tp_of_stages"], strict=True))) > 1

    def ranked(dp: int, tp: int, pp: int) -> Ranked:
        plan = Configuration(
            model=shape, dp=dp, tp=tp, pp=pp, zero=1 if dp > 1 else 0, micro_batch=batch // micro_batches // dp,
            micro_batches=micro_batches, recompute="full", stack=STACK,
        )  # fmt: skip
        return Ranked(plan=plan, seconds=throughput(plan, gpu=card).seconds_per_step, memory=memory(plan, gpu=card))

    theirs = ranked(dp, tp, gpus // dp // tp)
    # A micro-batch is shared out over the data axis, so it takes the batch's place here.
    degrees = all_degrees(shape, gpus=gpus, batch=batch // micro_batches, node=card.node)
    every = sorted((ranked(*each) for each in degrees), key=lambda each: each.seconds)
    best = next(each for each in every if each.memory.fits)
    return Beside(
        model=shape,
        gpus=gpus,
        published=theirs,
        unequal=unequal,
        ours=replace(best, why_next_lost=spends_more_on(best, theirs, gpu=card)),
        free=search(shape, gpus=gpus, gpu=card, batch=batch, stack=STACK, most=1)[0],
        rivals=tuple(each for each in every if each.seconds < best.seconds),
        measured=float(row["tflops"]),
        predicted=throughput(theirs.plan, gpu=card).tflops_per_gpu,
    )


def _degrees_of(plan: Configuration) -> tuple[int, int, int]:
    return plan.dp, plan.tp, plan.pp
