import torch.distributed as dist

from labs.strategies.units import Unit


def reduce_gradients(unit: Unit) -> None:
    """g_shard <- g_shard + mean over ranks of the part of this micro-batch's gradients; the whole gradients go.

    Backward calls this for each unit as soon as all its gradients are made, in every micro-batch, on every rank.

    - unit.take_bucket(): the whole gradients of this micro-batch only, padded to a multiple of N, or zeros where the
      unit was not used. The bucket is yours: when nothing refers to it any more, its bytes are free
    - unit.part(flat): this rank's part of a whole buffer, a window on it and not a copy
    - unit.gradients: what is kept until the optimizer step, 1/N of the gradients. It is zero before the first
      micro-batch; the loss of each is divided by their number already
    - unit.group: the ranks, the group of every collective

    After the last micro-batch unit.gradients is this rank's part of the gradient of the whole batch.
    """
    raise NotImplementedError("Write reduce_gradients: reduce-scatter the bucket, add your shard to unit.gradients.")
