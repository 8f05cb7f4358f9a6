import torch
import torch.distributed as dist
from torch import Tensor


class GrpoLoss:
    """The loss of GRPO on this rank's outputs.

    - self.group_size: outputs sampled for one question. Over all ranks, in their order, the outputs of a question lie
      one after the other; a group may begin on one rank and end on the next
    - self.epsilon: the ratio is clipped to 1 - epsilon ... 1 + epsilon
    - self.beta: weight of the divergence from the reference
    - self.group: the ranks, each with as many outputs
    """

    def __init__(self, *, group_size: int, epsilon: float, beta: float, group: dist.ProcessGroup) -> None:
        self.group_size, self.epsilon, self.beta, self.group = group_size, epsilon, beta, group

    def loss(self, log_policy: Tensor, log_old: Tensor, log_reference: Tensor, mask: Tensor, rewards: Tensor) -> Tensor:
        """The mean over this rank's outputs of the mean over an output's tokens, to be made smaller.

        - log_policy, log_old, log_reference: log probabilities of the tokens (outputs, tokens) under the policy that is
          trained, the policy that sampled, and the reference
        - mask: 1 for a token of the output, 0 for what comes after its end
        - rewards: of this rank's outputs (outputs,)

        Per token: min(ratio x advantage, clipped ratio x advantage) - beta x KL, which is to become larger. With
        advantage = (reward - mean) / (standard deviation + 1e-4) in the output's group (correction=0), and
        KL = reference / policy - log(reference / policy) - 1.
        """
        raise NotImplementedError("Write loss: advantages by group, the clipped ratio, the divergence, the two means.")
