import torch.distributed as dist

from labs.strategies.units import Unit


def optimizer_step(units: list[Unit]) -> None:
    """w_shard <- Adam(w_shard, mean over ranks of g_shard), then every rank gathers all shards."""
    for unit in units:
        # Every rank gets the mean of the gradients.
        dist.all_reduce(unit.gradients, op=dist.ReduceOp.AVG, group=unit.group)

        # Rank 1 takes the first part, rank 2 the second, and so on.
        parts = unit.gradients.chunk(unit.ranks)
        unit.update(parts[unit.rank - 1])

        dist.all_gather_single(unit.whole, unit.shard, group=unit.group)
