import torch
import torch.distributed as dist
from torch import Tensor


def ring_all_reduce(buffer: Tensor, *, group: dist.ProcessGroup) -> None:
    """buffer <- sum over ranks of buffer, in 2 (N - 1) turns in which each rank speaks to its right neighbour only."""
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    right, left = (rank + 1) % ranks, (rank - 1) % ranks
    chunks = buffer.tensor_split(ranks)

    for turn in range(2 * (ranks - 1)):
        # What came in the last turn goes out in this one, so the chunk moves down by one in each turn.
        outgoing, incoming = chunks[(rank - turn) % ranks], chunks[(rank - turn - 1) % ranks]
        space = torch.empty_like(incoming)

        # Both begin before either is waited for. If all ranks first waited until their neighbour had taken the chunk,
        # nobody would ever take one.
        sending = dist.P2POp(dist.isend, outgoing, group=group, group_peer=right)
        receiving = dist.P2POp(dist.irecv, space, group=group, group_peer=left)
        for work in dist.batch_isend_irecv([sending, receiving]):
            work.wait()

        # In the first N - 1 turns sums grow: then rank r owns the complete chunk r + 1. In the others, complete chunks
        # travel on, and adding them once more would count ranks twice.
        if turn < ranks - 1:
            incoming += space
        else:
            incoming.copy_(space)
