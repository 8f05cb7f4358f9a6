import torch
import torch.distributed as dist
from torch import Tensor


def ring_all_reduce(buffer: Tensor, *, group: dist.ProcessGroup) -> None:
    """buffer <- sum over ranks of buffer, in 2 (N - 1) turns in which each rank speaks to its right neighbour only."""
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    right, left = (rank + 1) % ranks, (rank - 1) % ranks
    chunks = buffer.tensor_split(ranks)

    for turn in range(2 * (ranks - 1)):
        outgoing, incoming = chunks[(rank - turn) % ranks], chunks[(rank - turn - 1) % ranks]
        space = torch.empty_like(incoming)

        dist.send(outgoing, group=group, group_dst=right)
        dist.recv(space, group=group, group_src=left)

        if turn < ranks - 1:
            incoming += space
        else:
            incoming.copy_(space)
