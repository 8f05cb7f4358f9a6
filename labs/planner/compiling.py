"""When compiling pays: the first call takes as long as many steps, and every later one saves a little."""

from __future__ import annotations


def steps_until_paid(*, first: float, eager: float, times: float) -> float:
    """Steps after which a compiled training is ahead, where its first call takes `first` seconds, an eager step `eager`
    seconds, and a compiled one is `times` as fast. Infinite where it is no faster.
    """
    saved = eager - eager / times
    return (first - eager / times) / saved if saved > 0 else float("inf")


def compilations(*, first: int, second: int, third: int) -> int:
    """How often torch.compile compiles for batches of these sizes and then one of 1: for the first size, at another for
    any size, and for 1, a dimension that is broadcast (`torch._dynamo` with its automatic dynamic shapes).
    """
    met: list[int] = []
    count = 0
    for size in (first, first, second, third, second, 1):
        known = size in met if size == 1 or len(set(met)) < 2 else True
        count += not known
        met.append(size)
    return count
