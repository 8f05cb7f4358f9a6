"""What offloading moves, and how fast it must move it (Ren et al. 2021; Rajbhandari et al. 2021, ZeRO-Infinity).

On the device stay the 16-bit parameters and, where they are not sent away as they are made, the gradients. The twelve
bytes of Adam's states rest elsewhere, and the host that updates them asks for 2 bytes of gradient and gives back 2
bytes of parameter: 4 bytes a parameter a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labs.planner.configuration import Configuration
from labs.planner.hardware import Accelerator
from labs.planner.memory import parameters_by_stage
from labs.planner.throughput import LAYER, compute_seconds
from labs.planner.zero import PRECISIONS, STEP_COUNTER, ModelStates, Piece, checked, predict

RESTING = {"bf16": 12, "fp32": 12, "fp64": 24}
"""Bytes of master weight, momentum and variance: three numbers in fp32, or in fp64 where the model is fp64."""


def states_on_device(
    *, parameters: int, stage: int = 0, ranks: int = 1, precision: str = "bf16", gradients: bool = True
) -> ModelStates:
    """Bytes that stay on each of `ranks` devices with Adam's states offloaded: 4 a parameter in bf16, or 2 where the
    gradients go to the host as backward makes them (Ren et al. 2021, table 1; its last row prints 4 where 2 is meant).
    """
    checked(stage=stage, ranks=ranks)
    cost, shard = PRECISIONS[precision], -(-parameters // ranks)
    return ModelStates(
        parameters=cost.parameter * (shard if stage >= 3 else parameters),
        gradients=cost.gradient * (shard if stage >= 2 else parameters) * gradients,
        optimizer_states=0,
    )


def states_offloaded(*, parameters: int, stage: int = 0, ranks: int = 1, precision: str = "bf16") -> int:
    """Bytes of Adam's states that each rank keeps elsewhere."""
    checked(stage=stage, ranks=ranks)
    return RESTING[precision] * (-(-parameters // ranks) if stage >= 1 else parameters)


def traffic_to_host(*, parameters: int, stage: int = 0, ranks: int = 1, precision: str = "bf16") -> int:
    """Bytes between one device and its host in a step: gradients out, parameters in. 4 a parameter in bf16, the least
    that any split between the two allows (Ren et al. 2021, section 4.2).
    """
    checked(stage=stage, ranks=ranks)
    cost = PRECISIONS[precision]
    return (cost.parameter + cost.gradient) * (-(-parameters // ranks) if stage >= 1 else parameters)


def traffic_to_file(*, parameters: int, stage: int = 0, ranks: int = 1, precision: str = "bf16") -> int:
    """Bytes between host and file in a step: every state is read and written once."""
    return 2 * states_offloaded(parameters=parameters, stage=stage, ranks=ranks, precision=precision)


def transfer_seconds(*, size: float, bandwidth: float) -> float:
    """Seconds that `size` bytes take at `bandwidth` bytes a second."""
    if bandwidth <= 0:
        raise ValueError("a bandwidth is above zero")
    return size / bandwidth


# --- how much bandwidth each kind of state needs (ZeRO-Infinity, section 4): arithmetic intensity is FLOP for each byte

OPERATIONS = {"none": 6, "full": 8}
"""Operations of a step for each parameter and token, by what is recomputed."""


def intensity_of_parameters(*, batch: int, sequence: int) -> float:
    """Parameters are loaded for forward and backward and gradients stored: seq x bsz (equation 9). `batch` is the
    examples of one device.
    """
    return float(sequence * batch)


def intensity_of_optimizer_states(*, batch: int, sequence: int) -> float:
    """16 bytes a parameter, read and written once a step: seq x bsz / 4 (equation 10)."""
    return sequence * batch / 4


def intensity_of_activations(*, hidden: int, interval: int = 1) -> float:
    """A checkpoint every `interval` layers, written in forward and read in backward: 24 x hd x ci (equation 11)."""
    return 24.0 * hidden * interval


def intensity_of_offload(*, batch: int, sequence: int, recompute: str = "none") -> float:
    """ZeRO-Offload: 6 operations a parameter and token, 8 where every layer runs twice, for 4 bytes a parameter and
    step. `batch` is all the examples of one device's step.
    """
    return OPERATIONS[recompute] * sequence * batch / 4


def efficiency(*, intensity: float, bandwidth: float, peak_flops: float) -> float:
    """The share of the time in which a device computes, where nothing overlaps (equation 6)."""
    if min(intensity, bandwidth, peak_flops) <= 0:
        raise ValueError("intensity, bandwidth and peak rate are above zero")
    return intensity * bandwidth / (intensity * bandwidth + peak_flops)


def bandwidth_needed(*, intensity: float, peak_flops: float, share: float) -> float:
    """Bytes a second with which `efficiency` is `share`: the same equation the other way round."""
    if not 0 < share < 1:
        raise ValueError("a share lies between 0 and 1")
    return peak_flops * share / ((1 - share) * intensity)


# --- a whole step of a model whose states rest on the host

TOUCHED = 28
"""Bytes of a parameter that pass through the host's memory in an update: a gradient of 2 is read, states of 12 are read
and written, a parameter of 2 is written."""
HOST = TOUCHED * 10e9 / 2.57
"""Bytes a second that the published CPU-Adam drew from the host's memory: 10 billion parameters in 2.57 s on a machine
with two large processors (Ren et al. 2021, table 4)."""
DRIVE = 7e9
"""Bytes a second of a fast drive: data sheets of the years from 2022 on give 6.9 GB/s for writing and 7.45 GB/s for
reading in one stretch (Samsung 990 PRO)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Seconds of one step, part by part: computing on the device, copying to the host and back, updating there. Where
    the states rest in a file, `file` is its reading and writing, which goes on beside the update.
    """

    forward: float
    backward: float
    out: float
    update: float
    back: float
    file: float = 0.0

    @property
    def host(self) -> float:
        """From the last gradient to the last parameter, where blocks are copied back while others are updated."""
        return max(self.update, self.back, self.file)

    @property
    def in_turn(self) -> float:
        """One after another."""
        return self.forward + self.backward + self.out + max(self.update, self.file) + self.back

    @property
    def overlapped(self) -> float:
        """Gradients leave during backward, parameters return during the update (Ren et al. 2021, section 4.1)."""
        return self.forward + max(self.backward, self.out) + self.host

    @property
    def delayed(self) -> float:
        """The update runs beside the computation of the next step; its parameters return when this is over, so that
        forward and backward see the same ones (section 5.2).
        """
        return max(self.forward + max(self.backward, self.out), self.update, self.file) + self.back


def adam_seconds(*, parameters: float, bandwidth: float = HOST) -> float:
    """Adam's update on the host, which waits for its memory: TOUCHED bytes a parameter."""
    return transfer_seconds(size=TOUCHED * parameters, bandwidth=bandwidth)


def tokens_to_hide(*, touched: float, flops: float, bandwidth: float, recompute: str = "full") -> float:
    """Tokens of a step from which on computing takes at least as long as passing `touched` bytes of each parameter; the
    number of parameters falls out of it.
    """
    return flops / OPERATIONS[recompute] * transfer_seconds(size=touched, bandwidth=bandwidth)


def step_of(
    plan: Configuration,
    *,
    gpu: Accelerator,
    bandwidth: float = HOST,
    drive: float | None = None,
    efficiency: float = LAYER,
) -> Step:
    """A step of one rank without pipeline. `bandwidth` is what it gets of its host's memory; `drive`, where the states
    rest in a file, how much a second this reads or writes. Gradients that do not stay leave in every micro-batch.
    """
    plan.checked()
    if plan.offload == "none" or plan.pp > 1 or not gpu.host:
        raise ValueError(
            "a plan with offload and without pipeline stages, on an accelerator whose link to its host is known"
        )
    mine = of_rank(plan)
    computing = compute_seconds(plan, gpu=gpu, efficiency=efficiency)
    forward = computing / (4 if plan.recompute == "full" else 3)
    sent = plan.micro_batches if plan.offload == "gradients" else 1
    return Step(
        forward=forward,
        backward=computing - forward,
        out=sent * plan.stack.gradient * mine / gpu.host,
        update=adam_seconds(parameters=mine, bandwidth=bandwidth),
        back=plan.stack.parameter * mine / gpu.host,
        file=0.0 if drive is None else 2 * plan.stack.optimizer_states * mine / drive,
    )


def on_host(plan: Configuration) -> int:
    """Bytes that one rank keeps in its host's memory."""
    states, gradients = plan.offload != "none", plan.offload == "gradients"
    return (plan.stack.optimizer_states * states + plan.stack.gradient * gradients) * of_rank(plan)


def of_rank(plan: Configuration) -> int:
    """Parameters that one rank updates."""
    whole = max(split + replicated for split, replicated in parameters_by_stage(plan))
    return -(-whole // plan.shards) if plan.zero else whole


# --- the lab's own bytes, to the byte


@dataclass(frozen=True, slots=True, kw_only=True)
class Offloading:
    """Bytes of one rank: what stays on the device, what rests elsewhere, what crosses between them in a step, the two
    buffers through which it crosses, and a block of gradients in the states' precision.
    """

    states: ModelStates
    offloaded: int
    moved: int
    buffers: int
    block: int


def predict_offload(
    pieces: Sequence[Piece], *, stage: int, ranks: int, precision: str = "fp32", block: int
) -> Offloading:
    """`labs/strategies/offload.py` over a stage of ZeRO. Of the optimizer states only Adam's step counters stay."""
    on_device = predict(pieces, stage=stage, ranks=ranks, precision=precision).states
    cost = PRECISIONS[precision]
    padded = [-(-piece.trained // ranks) * ranks for piece in pieces if piece.trained]
    elements = [size // ranks if stage >= 1 else size for size in padded]
    return Offloading(
        states=ModelStates(
            parameters=on_device.parameters,
            gradients=on_device.gradients,
            optimizer_states=STEP_COUNTER * len(elements),
        ),
        offloaded=RESTING[precision] * sum(elements),
        moved=(cost.parameter + cost.gradient) * sum(elements),
        buffers=2 * cost.parameter * min(block, max(elements, default=0)),
        block=RESTING[precision] // 3 * min(block, max(elements, default=0)),
    )
