from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import nn


def average_gradients(parameters: Sequence[nn.Parameter], *, bucket_size: int, group: dist.ProcessGroup) -> None:
    """p.grad <- mean over ranks of p.grad, for every parameter, with one all-reduce for each bucket.

    Every rank calls this after backward, with the same parameters in the same order. A bucket is one flat tensor with
    the gradients of some neighbouring parameters, one after the other. A new bucket begins where the next gradient
    would make it longer than bucket_size values; a larger gradient has a bucket of its own.

    - p.grad: the gradient on this rank's own examples, shaped as p. It is None where backward did not reach p, which
      may be so on one rank only; then it counts as zero
    - dist.all_reduce(flat, op=dist.ReduceOp.AVG, group=group): flat becomes the mean, on every rank

    Afterwards p.grad is the same on every rank: the gradient of the mean loss over all examples.
    """
    raise NotImplementedError("Write average_gradients: fill a bucket, all-reduce it, put the means back.")
