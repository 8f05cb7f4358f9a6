import torch.distributed as dist

from labs.strategies.units import Unit


def reduce_gradients(unit: Unit) -> None:
    """g_shard <- g_shard + mean over ranks of the part of this micro-batch's gradients; the whole gradients go."""
    # Taking the bucket makes it ours: when this function returns, nobody refers to it and its bytes are free.
    bucket = unit.take_bucket()

    # The other parts are other ranks' business. The result lies in its own place in the bucket.
    shard = unit.part(bucket)
    dist.reduce_scatter_single(shard, bucket, op=dist.ReduceOp.AVG, group=unit.group)

    # Earlier micro-batches have left their shares here. The mean of sums is the sum of means, so each may be reduced
    # when it is made.
    unit.gradients += shard
