"""How long a request waits at a server that is busy for a share of the time: one server, requests that come at random.

Who arrives finds as many requests as there are on average (Wolff 1982: arrivals at random see averages), and each takes
S seconds, its own too: W = (L + 1) S. What is there on average is the rate times the time that each stays, L = rate W
(Little 1961). With the load rho = rate S:

    W = S / (1 - rho)            and, with exponential times, P(longer than w) = e^(-w / W)
"""

from __future__ import annotations

import math
import random


def mean_seconds(*, load: float, service: float) -> float:
    """Waiting and service together: S / (1 - rho)."""
    if not 0 <= load < 1:
        raise ValueError(f"a load from 0 to below 1, not {load}")
    return service / (1 - load)


def quantile_seconds(*, load: float, service: float, share: float) -> float:
    """What `share` of the requests do not exceed: -ln(1 - share) times the mean."""
    return -math.log1p(-share) * mean_seconds(load=load, service=service)


def largest_load(*, service: float, share: float, target: float) -> float:
    """The load up to which that share of requests stays within `target` seconds; 0 where none does."""
    return max(0.0, 1 + math.log1p(-share) * service / target)


def drawn(count: int, *, load: float, service: float = 1.0, seed: int = 0) -> list[float]:
    """Seconds that each of `count` requests takes, waiting and service, without any formula: who comes waits for what
    is left of the work of those before (Lindley 1952).
    """
    draw, waits, found = random.Random(seed), 0.0, []
    for _ in range(count):
        own = draw.expovariate(1 / service)
        found.append(waits + own)
        waits = max(0.0, waits + own - draw.expovariate(load / service))
    return found
