"""When compiling pays: the first call takes as long as many steps, and every later one saves a little."""

from __future__ import annotations


def steps_until_paid(*, first: float, eager: float, times: float) -> float:
    """Steps after which a compiled training is ahead, where its first call takes `first` seconds, an eager step `eager`
    seconds, and a compiled one is `times` as fast. Infinite where it is no faster.
    """
    saved = eager - eager / times
    return (first - eager / times) / saved if saved > 0 else float("inf")
