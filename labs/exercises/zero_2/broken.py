import torch.distributed as dist

from labs.strategies.units import Unit


def reduce_gradients(unit: Unit) -> None:
    """g_shard <- g_shard + mean over ranks of the part of this micro-batch's gradients; the whole gradients go."""
    bucket = unit.take_bucket()
    shard = unit.part(bucket)
    dist.reduce_scatter_single(shard, bucket, op=dist.ReduceOp.AVG, group=unit.group)

    # Write into the memory that is there instead of allocating new.
    unit.gradients.copy_(shard)
