"""Failures drawn at random, and what a run makes of them: the same questions as `labs/planner/goodput.py`, without its
formulas.

Every failure of some runs of the same length is drawn, and each stretch between two of them is cut into recovery,
intervals and saves. Nothing is stepped through in time, so 200,000 accelerators over months take a part of a second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labs.planner.goodput import Account, Cluster, positive
from translations import CourseError

Numbers = NDArray[np.float64]
MOST = 2_000_000
"""Failures that are drawn at most, of all runs together: where there would be more, there are fewer runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """The mean of all runs; `error` is the standard error of its goodput, `failures` those of one run."""

    account: Account
    error: float
    failures: float
    runs: int
    seed: int


def simulate(cluster: Cluster, *, interval: float, seconds: float, runs: int = 32, seed: int = 0) -> Drawn:
    """Runs of so many seconds. Work that is not saved yet when they end counts as done. Shapes: (failures, runs)."""
    cluster.checked()
    positive(interval, "interval")
    positive(seconds, "seconds")
    if runs < 2:
        raise ValueError("a standard error takes two runs")
    warming = 3 * cluster.repair if cluster.limited is not None else 0.0  # until as many are broken as ever will be
    expected = (seconds + warming) / cluster.mtbf
    count = int(expected + 8 * math.sqrt(expected) + 12)
    if count > MOST // 2:
        raise CourseError("labs.goodput-too-many", failures=round(expected))
    runs = min(runs, MOST // count)
    gaps = np.random.default_rng(seed).exponential(cluster.mtbf, size=(count, runs))
    starts, ends = _stretches(cluster, gaps)
    shares = _spent(cluster, starts - warming, ends - warming, interval=interval, seconds=seconds)
    if cluster.elastic:
        kept = shares["progress"] * _capacity(cluster, starts - warming, ends - warming, seconds=seconds)
        shares["missing"] = shares["progress"] - kept
        shares["progress"] = kept
    totals = {name: each.sum(axis=0) / seconds for name, each in shares.items()}
    means = {name: float(each.mean()) for name, each in totals.items()}
    return Drawn(
        account=Account(**{**means, "waiting": max(0.0, 1 - sum(means.values()))}),
        error=float(totals["progress"].std(ddof=1) / math.sqrt(runs)),
        failures=float(((ends >= warming) & (ends < warming + seconds)).sum() / runs),
        runs=runs,
        seed=seed,
    )


def _stretches(cluster: Cluster, gaps: Numbers) -> tuple[Numbers, Numbers]:
    """When the run starts again after each failure, and when the next one comes. A run that is not elastic starts when
    no more nodes are broken than there are spares: once the one that broke so many failures ago is repaired.
    """
    if cluster.elastic or cluster.limited is None:
        ends = np.cumsum(gaps, axis=0)
        return ends - gaps, ends
    starts, ends = np.zeros_like(gaps), np.empty_like(gaps)
    for number in range(len(gaps)):
        ends[number] = starts[number] + gaps[number]
        if number + 1 < len(gaps):
            starts[number + 1] = ends[number]
            if number >= cluster.limited:
                repaired = ends[number - cluster.limited] + cluster.repair
                starts[number + 1] = np.maximum(ends[number], repaired)
    return starts, ends


def _spent(cluster: Cluster, starts: Numbers, ends: Numbers, *, interval: float, seconds: float) -> dict[str, Numbers]:
    """Seconds of each stretch by what they go to, from 0 to `seconds`; of one that began before, in proportion."""
    length = np.clip(np.minimum(ends, seconds) - starts, 0, None)
    inside = np.clip(np.minimum(ends, seconds) - np.maximum(starts, 0), 0, None)
    share = np.divide(inside, length, where=length > 0, out=np.zeros_like(length))
    first = np.zeros((len(starts), 1))
    first[0] = 1.0  # the run begins with its first step, not with a failure
    recovery = np.where(first, 0.0, np.minimum(length, cluster.recovery))
    training = length - recovery
    saves = np.floor(training / (interval + cluster.cost))
    rest = training - saves * (interval + cluster.cost)
    failed = ends < seconds
    work = np.minimum(rest, interval)
    return {
        "progress": share * (saves * interval + np.where(failed, 0.0, work)),
        "saving": share * (saves * cluster.cost + np.where(failed, 0.0, rest - work)),
        "lost": share * np.where(failed, rest, 0.0),
        "restarting": share * recovery,
        "missing": np.zeros_like(length),
    }


def _capacity(cluster: Cluster, starts: Numbers, ends: Numbers, *, seconds: float) -> Numbers:
    """The mean share of the devices that train in each stretch: each failure breaks a node for the time of a repair."""
    count = len(ends)
    table = np.array([cluster.capacity(broken) for broken in range(count + 1)])
    change = np.repeat([1, -1], count)
    means = np.zeros_like(ends)
    for run in range(ends.shape[1]):
        times = np.concatenate([ends[:, run], ends[:, run] + cluster.repair])
        order = np.argsort(times, kind="stable")
        broken = np.concatenate([[0], np.cumsum(change[order])])
        at = np.concatenate([[starts[0, run]], times[order], [times.max() + seconds]])
        trained = np.concatenate([[0.0], np.cumsum(np.diff(at) * table[broken])])
        low, high = np.clip(starts[:, run], 0, None), np.minimum(ends[:, run], seconds)
        inside = high > low
        means[inside, run] = np.diff(np.interp([low[inside], high[inside]], at, trained), axis=0)[0]
        means[inside, run] /= (high - low)[inside]
    return means
