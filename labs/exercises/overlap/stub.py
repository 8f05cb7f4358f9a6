import torch.distributed as dist

from labs.strategies.units import Unit


class Overlap:
    """Reduce-scatters that run while backward goes on: started as gradients are made, waited for at the end.

    Backward calls ready(unit) for each unit as soon as all its gradients are made, in every micro-batch, in the same
    order on every rank. After each backward finish() is called once; then unit.gradients is read.

    - unit.take_bucket(): the whole gradients of this micro-batch, padded to a multiple of N. The bucket is yours
    - unit.part(flat): this rank's part of a whole buffer, a window on it and not a copy
    - unit.gradients: this rank's part of the gradients of all micro-batches so far, averaged over ranks
    - unit.group: the ranks, the group of every collective
    - a collective of torch.distributed that is called with async_op=True returns at once, with a dist.Work. Its buffers
      belong to it until work.wait() has returned: until then they hold anything
    """

    def __init__(self) -> None:
        raise NotImplementedError("Write Overlap: start the reduce-scatter in ready, wait for it in finish.")

    def ready(self, unit: Unit) -> None:
        """The bucket's reduce-scatter sets off; backward goes on at once."""
        raise NotImplementedError("Write Overlap: start the reduce-scatter in ready, wait for it in finish.")

    def finish(self) -> None:
        """Everything that set off has arrived: each g_shard <- g_shard + mean over ranks of the part that was sent."""
        raise NotImplementedError("Write Overlap: start the reduce-scatter in ready, wait for it in finish.")
