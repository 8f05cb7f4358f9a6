import torch.distributed as dist

from labs.strategies.units import Unit


def optimizer_step(units: list[Unit]) -> None:
    """w_shard <- Adam(w_shard, mean over ranks of g_shard), then every rank gathers all shards.

    Every rank calls this once a step, after backward. Each unit is a piece of the model as one flat buffer, padded so
    that it cuts into N equal parts; part r belongs to rank r.

    - unit.gradients: the whole gradients that this rank computed on its own examples
    - unit.part(flat): this rank's part of a whole buffer, a window on it and not a copy
    - unit.update(g): one Adam step on this rank's shard with its gradient g; it also sets unit.gradients to zero
    - unit.shard: this rank's part of the parameters, a window on unit.whole
    - unit.whole: all parameters of the unit; the model computes with them
    - unit.group: the ranks, the group of every collective

    Afterwards unit.whole is the same on every rank: what one process would have after this step.
    """
    raise NotImplementedError("Write optimizer_step: reduce-scatter the gradients, update your shard, all-gather.")
