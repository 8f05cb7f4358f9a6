import torch
import torch.distributed as dist
from torch import Tensor


class GrpoLoss:
    """The loss of GRPO on this rank's outputs."""

    def __init__(self, *, group_size: int, epsilon: float, beta: float, group: dist.ProcessGroup) -> None:
        self.group_size, self.epsilon, self.beta, self.group = group_size, epsilon, beta, group

    def advantages(self, rewards: Tensor) -> Tensor:
        """How much better each output of this rank is than its group, in standard deviations."""
        groups = rewards.view(-1, min(self.group_size, len(rewards)))
        centred = groups - groups.mean(-1, keepdim=True)
        return (centred / (groups.std(-1, correction=0, keepdim=True) + 1e-4)).flatten()

    def loss(self, log_policy: Tensor, log_old: Tensor, log_reference: Tensor, mask: Tensor, rewards: Tensor) -> Tensor:
        """The mean over this rank's outputs of the mean over an output's tokens, to be made smaller."""
        gain = self.advantages(rewards)[:, None]
        ratio = (log_policy - log_old).exp()
        surrogate = torch.min(ratio * gain, ratio.clamp(1 - self.epsilon, 1 + self.epsilon) * gain)
        log_ratio = log_reference - log_policy
        kl = log_ratio.exp() - log_ratio - 1
        each = ((surrogate - self.beta * kl) * mask).sum(-1) / mask.sum(-1)
        return -each.mean()
