import torch
import torch.distributed as dist
from torch import Tensor


def vocabulary_loss(logits_Nv: Tensor, targets_N: Tensor, *, group: dist.ProcessGroup) -> tuple[Tensor, Tensor]:
    """loss_N = log(sum over V of exp z) - z[target], and the gradient of its sum for this rank's logits.

    - logits_Nv (N, v): the scores of N predictions for this rank's v = V / t tokens; rank r has r v to r v + v - 1
    - targets_N (N): the right token of each, 0 to V - 1, the same on every rank
    - group: the ranks, the group of every collective

    Returns loss_N (N), the same on every rank, and grad_Nv (N, v): softmax(z), minus 1 at the target. Logits may be
    large, so exp(z) may be more than a number can be. Whole logits (N, V) are what nobody has room for.
    """
    raise NotImplementedError("Write vocabulary_loss: a few numbers a token go round, and never the logits.")
