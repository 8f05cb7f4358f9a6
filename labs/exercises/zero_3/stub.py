import torch.distributed as dist

from labs.strategies.units import Unit


class ShardedPiece:
    """A piece of the model of which this rank holds 1/N, except while the piece computes.

    The model calls the four methods, on every rank in the same order; after_backward only once all gradients of the
    piece are made. A gathered buffer is freed as soon as the piece has been used.

    - unit.shard: this rank's part of the parameters, always there
    - unit.whole: a buffer for all parts, unit.padded values of unit.whole.itemsize bytes each. Between uses it has no
      bytes: unit.whole.untyped_storage().resize_(n) gives it n bytes, and 0 takes them. Keep this very storage: what
      forward saves for backward points to it
    - unit.parameters: the parameters; p.data = window makes one look at a window on a buffer
    - unit.windows(flat): each parameter's window on a buffer laid out as unit.whole
    - unit.take_bucket(), unit.part(flat), unit.gradients: as in ZeRO-2
    - unit.group: the ranks, the group of every collective
    """

    def __init__(self, unit: Unit) -> None:
        self.unit = unit

    def before_forward(self) -> None:
        """whole <- all ranks' shards; each parameter is a window on it."""
        raise NotImplementedError("Write ShardedPiece: gather before use, free after, in forward and in backward.")

    def after_forward(self) -> None:
        """The bytes of whole go."""
        raise NotImplementedError("Write ShardedPiece: gather before use, free after, in forward and in backward.")

    def before_backward(self) -> None:
        """whole <- all ranks' shards, in the storage that forward used."""
        raise NotImplementedError("Write ShardedPiece: gather before use, free after, in forward and in backward.")

    def after_backward(self) -> None:
        """The bytes of whole go; g_shard <- g_shard + mean over ranks of the part of this micro-batch's gradients."""
        raise NotImplementedError("Write ShardedPiece: gather before use, free after, in forward and in backward.")
