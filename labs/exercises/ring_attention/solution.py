from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor


def ring_attention(
    q_HLK: Tensor, k_HLK: Tensor, v_HLK: Tensor, positions: Sequence[Tensor], *, group: dist.ProcessGroup
) -> Tensor:
    """out_i = sum over j <= i of softmax_j(q_i k_j / sqrt K) v_j, by position in the sequence; j on any rank."""
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    right, left = (rank + 1) % ranks, (rank - 1) % ranks
    out_HLK = torch.zeros_like(q_HLK)
    lse_HL1 = torch.full_like(q_HLK[..., :1], -torch.inf)
    kv = torch.stack([k_HLK, v_HLK])

    for turn in range(ranks):
        # What comes from the left has come one rank further in each turn.
        source = (rank - turn) % ranks
        keys, values = kv
        scores_HLL = q_HLK @ keys.mT / q_HLK.size(-1) ** 0.5

        # Rows are our positions, columns those of the source: which comes later is a matter of the whole sequence.
        later_LL = positions[source] > positions[rank].unsqueeze(-1)
        scores_HLL = scores_HLL.masked_fill(later_LL, -torch.inf)

        # Two logarithms of sums become that of both. What was there keeps its share, and what is new gets its own.
        new_HL1 = torch.logaddexp(lse_HL1, scores_HLL.logsumexp(-1, keepdim=True))
        out_HLK = out_HLK * (lse_HL1 - new_HL1).exp() + (scores_HLL - new_HL1).exp() @ values
        lse_HL1 = new_HL1

        # After the last turn nobody needs these keys any more.
        if turn < ranks - 1:
            arriving = torch.empty_like(kv)
            sending = dist.P2POp(dist.isend, kv, group=group, group_peer=right)
            receiving = dist.P2POp(dist.irecv, arriving, group=group, group_peer=left)
            for work in dist.batch_isend_irecv([sending, receiving]):
                work.wait()
            kv = arriving
    return out_HLK
