"""Published largest batches beside the formula of the states: what each leaves for one sequence of a GPU's memory.

What a sequence takes is not determined (the posts do not give its length, or give one that their numbers contradict).
The states are, and with them what a batch leaves for each of its sequences. All ran on Titan RTX cards, of which
PyTorch reports 23.65 GiB.

    bytes a parameter of N ranks, with fp32 weights, gradients and Adam:
    DDP                          4 + 4 + 8, and 4 of buckets where N > 1
    FairScale's ShardedDDP       4 + (4 + 8) / N
    SHARD_GRAD_OP                (4 + 4 + 8) / N, and 4 gathered until backward
    FULL_SHARD                   (4 + 4 + 8) / N
    offloaded                    0 on the GPU
    autocast to fp16             2 more, for the cast weights
    DeepSpeed's ZeRO-2 in fp16   2 + (2 + 12) / N
"""

from __future__ import annotations

from dataclasses import dataclass

from labs.planner.recomputed import published
from labs.telemetry.drawing.table import Table
from translations import Language, translator
from translations.formats import bytes_

ROOM = round(23.65 * 2**30)
MODELS = {"t1": ("GPT-2 Large", 762e6), "t2": ("GPT-2 XL", 1.5e9), "t5large": ("T5-large", 737.67e6)}
"""Names and parameters, by the posts' tables; T5-large's by DeepSpeed's own documentation (`est_deepspeed.yaml`)."""
RANKS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One printed largest batch. `states` are bytes on a GPU by formula; `batch` is None where the run did not fit."""

    source: str
    model: str
    method: str
    gpus: int
    states: int
    batch: int | None

    @property
    def room(self) -> int:
        """Bytes beside the states; below zero where these alone are too many."""
        return ROOM - self.states

    @property
    def of_sequence(self) -> tuple[int, int] | None:
        """At least and at most what a sequence takes, since one more did not fit."""
        if self.batch is None:
            return None
        return self.room // (self.batch + 1), self.room // self.batch


def bytes_a_parameter(method: str, *, gpus: int) -> float:
    """Of model states, buckets and cast weights, on one GPU."""
    if "offload" in method and "no_offload" not in method:
        return 0.0
    if method == "deepspeed_no_offload":
        return 2 + (2 + 12) / gpus
    cast = 2 if "fp16" in method else 0
    if method.startswith("sharded_ddp"):
        return 4 + (4 + 8) / gpus + cast
    if method.startswith("fsdp"):
        return 16 / gpus + (4 if "shard_grad_op" in method else 0) + cast
    return (16 if gpus == 1 else 20) + cast


def batches() -> list[Batch]:
    """All printed largest batches of the two posts, in their order."""
    found = []
    for source, table in (("hf_pytorch_fsdp", "t1"), ("hf_pytorch_fsdp", "t2"), ("hf_zero_fairscale", "t5large")):
        told = published(source)[table]
        names = [*told["config_cols"], *told["value_cols"]]
        for values in told["rows"]:
            row = dict(zip(names, values, strict=True))
            method, gpus = row["method"], row.get("gpus", RANKS)
            model, parameters = MODELS[table]
            states = round(bytes_a_parameter(method, gpus=gpus) * parameters)
            found.append(
                Batch(source=source, model=model, method=method, gpus=gpus, states=states, batch=row["max_bs"])
            )
    return found


def batches_table(language: Language) -> Table:
    """The rows for a lesson."""
    text = translator(language)
    rows = []
    for each in batches():
        between = "–" if each.of_sequence is None else " – ".join(bytes_(size, language) for size in each.of_sequence)
        printed = text("labs.batches-none") if each.batch is None else each.batch
        rows.append([each.model, each.method, each.gpus, bytes_(each.states, language), printed, between])
    header = [text(f"labs.batches-{name}") for name in ("model", "method", "gpus", "states", "batch", "sequence")]
    return Table(rows, header=header, language=language, caption=text("labs.batches-title"))
