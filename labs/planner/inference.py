"""What generation costs: bytes of weights and cache, what ranks exchange, and the time of a token.

A step of generation reads every weight once, whatever the batch: at small batches it takes as long as the memory needs
to deliver them, and a batch is nearly free (Pope et al. 2022, section 2). The prompt is another matter: its tokens come
all at once, and its time is that of the arithmetic.

    cache       2 L T D values a sequence
    decode      weights / bandwidth on tensor ranks that work together; on ranks that wait for each other, the sum
    prefill     2 P operations a token
    exchange    two all-reduces of B s D a layer, and one for the embedding

Bounds, not forecasts: what launches of kernels, synchronization and a server add is not in them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from labs.planner.hardware import Accelerator, accelerator
from labs.planner.models import Model, model
from labs.planner.recomputed import facts, published
from labs.planner.zero import Count

BYTES = {"fp64": 8, "fp32": 4, "bf16": 2, "fp16": 2, "int8": 1, "int4": 0.5}
SHARES = ("tensor", "layers", "zero")
PROMPT, NEW = 10, 100
"""Tokens of the published benchmark's prompts, about, and new ones (hf_bloom_inference, metric)."""
CHOICE = 16
"""Bytes of a sequence's best score and its token, as the labs exchange them."""


# --- the labs' own generation, to the byte


