from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor


def ring_attention(
    q_HLK: Tensor, k_HLK: Tensor, v_HLK: Tensor, positions: Sequence[Tensor], *, group: dist.ProcessGroup
) -> Tensor:
    """out_i = sum over j <= i of softmax_j(q_i k_j / sqrt K) v_j, by position in the sequence; j on any rank.

    Every rank calls this with the queries, keys and values of its own L positions, in H heads of size K. It returns
    (H, L, K), the same as one process would for these positions, and never holds the keys of more than two ranks.

    - positions[r]: (L,) where the positions of rank r stand in the whole sequence. They need not follow one another:
      in zigzag order a rank holds two stretches
    - scores.logsumexp(-1, keepdim=True): the logarithm of a row's sum of exponentials, without overflow; minus infinity
      where all of the row is masked
    - torch.logaddexp(a, b): the logarithm of exp(a) + exp(b)
    - dist.P2POp, dist.batch_isend_irecv: as in the all-reduce on a ring. One message can hold keys and values:
      torch.stack([k_HLK, v_HLK])

    Only forward is asked for.
    """
    raise NotImplementedError("Write ring_attention: in N turns mask by position, merge, pass keys and values on.")
