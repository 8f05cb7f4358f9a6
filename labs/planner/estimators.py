"""What well-known estimators count, as their published code has it, so that their numbers can stand beside ours.

Each returns bytes. Where an estimator's code and its documentation differ, both are here, named. They print binary
units under decimal names: GiB as GB.
"""

from __future__ import annotations

from dataclasses import dataclass

from labs.planner.configuration import Configuration
from labs.planner.memory import memory

BUFFER = 1.5
"""DeepSpeed's factor for what the host needs beside the states."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Bytes on one GPU and on the host of one node."""

    gpu: int
    cpu: int


# --- DeepSpeed's estimators of model states (estimate_zero2_model_states_mem_needs and its like)


def deepspeed_zero_2(*, parameters: int, gpus_per_node: int, nodes: int = 1, offload: bool = False) -> Estimate:
    """ZeRO-2: 2 bytes of parameters and 18 bytes over all GPUs: gradients in 16 and 32 bit, and Adam's 12."""
    gpus = gpus_per_node * nodes
    if offload:
        return Estimate(gpu=2 * parameters, cpu=int(parameters * max(4 * gpus, 16) * BUFFER))
    return Estimate(gpu=2 * parameters + 18 * parameters // gpus, cpu=int(4 * parameters * gpus_per_node * BUFFER))


def deepspeed_zero_2_documented(*, parameters: int, gpus_per_node: int, nodes: int = 1) -> Estimate:
    """The formula that the documentation still shows: 4 bytes and 16 bytes over all GPUs."""
    gpus = gpus_per_node * nodes
    return Estimate(gpu=4 * parameters + 16 * parameters // gpus, cpu=int(4 * parameters * gpus_per_node * BUFFER))


def deepspeed_zero_3(
    *,
    parameters: int,
    largest_layer: int,
    gpus_per_node: int,
    nodes: int = 1,
    offload_optimizer: bool = False,
    offload_parameters: bool = False,
    init: bool = True,
) -> Estimate:
    """ZeRO-3: the largest layer whole, in 2 bytes of parameters and 2 of gradients, and 18 bytes over all GPUs.

    `init`: the model is built sharded (zero.Init); without it every process holds it whole on the host for a moment.
    """
    gpus, layer = gpus_per_node * nodes, 4 * largest_layer
    if offload_optimizer:
        states = 18 if offload_parameters else 16
        share = states * parameters / nodes if init else parameters * max(4 * gpus_per_node, states / nodes)
        return Estimate(gpu=layer + (0 if offload_parameters else 2 * parameters // gpus), cpu=int(share * BUFFER))
    host = layer * gpus_per_node if init else 4 * parameters * gpus_per_node
    return Estimate(gpu=layer + 18 * parameters // gpus, cpu=int(host * BUFFER))


# --- Megatron-LM's report of theoretical memory


def megatron_bytes_a_parameter(*, data: int, distributed_optimizer: bool) -> float:
    """18: bf16 parameters, fp32 gradients, Adam's 12; the distributed optimizer divides the 12 by the data axis."""
    return 6 + 12 / data if distributed_optimizer else 18.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Megatron:
    """Bytes on the most loaded GPU."""

    states: float
    activations: float


def megatron(plan: Configuration) -> Megatron:
    """As its report has it: the first stage with the embedding, layers shared out evenly; matrices and norms without
    biases or a table of positions; activations with attention recomputed. Full recomputation is not in it.
    """
    shape, t, p = plan.model, plan.tp, plan.pp
    h, norm = shape.hidden, 1 if shape.rms else 2
    wide = shape.head_size * shape.heads / h
    attention = 2 * h * h * (1 + shape.key_value_heads / shape.heads) * wide
    network = 2 * h * shape.features * (1.5 if shape.gated else 1)
    table = plan.vocabulary * h
    count = (shape.layers / p * (attention + network) + table) / t + (shape.layers * 2 + 1) * h * norm / p
    count += table / t if not shape.tied and p == 1 else 0
    each = megatron_bytes_a_parameter(data=plan.shards, distributed_optimizer=plan.zero >= 1)

    tokens = plan.length * plan.micro_batch
    early = 8 * tokens * p + tokens * h * p
    kept = 1 + (p - 1) / (p * plan.interleave) if plan.interleave > 1 else min(1.0, plan.micro_batches / p)
    if plan.sequence_parallel and plan.recompute == "selective":
        held = (tokens * h * (18 + 4 * shape.features / h) * shape.layers + early) * kept
        held += 4 * tokens * h * (1 + plan.vocabulary / h) if p == 1 else 0
        return Megatron(states=count * each, activations=held / t)
    held = (tokens * h * (10 + 24 / t) * shape.layers + early) * kept
    held += 2 * (tokens * plan.vocabulary / t + tokens * h) if p == 1 else 0
    return Megatron(states=count * each, activations=held * 1.05)


# --- Accelerate's estimate-memory


def accelerate(*, weights: int, precision: str) -> int:
    """Bytes to train with Adam: four times the weights in fp32; in mixed precision its largest part only, which is
    eight bytes a parameter, not the sum of what is held.
    """
    return 4 * weights if precision == "fp32" else 2 * 2 * weights


# --- EleutherAI's calculator


@dataclass(frozen=True, slots=True, kw_only=True)
class Eleuther:
    """Bytes on one GPU."""

    activations: float
    model: float
    gradients: float
    optimizer: float
    communication: float

    @property
    def total(self) -> float:
        return self.activations + self.model + self.gradients + self.optimizer + self.communication


def eleuther_parameters(*, layers: int, hidden: int, sequence: int, vocabulary: int, features: float = 4.0) -> float:
    """Embedding and head apart, learned positions, a two-layer network of two matrices."""
    return (
        2 * vocabulary * hidden
        + hidden * sequence
        + 8 * hidden * layers
        + 2 * hidden
        + (4 + 2 * features) * layers * hidden**2
    )


def eleuther(
    *,
    parameters: float,
    layers: int,
    hidden: int,
    heads: int,
    sequence: int,
    batch: int,
    gpus: int,
    tensor: int = 1,
    pipeline: int = 1,
    stage: int = 1,
    recompute: bool = True,
) -> Eleuther:
    """As its script counts: gradients in 4 bytes, not divided by the model-parallel degrees; `recompute` takes what is
    selective recomputation's 34 s b h.
    """
    attention = 0.0 if recompute else 5 * heads * sequence / hidden
    return Eleuther(
        activations=sequence * batch * hidden * layers * (34 + attention) / tensor,
        model=2 * parameters / (tensor * pipeline) / (gpus if stage >= 3 else 1),
        gradients=4 * parameters / (gpus if stage >= 2 else 1),
        optimizer=12 * parameters / (gpus if stage >= 1 else 1),
        communication=(2 * 5e8 if stage >= 1 and gpus > 1 else 0.0) + (2 * 1e9 if stage >= 3 else 0.0),
    )


# --- side by side


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One estimator's bytes on a GPU beside ours for what it counts, and the ids of what makes the difference."""

    name: str
    bytes: int
    ours: int
    counts: str
    differs: tuple[str, ...]


def compare(plan: Configuration, *, gpus_per_node: int) -> tuple[Compared, ...]:
    """What each estimator says of a configuration, as far as it can be asked; ours is the same parts of the fullest
    rank.
    """
    held = memory(plan).bars
    shape, gpus = plan.model, plan.gpus
    states = held.states
    always = ["fp32-gradients"] if plan.stack.gradient < 4 else []
    always.append("gib")
    found = []

    def add(name: str, number: float, ours: float, counts: str, *differs: str) -> None:
        found.append(Compared(name=name, bytes=round(number), ours=round(ours), counts=counts, differs=differs))

    if plan.tp == plan.pp == 1:
        node = gpus_per_node if gpus % gpus_per_node == 0 else gpus
        nodes = gpus // node
        if plan.zero == 2:
            told = deepspeed_zero_2(parameters=shape.parameters, gpus_per_node=node, nodes=nodes)
            add("deepspeed", told.gpu, states, "states", *always)
        if plan.zero == 3:
            told = deepspeed_zero_3(
                parameters=shape.parameters, largest_layer=shape.layer, gpus_per_node=node, nodes=nodes
            )
            add("deepspeed", told.gpu, states + held.gathered, "states-and-gathered", *always)
        if plan.zero == 0:
            precision = "fp32" if plan.stack.parameter == 4 else "bf16"
            told_bytes = accelerate(weights=shape.parameters * plan.stack.parameter, precision=precision)
            add("accelerate", told_bytes, states, "states", *(() if precision == "fp32" else ("largest-only",)), "gib")
    if plan.zero <= 1 and shape.experts is None and shape.latent is None:
        told_whole = megatron(plan)
        left_out = ["no-biases"] if shape.biases or shape.positions else []
        left_out += ["features"] if shape.features != 4 * shape.hidden else []
        left_out += ["even-layers"] if plan.pp > 1 and len(set(plan.layers)) > 1 else []
        left_out += {
            "none": ["no-attention-weights"],
            "selective": [] if plan.sequence_parallel else ["five-percent"],
            "full": ["full-not-there"],
        }[plan.recompute]
        ours = states + held.activations + held.logits
        add("megatron", told_whole.states + told_whole.activations, ours, "states-and-activations", *left_out, *always)
    told_all = eleuther(
        parameters=shape.parameters,
        layers=shape.layers,
        hidden=shape.hidden,
        heads=shape.heads,
        sequence=plan.length,
        batch=plan.micro_batch,
        gpus=gpus,
        tensor=plan.tp,
        pipeline=plan.pp,
        stage=plan.zero,
        recompute=plan.recompute != "none",
    )
    differs = ["undivided-gradients"] if plan.tp * plan.pp > 1 else []
    differs += ["selective-as-full"] if plan.recompute == "full" else []
    differs += ["all-layers"] if plan.pp > 1 else []
    add(
        "eleuther",
        told_all.total,
        held.total - held.slack,
        "all",
        *differs,
        *(["bucket"] if plan.zero and gpus > 1 else []),
        *always,
    )
    return tuple(found)
