import torch.distributed as dist

from labs.strategies.units import Unit


def optimizer_step(units: list[Unit]) -> None:
    """w_shard <- Adam(w_shard, mean over ranks of g_shard), then every rank gathers all shards."""
    for unit in units:
        # Gap 1. Which rule does the missing line keep? After it, `shard` holds the mean of all ranks' gradients.
        shard = unit.part(unit.gradients)

        # This rank has Adam's states for these parameters, and no other rank has.
        unit.update(shard)

        # Gap 2. Which rule does the missing line keep? After it, the copies of the model are equal again.
