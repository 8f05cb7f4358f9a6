from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import nn


def average_gradients(parameters: Sequence[nn.Parameter], *, bucket_size: int, group: dist.ProcessGroup) -> None:
    """p.grad <- mean over ranks of p.grad, for every parameter, with one all-reduce for each bucket."""
    buckets: list[list[nn.Parameter]] = []
    length = 0
    for p in parameters:
        # The cut depends on sizes only, never on values: so every rank makes the same buckets.
        if not buckets or length + p.numel() > bucket_size:
            buckets.append([])
            length = 0
        buckets[-1].append(p)
        length += p.numel()

    for bucket in buckets:
        # A rank that did not use a parameter still takes part, with zeros; the others would wait for it.
        flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in bucket])

        # The loss is a mean over examples and ranks have equally many, so the mean of the gradients is the gradient.
        dist.all_reduce(flat, op=dist.ReduceOp.AVG, group=group)

        for p, mean in zip(bucket, torch.split(flat, [p.numel() for p in bucket]), strict=True):
            p.grad = mean.view_as(p)
