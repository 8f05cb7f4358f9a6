import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F


class CachedAttention:
    """Attention for generation, on t ranks with H / t heads each: one new token of every sequence at a time.

    - qkv, out: the whole layers, the same on every rank. The rows of qkv.weight are all queries, then all keys, then
      all values, in each of them one head of D / H rows after the other; qkv has no bias. The columns of out.weight are
      in the order of the heads; out has a bias
    - heads: H, which t divides; rank 0 has the first H / t
    - sequences, room: B sequences, and places for the tokens of each
    - keys, values: what is kept of the tokens so far, (B, H / t, room, D / H), for this rank's heads only, of
      the weights' dtype; zeros where nothing is written yet
    - group: the ranks; all have the same x and must get the same y
    """

    def __init__(
        self, qkv: nn.Linear, out: nn.Linear, *, heads: int, sequences: int, room: int, group: dist.ProcessGroup
    ) -> None:
        raise NotImplementedError("Write CachedAttention: keep your heads, and the keys and values of what came.")

    def step(self, x_BD: Tensor) -> Tensor:
        """y_BD for the new token of each sequence, which looks at itself and at all before it."""
        raise NotImplementedError("Write CachedAttention: keep your heads, and the keys and values of what came.")
