import torch
import torch.distributed as dist
from torch import Tensor


def ring_all_reduce(buffer: Tensor, *, group: dist.ProcessGroup) -> None:
    """buffer <- sum over ranks of buffer, in 2 (N - 1) turns in which each rank speaks to its right neighbour only.

    Every rank calls this with a one-dimensional buffer of the same length, which may be any length: it need not divide
    by N, and may be shorter than N. The sum is left in the buffer itself.

    - buffer.tensor_split(N): N chunks, windows on the buffer, as equal in length as can be; some may be one longer
    - dist.P2POp(dist.isend, chunk, group=group, group_peer=right): describes a sending, and with dist.irecv a
      receiving; the space to receive into must be as long as the chunk that comes
    - dist.batch_isend_irecv([sending, receiving]): begins both; call wait() on each of the works that it returns
    """
    raise NotImplementedError("Write ring_all_reduce: N - 1 turns that add, then N - 1 turns that copy.")
