import torch.distributed as dist

from labs.strategies.units import Unit


class Overlap:
    """Reduce-scatters that run while backward goes on: started as gradients are made, waited for at the end."""

    def __init__(self) -> None:
        self.in_flight: list[dist.Work] = []

    def ready(self, unit: Unit) -> None:
        """The bucket's reduce-scatter sets off; backward goes on at once."""
        bucket = unit.take_bucket()
        shard = unit.part(bucket)
        work = dist.reduce_scatter_single(shard, bucket, op=dist.ReduceOp.AVG, group=unit.group, async_op=True)
        unit.gradients += shard
        self.in_flight.append(work)

    def finish(self) -> None:
        """Everything that set off has arrived: each g_shard <- g_shard + mean over ranks of the part that was sent."""
        for work in self.in_flight:
            work.wait()
        self.in_flight.clear()