def cache_bytes(
    *, layers: int, hidden: int, positions: int, sequences: int, precision: str = "bf16", tensor: int = 1
) -> int:
    """Keys and values of so many sequences, on one of `tensor` ranks."""
    return int(2 * layers * sequences * positions * hidden // tensor * BYTES[precision])


def weight_bytes(*, layers: int, hidden: int, vocabulary: int, precision: str, tensor: int = 1) -> int:
    """A small BLOOM's weights on one of `tensor` ranks: its part of the matrices, and the whole of what is small."""
    d = hidden
    block = (12 * d * d + 7 * d) // tensor + 6 * d
    return int((layers * block + -(-vocabulary // tensor) * d + 4 * d) * BYTES[precision])


def tensor_step(
    *, layers: int, hidden: int, sequences: int, tokens: int = 1, precision: str, tensor: int
) -> dict[str, Count]:
    """Collectives of one step on tensor ranks: `tokens` new ones of each sequence, of which the last is answered."""
    if tensor == 1:
        return {}
    times = 2 * layers + 1
    stream = int(sequences * tokens * hidden * BYTES[precision])
    return {
        "all_reduce": Count(count=times, bytes=2 * times * stream),
        "all_gather": Count(count=1, bytes=tensor * sequences * CHOICE),
    }


# --- a large model on a cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """A question: which model in which precision, on how many accelerators, and how they share it.

    tensor   every matrix over all of them      (DeepSpeed-Inference)
    layers   whole layers, one after the other  (Accelerate)
    zero     each holds an n-th of every weight and gathers it to compute on its own sequences (ZeRO-3)
    """

    model: Model
    gpu: Accelerator
    gpus: int
    precision: str = "bf16"
    share: str = "tensor"

    @property
    def weights(self) -> float:
        """Bytes of all weights."""
        return self.model.parameters * BYTES[self.precision]

    def cache(self, *, sequences: int, positions: int) -> float:
        """Bytes of keys and values, kept in 16 bits, on all accelerators."""
        return cache_bytes(
            layers=self.model.layers,
            hidden=self.model.key_value_heads * self.model.head_size,
            positions=positions,
            sequences=sequences,
        )

    def fits(self, *, sequences: int, positions: int) -> bool:
        """Whether weights and cache fit. With layers or tensors they are spread over all; with ZeRO-3 each has the
        cache of its own sequences.
        """
        held = self.weights + self.cache(
            sequences=sequences * (self.gpus if self.share == "zero" else 1), positions=positions
        )
        return held <= self.gpus * self.gpu.memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The least seconds of one step: reading weights and cache, arithmetic, and what goes over the links."""

    weights: float
    cache: float
    arithmetic: float
    exchange: float

    @property
    def seconds(self) -> float:
        """Reading and computing overlap; what is exchanged is waited for."""
        return max(self.weights + self.cache, self.arithmetic) + self.exchange


def step(plan: Serving, *, sequences: int, tokens: int = 1, positions: int) -> Step:
    """One forward of `tokens` new tokens of each of `sequences`, of which `positions` are there already: decoding with
    one token, the prompt with all of its own. With ZeRO-3, sequences on each accelerator.
    """
    together = plan.gpus if plan.share == "tensor" else 1
    operations = 2 * plan.model.parameters * sequences * tokens
    stream = sequences * tokens * plan.model.hidden * 2
    exchange = 0.0
    if plan.share == "tensor" and plan.gpus > 1:
        ring = 2 * (plan.gpus - 1) / plan.gpus
        exchange = 2 * plan.model.layers * ring * stream / plan.gpu.link
    elif plan.share == "layers":
        exchange = (plan.gpus - 1) * stream / plan.gpu.link
    elif plan.share == "zero":
        exchange = (plan.gpus - 1) / plan.gpus * plan.weights / plan.gpu.link
    return Step(
        weights=plan.weights / together / plan.gpu.bandwidth,
        cache=plan.cache(sequences=sequences, positions=positions) / together / plan.gpu.bandwidth,
        arithmetic=operations / together / plan.gpu.peak,
        exchange=exchange,
    )


def seconds_per_token(plan: Serving, *, sequences: int, prompt: int, new: int) -> float:
    """As the published table counts: the whole generation's seconds over all tokens that it gave, of all sequences."""
    middle = prompt + new // 2
    whole = step(plan, sequences=sequences, tokens=prompt, positions=prompt).seconds
    whole += (new - 1) * step(plan, sequences=sequences, positions=middle).seconds
    return whole / (sequences * new * (plan.gpus if plan.share == "zero" else 1))


def quantized_bytes(*, parameters: float, bits: int, group: int | None = None) -> float:
    """Weights in `bits`, and a scale of 16 bits for each `group` of them."""
    return parameters * bits / 8 + (2 * parameters / group if group else 0)


def largest_error(*, largest: float, bits: int) -> float:
    """How far a weight can be from the nearest step, where the largest one of its group is the largest number."""
    most: int = 2 ** (bits - 1) - 1
    return largest / most / 2


def step_milliseconds(
    *, gpus: int, precision: str = "bf16", share: str = "tensor", sequences: int = 1, part: str = "seconds"
) -> float:
    """One step of BLOOM-176B on A100 80 GB, in the middle of a short answer: all of it, or one part of the bound."""
    plan = Serving(model=model("bloom"), gpu=accelerator("a100-80"), gpus=gpus, precision=precision, share=share)
    found: float = getattr(step(plan, sequences=sequences, positions=PROMPT + NEW // 2), part)
    return 1000 * found


def crossing_batch(*, peak: float, bandwidth: float, precision: str = "bf16") -> float:
    """Sequences in a step with which its arithmetic takes as long as reading the weights: 2 operations a weight and
    sequence, beside the bytes of a weight.
    """
    most: float = BYTES[precision] * peak / (2 * bandwidth)
    return most


# --- the published numbers

STACKS = {"accelerate": "layers", "ds_inference": "tensor", "ds_zero": "zero"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A measured cell beside the least that the formulas allow, in seconds a token."""

    stack: str
    precision: str
    gpus: int
    sequences: int
    measured: float
    bound: float

    @property
    def reached(self) -> float:
        """The share of the bound's speed that was reached."""
        return self.bound / self.measured


def bloom_table() -> Iterator[Published]:
    """Every cell of the published table that was run and fitted."""
    for table, gpus in (("t8", 8), ("t4", 4)):
        found = published("hf_bloom_inference")[table]
        for stack, precision, *cells in found["rows"]:
            for column, cell in zip(found["value_cols"], cells, strict=True):
                if cell is None or cell < 0:
                    continue
                sequences = int(column.removeprefix("bs"))
                plan = Serving(
                    model=model("bloom"),
                    gpu=accelerator("a100-80"),
                    gpus=gpus,
                    precision=precision,
                    share=STACKS[stack],
                )
                bound = seconds_per_token(plan, sequences=sequences, prompt=PROMPT, new=NEW)
                yield Published(
                    stack=stack,
                    precision=precision,
                    gpus=gpus,
                    sequences=sequences,
                    measured=cell / 1000,
                    bound=bound,
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Improvement:
    """A step of the published story: milliseconds a token before and after, and requests a second where it tells."""

    name: str
    before: float
    after: float
    requests_before: float | None
    requests_after: float | None

    @property
    def factor(self) -> float:
        """How many times as fast a token came after it."""
        return self.before / self.after


def improvements() -> list[Improvement]:
    """What was done to BLOOM's server, in order (hf_bloom_optimization, steps)."""
    return [
        Improvement(name=name, before=before, after=after, requests_before=first, requests_after=last)
        for name, before, after, first, last in published("hf_bloom_optimization")["steps"]["rows"]
    ]


def factor_of(*, step: str) -> float:
    """How many times as fast one step has made a token."""
    return next(each.factor for each in improvements() if each.name == step)


def latency_factor() -> float:
    """All steps together: factors multiply."""
    return math.prod(each.factor for each in improvements())


def throughput_factors() -> dict[str, float]:
    """Requests a second, as many times as at the start: from taking requests in turn on waiting GPUs, from tensor ranks
    with batches, and what the claim leaves for all that came after.
    """
    told = {each.name: each for each in improvements()}
    start = told["requests_in_turn"].requests_before or 0.0
    turn, tensor = (told[name].requests_after or 0.0 for name in ("requests_in_turn", "tensor_parallel"))
    claim = facts("hf_bloom_optimization")["claim"]["throughput"]
    return {"requests_in_turn": turn / start, "tensor_parallel": tensor / turn, "after": claim * start / tensor}
