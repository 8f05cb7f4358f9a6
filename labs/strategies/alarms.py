"""Alarms over what each rank measures of its own step, before it meets the others.

Data parallelism takes a mean in every step, and after it all ranks look alike: whichever was slow, all have waited;
whichever had a bad gradient, all have applied it. So every rank's own numbers are gathered, a few bytes, and each is
held against those of the other ranks, or against those of the steps before.

    seconds   of this rank's own work, until it waits for the others
    norm      of this rank's own gradient, before the mean is taken
    checksum  of this rank's replica after the update: the same bits on every rank
    loss      of this rank's own examples
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor
from torch.profiler import record_function

from labs.strategies.data_parallel import DataParallel
from labs.strategies.units import MicroBatch, Unit, clip

Kind = Literal["straggler", "bad-gradient", "loss-spike"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """What is wrong, on which rank (None: on no one rank), in which step, and the numbers that say so."""

    kind: Kind
    rank: int | None
    step: int
    evidence: dict[str, Any]


# --- each alarm: from numbers to a verdict


def straggler(seconds: Tensor, *, factor: float = 2.0, least: float = 0.1, patience: int = 3) -> int | None:
    """The rank whose own work took `factor` times the median rank's, and `least` seconds more, in each of the last
    `patience` steps; `seconds` is (steps, N). One slow step is chance.
    """
    recent = seconds[-patience:]
    typical = recent.median(dim=1, keepdim=True).values
    slow = (recent > factor * typical) & (recent > typical + least)
    slow = slow.all(dim=0) & (len(recent) == patience)
    return int(slow.int().argmax()) if slow.any() else None


def bad_gradient(norms: Tensor, *, factor: float = 10.0) -> int | None:
    """The rank whose gradient is `factor` times as long, or as short, as the median rank's, or not finite; `norms` is
    (N,). Ranks see different examples of one text: their norms differ, but not by so much.
    """
    typical = norms.nanmedian()
    off = torch.maximum(norms / typical, typical / norms).nan_to_num(nan=torch.inf)
    return int(off.argmax()) if off.max() > factor else None


def parted_replica(checksums: Tensor) -> int | None:
    """The rank whose replica is not that of the most; `checksums` is (N,). It takes three to tell who is wrong."""
    usual, count = Counter(checksums.tolist()).most_common(1)[0]
    return None if count == len(checksums) else int((checksums != usual).int().argmax())


def loss_spike(losses: Tensor, *, threshold: float = 4.0, history: int = 6) -> float | None:
    """The robust z-score of the last loss's rise over the one before, where it is above `threshold`.

    The rises before it say what is ordinary, at least `history` losses of them: by their median and median deviation
    (MAD), which an earlier spike does not move, and not less than 2 % of the loss. A trend counts for nothing.
    """
    if len(losses) <= history:
        return None
    *before, last = losses.double().diff()
    known = torch.stack(before)
    middle = known.median()
    deviation = 1.4826 * (known - middle).abs().median()  # of a normal distribution
    z = float((last - middle) / (deviation + 0.02 * losses[:-1].median()))
    return z if not z <= threshold else None  # NaN is a spike, too


def checksum(units: Sequence[Unit]) -> int:
    """The sum of all bits of the parameters, as whole numbers: any one wrong bit changes it."""
    integer = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    return sum(int(unit.whole.view(integer[unit.whole.itemsize]).sum()) for unit in units) % 2**62


# --- a rank's own numbers, and all ranks'


class Monitored(DataParallel):
    """Data parallelism that notes, before the mean over ranks, what this rank has done by itself."""

    def train_step(self, micro_batches: Sequence[MicroBatch]) -> Tensor:
        """As DataParallel does it. `seconds` and `norm` are then this rank's own of this step."""
        started = time.perf_counter()
        losses = []
        for tokens, targets in micro_batches:
            with record_function("forward"):
                loss = self.model(tokens, targets) / len(micro_batches)
            with record_function("backward"):
                loss.backward()
            losses.append(loss.detach())
        self.before_the_mean()
        self.norm = float(torch.stack([unit.gradients.double().norm() for unit in self.trained]).norm())
        self.seconds = time.perf_counter() - started

        with record_function("optimizer"):
            for unit in self.trained:
                unit.all_reduce()
            clip([unit.gradients for unit in self.trained], self.clip, group=None)
            for unit in self.trained:
                unit.update(unit.gradients)
        return torch.stack(losses).sum()

    def before_the_mean(self) -> None:
        """Where the incident lab lets a rank be slow, or its gradient go wrong."""


class Monitor:
    """Gathers every rank's numbers at the end of a step; all ranks come to the same verdict."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        self.group = group
        self.seconds: list[Tensor] = []
        self.losses: list[float] = []

    def look(self, strategy: Monitored, loss: Tensor, *, step: int) -> Alarm | None:
        """All ranks call it after `train_step`, whose result is `loss`. The first step warms up: its seconds count for
        nothing.
        """
        own = torch.tensor([strategy.seconds, strategy.norm, float(loss)], dtype=torch.float64)
        words = torch.cat([own.view(torch.int64), torch.tensor([checksum(strategy.units)])])
        every = [torch.empty_like(words) for _ in range(dist.get_world_size(self.group))]
        with record_function("report"):
            dist.all_gather(every, words, group=self.group)
        seconds, norms, losses = torch.stack(every)[:, :3].contiguous().view(torch.float64).unbind(1)
        checksums = torch.stack(every)[:, 3]
        self.losses.append(float(losses.mean()))
        if step:
            self.seconds.append(seconds)

        if (rank := bad_gradient(norms)) is not None:
            return Alarm(kind="bad-gradient", rank=rank, step=step, evidence={"norms": norms.tolist()})
        if (rank := parted_replica(checksums)) is not None:
            return Alarm(kind="bad-gradient", rank=rank, step=step, evidence={"checksums": checksums.tolist()})
        if (z := loss_spike(torch.tensor(self.losses))) is not None:
            return Alarm(kind="loss-spike", rank=None, step=step, evidence={"losses": [*self.losses], "z": z})
        if self.seconds and (rank := straggler(torch.stack(self.seconds))) is not None:
            evidence = {"seconds": torch.stack(self.seconds[-3:]).tolist()}
            return Alarm(kind="straggler", rank=rank, step=step, evidence=evidence)
        return None

    def forget(self, *, steps: int) -> None:
        """After a rollback: what came after so many steps is as if it had not been."""
        del self.losses[steps:], self.seconds[max(0, steps - 1) :]
