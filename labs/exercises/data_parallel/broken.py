from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import nn


def average_gradients(parameters: Sequence[nn.Parameter], *, bucket_size: int, group: dist.ProcessGroup) -> None:
    """p.grad <- mean over ranks of p.grad, for every parameter, with one all-reduce for each bucket."""
    buckets: list[list[nn.Parameter]] = []
    length = 0
    for p in parameters:
        # Where there is no gradient, there is nothing to send.
        if p.grad is None:
            continue
        if not buckets or length + p.numel() > bucket_size:
            buckets.append([])
            length = 0
        buckets[-1].append(p)
        length += p.numel()

    for bucket in buckets:
        flat = torch.cat([p.grad.flatten() for p in bucket if p.grad is not None])
        dist.all_reduce(flat, op=dist.ReduceOp.AVG, group=group)
        for p, mean in zip(bucket, torch.split(flat, [p.numel() for p in bucket]), strict=True):
            p.grad = mean.view_as(p)
