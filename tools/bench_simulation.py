"""The part of `make bench` that simulates a cluster, in a process of its own, so that its memory is known: prints the
seconds, also those of the processor, and the most bytes it held.
"""

from __future__ import annotations

import json
import resource
import sys
import time

if __name__ == "__main__":
    started = time.perf_counter()
    from labs.planner.configuration import STACKS, Configuration
    from labs.planner.models import model
    from labs.planner.simulation import simulate

    implementation, dp = sys.argv[1], int(sys.argv[2])
    plan = Configuration(
        model=model("bloom-176b"), dp=dp, tp=4, pp=12, zero=1, micro_batch=2, micro_batches=128, recompute="full",
        stack=STACKS["megatron"],
    )  # fmt: skip
    for _ in simulate(plan, implementation=implementation):  # type: ignore[arg-type]
        pass
    print(
        json.dumps(
            {
                "seconds": time.perf_counter() - started,
                "cpu": time.process_time(),
                "bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            }
        )
    )
