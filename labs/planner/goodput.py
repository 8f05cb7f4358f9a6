"""What a checkpoint weighs, how often to save, and what failures cost (Young 1974; Daly 2006).

A save costs `cost` seconds of training, failures come `mtbf` seconds apart on average (mean time between failures) and
independently of each other, and a failure costs what was done since the last save and the `restart`. `account` says it
of a whole cluster, whose broken machines are repaired; `labs/planner/failures.py` draws the failures instead.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Self

from labs.planner.configuration import within
from labs.planner.zero import PRECISIONS, STEP_COUNTER
from translations import CourseError

FAR = 700.0
"""Where e to that power is near the largest number, and its inverse nothing."""
RANDOM_STATE = 5056
"""Bytes of torch's generator of random numbers on the CPU."""


def checkpoint_bytes(*, parameters: int, precision: str = "bf16", tensors: int = 0, generators: int = 0) -> int:
    """Bytes of all that a run must keep: parameters and Adam's states, once, on however many ranks: 14 P in bf16 with
    fp32 master weights. Gradients are made anew. To the byte with Adam's step counter for each of `tensors` parameters
    and the random numbers of each of `generators` ranks.
    """
    cost = PRECISIONS[precision]
    return (cost.parameter + cost.optimizer_states) * parameters + STEP_COUNTER * tensors + RANDOM_STATE * generators


def lost_steps(*, done: int, interval: int) -> int:
    """Steps that are done again where a run fails after `done` of them and saves after every `interval`."""
    return done % interval


def cluster_mtbf(*, device_mtbf: float, devices: int) -> float:
    """Any of the devices ends the run, so failures come as many times as often."""
    return positive(device_mtbf, "device_mtbf") / positive(devices, "devices")


def young(*, cost: float, mtbf: float) -> float:
    """Seconds of training from one save to the next, with which saves and lost work together cost least:
    sqrt(2 cost mtbf) (Young 1974).
    """
    return math.sqrt(2 * positive(cost, "cost") * positive(mtbf, "mtbf"))


def daly(*, cost: float, mtbf: float) -> float:
    """The same to a higher order, for saves that are not short beside the mtbf (Daly 2006, equation 37)."""
    if positive(cost, "cost") >= 2 * positive(mtbf, "mtbf"):
        return mtbf
    share = math.sqrt(cost / (2 * mtbf))
    return young(cost=cost, mtbf=mtbf) * (1 + share / 3 + share**2 / 9) - cost


def lost_share(*, interval: float, cost: float, mtbf: float, restart: float = 0.0) -> float:
    """The share of the time that is no progress, to first order: each interval pays one save, and each failure half an
    interval and a restart: cost / interval + (interval / 2 + restart) / mtbf.
    """
    positive(interval, "interval")
    return positive(cost, "cost") / interval + (interval / 2 + restart) / positive(mtbf, "mtbf")


def goodput(*, interval: float, cost: float, mtbf: float, restart: float = 0.0) -> float:
    """The share of the time that is progress, with failures at any moment, in saves and restarts too (the complete
    model of Daly 2006): interval / (mtbf e^(restart / mtbf) (e^((interval + cost) / mtbf) - 1)).
    """
    length = (positive(interval, "interval") + positive(cost, "cost")) / positive(mtbf, "mtbf")
    if length + restart / mtbf > FAR:
        return 0.0
    return interval / (mtbf * math.exp(restart / mtbf) * math.expm1(length))


# --- a cluster

