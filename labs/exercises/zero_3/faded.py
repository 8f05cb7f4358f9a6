import torch.distributed as dist

from labs.strategies.units import Unit


class ShardedPiece:
    """A piece of the model of which this rank holds 1/N, except while the piece computes."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit

    def before_forward(self) -> None:
        """whole <- all ranks' shards; each parameter is a window on it."""
        unit = self.unit
        # The storage stays the same for ever and only its bytes come and go: what autograd saves points to it.
        unit.whole.untyped_storage().resize_(unit.padded * unit.whole.itemsize)
        # Gap 1. Which rule does the missing line keep? After it, `whole` holds every rank's shard.
        for p, window in zip(unit.parameters, unit.windows(unit.whole), strict=True):
            p.data = window

    def after_forward(self) -> None:
        """The bytes of whole go."""
        # Gap 2. Which rule does the missing line keep? After it, this rank holds 1/N of the piece again.

        # A parameter without values has no shape to be misled by: using it now is an error, not rubbish.
        for p in self.unit.parameters:
            p.data = self.unit.shard.new_empty(0)

    def before_backward(self) -> None:
        """whole <- all ranks' shards, in the storage that forward used."""
        # The values are the same as in forward. Fetching them twice is the price of not keeping them: 6P instead of 4P.
        self.before_forward()

    def after_backward(self) -> None:
        """The bytes of whole go; g_shard <- g_shard + mean over ranks of the part of this micro-batch's gradients."""
        self.after_forward()
        bucket = self.unit.take_bucket()
        shard = self.unit.part(bucket)
        dist.reduce_scatter_single(shard, bucket, op=dist.ReduceOp.AVG, group=self.unit.group)
        self.unit.gradients += shard
