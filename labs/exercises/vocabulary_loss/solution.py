import torch.distributed as dist
from torch import Tensor


def vocabulary_loss(logits_Nv: Tensor, targets_N: Tensor, *, group: dist.ProcessGroup) -> tuple[Tensor, Tensor]:
    """loss_N = log(sum over V of exp z) - z[target], and the gradient of its sum for this rank's logits."""
    # One shift for all ranks: it cancels out of the loss, and no exp exceeds 1.
    top_N = logits_Nv.amax(-1)
    dist.all_reduce(top_N, op=dist.ReduceOp.MAX, group=group)
    z_Nv = logits_Nv - top_N.unsqueeze(-1)
    sum_N = z_Nv.exp().sum(-1)
    dist.all_reduce(sum_N, group=group)

    # The target is a row of one rank. The others add 0 to what it looks up.
    row_N = targets_N - dist.get_rank(group) * logits_Nv.size(-1)
    mine_N = (row_N >= 0) & (row_N < logits_Nv.size(-1))
    row_N1 = row_N.where(mine_N, 0).unsqueeze(-1)
    hit_N = z_Nv.gather(-1, row_N1).squeeze(-1) * mine_N
    dist.all_reduce(hit_N, group=group)

    grad_Nv = z_Nv.exp() / sum_N.unsqueeze(-1)
    grad_Nv.scatter_add_(-1, row_N1, -mine_N.to(grad_Nv.dtype).unsqueeze(-1))
    return sum_N.log() - hit_N, grad_Nv
