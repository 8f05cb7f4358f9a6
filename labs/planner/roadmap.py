"""The road map of a run: targets as numbers, a plan, and which targets the plan misses.

Everything that a target can be held against is computed by the planner; what no planner knows, prices, people, how soon
somebody notices, are assumptions that stand in the map, so that they can be doubted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from labs.planner.configuration import Configuration
from labs.planner.goodput import Account, Cluster, account, checkpoint_bytes
from labs.planner.hardware import Accelerator
from labs.planner.inference import Serving
from labs.planner.inference import step as serving_step
from labs.planner.memory import memory
from labs.planner.queueing import quantile_seconds
from labs.planner.realistic import longest_bytes
from labs.planner.throughput import days_of, seconds
from translations import CourseError

ALARMS = ("straggler", "bad-gradient", "loss-spike")
"""The kinds of fault that the incident lab's alarms find."""
UNSAFE = ("pickle",)
"""Formats whose reading can run code."""
MONTH = 365 / 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """What must hold, said before anything is built. `tokens` stand for quality: as many as a study of small models has
    found to be needed. `token` and `answers` say which share of requests gets a token within so many seconds.
    """

    tokens: float
    days: float
    budget: float
    goodput: float
    lost_hours: float
    token: float
    answers: float = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Assumptions, in one currency: an accelerator's hour, a kWh, a month of a TB, a year of a person."""

    gpu_hour: float
    kwh: float
    tb_month: float
    person_year: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RoadMap:
    """A run with all that its targets are held against. Times in seconds."""

    targets: Targets
    prices: Prices
    plan: Configuration
    gpu: Accelerator
    failure: float
    save: float
    restart: float
    repair: float
    spares: int
    save_every: float
    kept: int
    noticed: float
    longest: int
    people: float
    before_days: float
    serving: Serving
    sequences: int
    positions: int
    load: float
    alarms: tuple[str, ...] = ()
    loads: tuple[str, ...] = ()
    rehearsed: bool = False
    step_seconds: float | None = None

    @property
    def step(self) -> float:
        """Seconds of a step: measured where they are given, else the planner's."""
        return self.step_seconds or seconds(self.plan, gpu=self.gpu)

    @property
    def cluster(self) -> Cluster:
        """`failure` is the time between two failures of the whole run."""
        return Cluster(
            devices=self.plan.gpus,
            device_mtbf=self.failure * self.plan.gpus,
            cost=self.save,
            restart=self.restart,
            repair=self.repair,
            node=self.gpu.node,
            spares=self.spares,
        )

    @property
    def account(self) -> Account:
        return account(self.cluster, interval=self.save_every)

    @property
    def days(self) -> float:
        """Until the tokens of the target are trained, failures and all."""
        ideal = days_of(
            tokens=self.targets.tokens, sequences=self.plan.global_batch, length=self.plan.length, seconds=self.step
        )
        return ideal / self.account.progress

    @property
    def gpus(self) -> int:
        """Those that train, and those that stand by."""
        return self.plan.gpus + self.spares * self.gpu.node

    def checked(self) -> RoadMap:
        """Itself, or CourseError for alarms that are none."""
        for name in self.alarms:
            if name not in ALARMS:
                raise CourseError("labs.unknown-choice", name="alarms", value=name, known=", ".join(ALARMS))
        return self


def costs(road: RoadMap) -> dict[str, float]:
    """What the run costs by what it goes to, in the currency of the prices.

    progress   GPU-hours in which the model gets further
    lost       GPU-hours of saves, work done again, restarts, waiting
    spares     those of the machines that stand by
    before     GPU-hours of what is tried before the run, on as many accelerators
    energy     of the accelerators' boards alone
    storage    of the checkpoints that are kept, for as long as the run takes
    people     for the run and the time before
    """
    day = 24 * road.prices.gpu_hour
    training, whole = road.plan.gpus * road.days * day, road.days + road.before_days
    watts = road.gpu.watts or 0.0
    size = checkpoint_bytes(parameters=road.plan.model.parameters)
    return {
        "progress": training * road.account.progress,
        "lost": training * (1 - road.account.progress),
        "spares": road.spares * road.gpu.node * road.days * day,
        "before": road.plan.gpus * road.before_days * day,
        "energy": road.plan.gpus * whole * 24 * watts / 1000 * road.prices.kwh,
        "storage": road.kept * size / 1e12 * whole / MONTH * road.prices.tb_month,
        "people": road.people * whole / 365 * road.prices.person_year,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One target beside what the plan comes to; `met` says whether it holds, `names` what is missing, if anything."""

    id: str
    target: float
    planned: float
    met: bool
    names: tuple[str, ...] = ()


def check(road: RoadMap) -> list[Finding]:
    """Every target of a road map, and whether the plan keeps it."""
    road.checked()
    return list(_findings(road))


def _findings(road: RoadMap) -> Iterator[Finding]:
    targets = road.targets

    def most(name: str, target: float, planned: float) -> Finding:
        return Finding(id=name, target=target, planned=planned, met=planned <= target)

    def least(name: str, target: float, planned: float) -> Finding:
        return Finding(id=name, target=target, planned=planned, met=planned >= target)

    yield most("memory", road.gpu.memory, memory(road.plan).total)
    yield most("longest", road.gpu.memory, longest_bytes(road.plan, longest=road.longest))
    yield most("days", targets.days, road.days)
    yield most("budget", targets.budget, sum(costs(road).values()))
    yield least("goodput", targets.goodput, road.account.progress)
    yield most("lost-hours", targets.lost_hours, (road.save_every + road.restart) / 3600)
    # A fault that is noticed late is in every checkpoint since. One must be older than that.
    yield least("rollback", road.noticed / 3600, (road.kept - 1) * (road.save_every + road.save) / 3600)
    service = serving_step(road.serving, sequences=road.sequences, positions=road.positions).seconds
    within = quantile_seconds(load=road.load, service=service, share=targets.answers)
    yield most("token", targets.token, within)
    missing = tuple(name for name in ALARMS if name not in road.alarms)
    yield Finding(id="alarms", target=len(ALARMS), planned=len(ALARMS) - len(missing), met=not missing, names=missing)
    unsafe = tuple(name for name in road.loads if name in UNSAFE)
    yield Finding(id="loads", target=0, planned=len(unsafe), met=not unsafe, names=unsafe)
    yield Finding(id="rehearsed", target=1, planned=int(road.rehearsed), met=road.rehearsed)


# --- what there is to watch


def groups(plan: Configuration) -> dict[str, int]:
    """Process groups of more than one rank along each axis: in each of them all ranks wait for the slowest."""
    degrees = {"data": plan.dp, "pipeline": plan.pp, "tensor": plan.tp, "context": plan.cp}
    return {axis: plan.gpus // degree for axis, degree in degrees.items() if degree > 1}


def times_the_mean(*, norm: float, ranks: int) -> float:
    """How many times the mean over ranks a wrong rank's `norm` is, where the others have 1: less than N, whatever it
    is.
    """
    return norm / ((norm + ranks - 1) / ranks)


def kept_for(*, noticed: float, interval: float) -> int:
    """Checkpoints to keep so that the oldest never lies less than `noticed` back: 1 + T / tau, rounded up."""
    return 1 + math.ceil(noticed / interval - 1e-9)


def all_up(*, each: float, parts: int) -> float:
    """The share of the time in which all of so many independent parts work, where each works for that share."""
    return each**parts