DEVICE_MTBF = 54 * 86400 * 16384 / 419
"""Seconds between two failures of one accelerator: 419 unexpected interruptions in 54 days on 16,384 (Llama Team 2024,
section 3.3.4), which is once in 5.8 years.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A run on `devices`, whose failures are independent; times in seconds. A failure takes out the `node` that it is
    on, for `repair`; `detection` and `restart` follow it.

    Without `spares` a replacement is always at hand. With them a run waits where more nodes are broken than there are
    spares; an `elastic` one goes on with those of its replicas, of `replica` devices each, that are whole.
    """

    devices: int
    device_mtbf: float
    cost: float
    detection: float = 0.0
    restart: float = 0.0
    repair: float = 86400.0
    node: int = 8
    spares: int | None = None
    elastic: bool = False
    replica: int = 8

    @property
    def mtbf(self) -> float:
        """Seconds between two failures anywhere."""
        return cluster_mtbf(device_mtbf=self.device_mtbf, devices=self.devices)

    @property
    def recovery(self) -> float:
        """Seconds from a failure to the next step."""
        return self.detection + self.restart

    @property
    def limited(self) -> int | None:
        """Spares; an elastic run that names none has none; None where nobody ever waits."""
        return 0 if self.elastic and self.spares is None else self.spares

    @property
    def best_interval(self) -> float:
        """Seconds of training between saves with the best goodput (Daly)."""
        return daly(cost=self.cost, mtbf=self.mtbf)

    def checked(self) -> Self:
        """Itself, or CourseError with the reason."""
        for name, value in (("gpus", self.devices), ("node", self.node), ("replica", self.replica)):
            within(name, value)
        if self.spares is not None and self.spares < 0:
            raise CourseError("labs.option-at-least", name="spares", least=0, value=self.spares)
        for name in ("device_mtbf", "cost", "repair"):
            positive(getattr(self, name), name)
        if self.elastic and self.devices % self.replica:
            raise CourseError("labs.goodput-replica", gpus=self.devices, replica=self.replica)
        return self

    def capacity(self, broken: int) -> float:
        """The share of the devices that train while so many nodes are broken; 0 where a run waits."""
        missing = max(0, broken - self.limited) if self.limited is not None else 0
        if not self.elastic:
            return 0.0 if missing else 1.0
        return max(0, self.devices - missing * self.node) // self.replica * self.replica / self.devices


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Where the time goes, in shares that add up to 1. `progress` is the goodput; `missing` is progress that an elastic
    run does not make for want of replicas.
    """

    progress: float
    saving: float
    lost: float
    restarting: float
    waiting: float
    missing: float

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


def account(cluster: Cluster, *, interval: float) -> Account:
    """The closed form: Daly's complete model in the time in which the run does not wait, and the repairs as a queue.

    Broken nodes of an elastic run, which fails at the same rate whatever is broken, are Poisson around repair / mtbf;
    those of one that waits are Erlang's loss system with a server more than there are spares. Both hold for any
    distribution of repair times with that mean.
    """
    cluster.checked()
    mtbf, recovery = cluster.mtbf, cluster.recovery
    done = goodput(interval=interval, cost=cluster.cost, mtbf=mtbf, restart=recovery)
    saving, restarting = done * cluster.cost / interval, -math.expm1(-recovery / mtbf)
    broken = cluster.repair / mtbf
    running, capacity = 1.0, 1.0
    if cluster.elastic:
        capacity = sum(share * cluster.capacity(count) for count, share in poisson(broken))
    elif cluster.limited is not None:
        running = 1 - erlang_b(broken, servers=cluster.limited + 1)
    return Account(
        progress=running * capacity * done,
        saving=running * saving,
        lost=running * (1 - done - saving - restarting),
        restarting=running * restarting,
        waiting=1 - running,
        missing=running * (1 - capacity) * done,
    )


def erlang_b(load: float, *, servers: int) -> float:
    """The share of the time in which all servers are busy, where whoever finds none free stays away (Erlang 1917)."""
    blocked = 1.0
    for count in range(1, servers + 1):
        blocked = load * blocked / (count + load * blocked)
        if not blocked:
            break
    return blocked


def poisson(mean: float) -> list[tuple[int, float]]:
    """The counts that a Poisson distribution gives more than a trace of, each with its share."""
    wide = 10 * math.sqrt(mean) + 20
    counts = range(max(0, int(mean - wide)), int(mean + wide) + 1)
    return [(count, math.exp(count * math.log(mean) - mean - math.lgamma(count + 1))) for count in counts]


def positive(value: float, name: str) -> float:
    if not value > 0:
        raise ValueError(f"{name} is above zero, not {value}")
    return value
