import torch.distributed as dist
from torch import Tensor

from labs.strategies.units import Unit


class Overlap:
    """Reduce-scatters that run while backward goes on: started as gradients are made, waited for at the end."""

    def __init__(self) -> None:
        self.in_flight: list[tuple[Unit, Tensor, dist.Work]] = []

    def ready(self, unit: Unit) -> None:
        """The bucket's reduce-scatter sets off; backward goes on at once."""
        bucket = unit.take_bucket()
        shard = unit.part(bucket)
        work = dist.reduce_scatter_single(shard, bucket, op=dist.ReduceOp.AVG, group=unit.group, async_op=True)

        # Gap 1. Which rule does the missing line keep? After it, the bucket lives until its result has been added.

    def finish(self) -> None:
        """Everything that set off has arrived: each g_shard <- g_shard + mean over ranks of the part that was sent."""
        for unit, shard, work in self.in_flight:
            # Gap 2. Which rule does the missing line keep? After it, the shard holds the mean and may be read.
            unit.gradients += shard

        # The buckets go here, and the next backward begins with nothing on its way.
        self.in_flight.clear()
