import torch
import torch.distributed as dist
from torch import Tensor


class GrpoLoss:
    """The loss of GRPO on this rank's outputs."""

    def __init__(self, *, group_size: int, epsilon: float, beta: float, group: dist.ProcessGroup) -> None:
        self.group_size, self.epsilon, self.beta, self.group = group_size, epsilon, beta, group

    def advantages(self, rewards: Tensor) -> Tensor:
        """How much better each output of this rank is than its group, in standard deviations."""
        # A question's outputs may lie on several ranks: a group is judged whole, wherever its members are.
        ranks = dist.get_world_size(self.group)
        everyone = rewards.new_empty(ranks * len(rewards))
        dist.all_gather_single(everyone, rewards, group=self.group)
        groups = everyone.view(-1, self.group_size)

        # Where all rewards of a group are the same, the numerator is zero, and so is the advantage.
        centred = groups - groups.mean(-1, keepdim=True)
        scaled = centred / (groups.std(-1, correction=0, keepdim=True) + 1e-4)
        return scaled.flatten().chunk(ranks)[dist.get_rank(self.group)]

    def loss(self, log_policy: Tensor, log_old: Tensor, log_reference: Tensor, mask: Tensor, rewards: Tensor) -> Tensor:
        """The mean over this rank's outputs of the mean over an output's tokens, to be made smaller."""
        gain = self.advantages(rewards)[:, None]

        # The lesser of the two: once the ratio has left its range to the good side, there is nothing more to gain.
        ratio = (log_policy - log_old).exp()
        surrogate = torch.min(ratio * gain, ratio.clamp(1 - self.epsilon, 1 + self.epsilon) * gain)

        # Never below zero, and right in the mean over what the policy samples.
        log_ratio = log_reference - log_policy
        kl = log_ratio.exp() - log_ratio - 1

        each = ((surrogate - self.beta * kl) * mask).sum(-1) / mask.sum(-1)
        return -each.mean()
