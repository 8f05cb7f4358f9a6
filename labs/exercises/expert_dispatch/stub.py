from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional as F

from labs.strategies.expert import all_to_all


def through_experts(
    x_TD: Tensor,
    expert_T: Tensor,
    gate_T: Tensor,
    experts: Callable[[Tensor], Tensor],
    *,
    count: int,
    places: int,
    group: dist.ProcessGroup,
) -> Tensor:
    """y_t = gate_t * expert_t(x_t), wherever that expert lives; 0 for a token that finds no place there.

    There are `count` experts, E. Each of N ranks holds X = E / N of them, expert e on rank e // X, and calls this with
    its own T tokens. T differs from rank to rank and may be 0.

    - expert_T: the expert that each token wants; gate_T: what its result is multiplied by
    - places: C, how many tokens of one rank an expert takes, in the order of the tokens
    - experts(given): (X, N C, D) to the same shape, the experts here; row x is what expert x is given
    - all_to_all(buffer, group): part n of N equal parts of the buffer goes to rank n, what came from rank n is part n
      of the result. Backward sends the gradients back: if it runs on one rank, it has to run on all
    - buffer.index_put((e, c), values): a copy of the buffer with values at those places. Gradients pass
    """
    raise NotImplementedError("Write through_experts: seat the tokens, send, compute, send back, take your results.")
