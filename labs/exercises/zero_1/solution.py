import torch.distributed as dist

from labs.strategies.units import Unit


def optimizer_step(units: list[Unit]) -> None:
    """w_shard <- Adam(w_shard, mean over ranks of g_shard), then every rank gathers all shards."""
    for unit in units:
        # Only this rank's part of the mean is needed here, so reduce-scatter is enough: half an all-reduce.
        # The result may lie in its own place in the buffer: nobody needs the rest of it any more.
        shard = unit.part(unit.gradients)
        dist.reduce_scatter_single(shard, unit.gradients, op=dist.ReduceOp.AVG, group=unit.group)

        # This rank has Adam's states for these parameters, and no other rank has.
        unit.update(shard)

        # The other parts of the buffer are old by now. Each rank has renewed one: the second half of an all-reduce.
        dist.all_gather_single(unit.whole, unit.shard, group=unit.group)
