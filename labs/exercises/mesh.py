"""A training step on a mesh of 2 data x 2 tensor ranks with a fault in it, and its twin on one process.

    ranks    0 = data 0, tensor 0    1 = data 0, tensor 1    2 = data 1, tensor 0    3 = data 1, tensor 1

The model is the course's GPT with one block, split over the tensor axis with sequence parallelism, so that what every
tensor rank has whole (norms, some biases, positions) gets one summand of its gradient on each of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from labs.data import global_batch, micro_batches
from labs.exercises.trial import generator
from labs.model import GPT, Shape
from labs.strategies.layout import Layout
from labs.strategies.tensor import part, shard_of
from labs.strategies.tensor_parallel import parallelize

LAYOUT = Layout(dp=2, tp=2)
SHAPE = Shape(layers=1, hidden=8, heads=2, sequence=4)
BATCH = 4
RATE = 0.5
PHASES = ("start", "tensor", "data", "step")
RULES = ("skipped", "added", "swapped")


@dataclass(frozen=True, slots=True)
class Fault:
    """The first phase in which a parameter is wrong, on which ranks, and which rule is broken.

    phase   "start": parameters, before the first step. "tensor": gradients, after those that are one summand were
            summed over the tensor axis. "data": gradients, after their mean over the data axis. "step": parameters,
            after the update
    rule    "skipped": the phase changed nothing. "added": the value is there twice. "swapped": the rank holds the part
            of the other tensor rank
    """

    phase: str
    parameter: str
    ranks: list[int]
    rule: str


class Mesh:
    """One training step, phase by phase, as this rank went through it, and as it should have."""

    phases = PHASES

    def __init__(
        self, seed: int, fault: Fault | None, *, devices: DeviceMesh, dtype: torch.dtype = torch.float64
    ) -> None:
        data, tensor = devices.get_group("data"), devices.get_group("tensor")
        self.rank = dist.get_rank()
        self.fault = fault
        batch = global_batch(0, size=BATCH, sequence=SHAPE.sequence, seed=seed)
        own = micro_batches(batch, rank=dist.get_rank(data), ranks=2)[0]
        model = parallelize(GPT(SHAPE, seed=seed, dtype=dtype), group=tensor, sequence=True)
        parameters = dict(model.named_parameters())
        self.names = list(parameters)
        self.shards = {name: shard_of(p) for name, p in parameters.items()}
        self._twin(seed, dtype, own, batch)
        self._mine: dict[tuple[str, str], Tensor] = {}

        for name, p in parameters.items():
            if self._here("start", name):
                p.data.copy_(self.neighbour("start", name))
            self._mine["start", name] = p.detach().clone()
        model(*own).backward()
        for name, p in parameters.items():
            assert p.grad is not None
            self._mine["backward", name] = p.grad.clone()
            if self.shards[name].partial:
                for _ in range(self._times("tensor", name)):
                    dist.all_reduce(p.grad, group=tensor)
                if self._added("tensor", name):
                    p.grad.mul_(2)
            self._mine["tensor", name] = p.grad.clone()
        for name, p in parameters.items():
            assert p.grad is not None
            dist.all_reduce(p.grad, op=dist.ReduceOp.AVG, group=data)
            if self._here("data", name):
                p.grad.copy_(p.grad * 2 if self._added("data", name) else self._mine["tensor", name])
            self._mine["data", name] = p.grad.clone()
        for name, p in parameters.items():
            assert p.grad is not None
            if not self._here("step", name):
                p.data.sub_(RATE * p.grad)
            self._mine["step", name] = p.detach().clone()

    # --- what the learner's function calls

    def mine(self, phase: str, name: str) -> Tensor:
        """What this rank holds of a parameter, or of its gradient, at the end of a phase."""
        return self._mine[phase, name]

    def before(self, phase: str, name: str) -> Tensor:
        """The same before the phase did anything; zeros at the start."""
        earlier = {"tensor": "backward", "data": "tensor", "step": "start"}
        return self._mine[earlier[phase], name] if phase in earlier else torch.zeros_like(self._mine[phase, name])

    def right(self, phase: str, name: str) -> Tensor:
        """What this rank should hold: its part of what one process has."""
        return self._part(phase, name, self.rank % 2)

    def neighbour(self, phase: str, name: str) -> Tensor:
        """What the other tensor rank should hold."""
        return self._part(phase, name, 1 - self.rank % 2)

    def gather(self, finding: bool) -> list[bool]:
        """What each rank found, by rank. A collective: all ranks must call it equally often."""
        everyone = torch.empty(LAYOUT.ranks(), dtype=torch.uint8)
        dist.all_gather_single(everyone, torch.tensor([int(bool(finding))], dtype=torch.uint8))
        return [bool(each) for each in everyone]

    # --- how it was made

    def _twin(self, seed: int, dtype: torch.dtype, own: tuple[Tensor, Tensor], batch: tuple[Tensor, Tensor]) -> None:
        """One process: the gradients of this data rank's examples, and those of the whole batch."""
        twin = GPT(SHAPE, seed=seed, dtype=dtype)
        parameters = dict(twin.named_parameters())
        self.whole = {("start", name): p.detach().clone() for name, p in parameters.items()}
        for phase, examples in (("tensor", own), ("data", batch)):
            gradients = torch.autograd.grad(twin(*examples), list(parameters.values()))
            self.whole |= {(phase, name): g for name, g in zip(parameters, gradients, strict=True)}
        for name in parameters:
            self.whole["step", name] = self.whole["start", name] - RATE * self.whole["data", name]

    def _part(self, phase: str, name: str, rank: int) -> Tensor:
        return part(self.whole[phase, name], self.shards[name], rank=rank, ranks=2)

    def _here(self, phase: str, name: str) -> bool:
        """Whether the fault is in this phase, with this parameter, on this rank."""
        fault = self.fault
        return fault is not None and (fault.phase, fault.parameter) == (phase, name) and self.rank in fault.ranks

    def _added(self, phase: str, name: str) -> bool:
        return self._here(phase, name) and self.fault is not None and self.fault.rule == "added"

    def _times(self, phase: str, name: str) -> int:
        return 0 if self._here(phase, name) and not self._added(phase, name) else 1


def planted(seed: int, phase: str, rule: str, *, all_ranks: bool) -> Fault:
    """A fault of this kind, in a parameter that can have it, on all ranks or on some.

    What is wrong differs from what is right by a hundredth of the largest value or more; float32 rounds a thousand
    times finer.
    """
    chance = generator(seed, 7, PHASES.index(phase), RULES.index(rule))

    def one_of(choices: list[str]) -> str:
        return choices[int(torch.randint(len(choices), (), generator=chance))]

    rank = int(torch.randint(4, (), generator=chance))
    norms = ["blocks.0.attention_norm.weight", "blocks.0.mlp_norm.weight", "blocks.0.down.bias", "head.norm.bias"]
    split = ["blocks.0.attention.qkv.weight", "blocks.0.up.weight", "blocks.0.down.weight", "head.linear.weight"]
    parameter = one_of(norms if phase == "tensor" else split if phase in ("start", "step") else norms + split)
    group = LAYOUT.group(rank, "tensor") if phase == "tensor" else [rank]
    return Fault(phase, parameter, list(range(4)) if all_ranks else group, rule)
