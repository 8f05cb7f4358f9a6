"""The options of `lab run overlap`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from labs.options.base import option
from labs.options.zero import ZeroOptions
from translations import CourseError


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapOptions(ZeroOptions):
    """Communication beside computation, or with `blocking` after it; over data parallelism (stage 0) or a stage of
    ZeRO. `bandwidth` in MB/s slows the link between the ranks. `bucket` is the least MB of an all-reduce in stage 0;
    `buckets` of gradients may be in flight in stages 2 and 3, and in 3 `ahead` pieces are gathered before their turn.
    With `straggle` the last rank takes so many seconds longer for each forward.
    """

    blocking: bool = option(False)
    bandwidth: float | None = option(None)
    bucket: float = option(0.0)
    ahead: int = option(1)
    buckets: int = option(2)
    straggle: float = option(0.0)

    def checked(self, *, ranks: int) -> Self:
        super(OverlapOptions, self).checked(ranks=ranks)
        self.at_least({"bucket": 0, "ahead": 0, "buckets": 1, "straggle": 0})
        if self.bandwidth is not None and not self.bandwidth > 0:
            raise CourseError("labs.bandwidth-not-positive", value=self.bandwidth)
        return self

    def layout(self, ranks: int) -> dict[str, Any]:
        return super(OverlapOptions, self).layout(ranks) | {"overlap": not self.blocking}
