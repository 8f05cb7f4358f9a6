import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F


class CachedAttention:
    """Attention for generation, on t ranks with H / t heads each: one new token of every sequence at a time."""

    def __init__(
        self, qkv: nn.Linear, out: nn.Linear, *, heads: int, sequences: int, room: int, group: dist.ProcessGroup
    ) -> None:
        self.group, self.heads, self.seen = group, heads // dist.get_world_size(group), 0
        rank, ranks = dist.get_rank(group), dist.get_world_size(group)
        # This rank's heads of the queries, of the keys and of the values, which come one after the other.
        self.qkv_weight = torch.cat([part.chunk(ranks)[rank] for part in qkv.weight.detach().chunk(3)])
        self.out_weight = out.weight.detach().chunk(ranks, 1)[rank].clone()
        self.out_bias = out.bias.detach().clone()
        size = qkv.in_features // heads
        self.keys = qkv.weight.detach().new_zeros(sequences, self.heads, room, size)
        self.values = torch.zeros_like(self.keys)

    def step(self, x_BD: Tensor) -> Tensor:
        q_BhK, k_BhK, v_BhK = (
            part.reshape(len(x_BD), self.heads, -1) for part in F.linear(x_BD, self.qkv_weight).chunk(3, -1)
        )
        self.keys[:, :, self.seen] = k_BhK
        self.values[:, :, self.seen] = v_BhK
        # Gap 1. Which rule does the missing line keep? After it, this token is seen, and the next has its own place.
        keys_BhTK, values_BhTK = self.keys[:, :, : self.seen], self.values[:, :, : self.seen]
        y_Bh1K = F.scaled_dot_product_attention(q_BhK.unsqueeze(2), keys_BhTK, values_BhTK)
        y_BD = F.linear(y_Bh1K.flatten(1), self.out_weight)
        # Gap 2. Which rule does the missing line keep? After it, every rank has what all heads say.
        return y_BD + self.out_bias
