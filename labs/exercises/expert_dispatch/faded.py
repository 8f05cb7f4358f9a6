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
    """y_t = gate_t * expert_t(x_t), wherever that expert lives; 0 for a token that finds no place there."""
    ranks = dist.get_world_size(group)

    # The first token that wants an expert gets its place 0, the next its place 1.
    wants_TE = F.one_hot(expert_T, count)
    place_T = (wants_TE.cumsum(0) * wants_TE).sum(-1) - 1
    kept_M = (place_T < places).nonzero().squeeze(-1)
    seat = expert_T[kept_M], place_T[kept_M]

    # Gap 1. Which rule does the missing step keep? A token is computed on the rank of its expert, and all ranks send.
    given_ECD = x_TD.new_zeros(count, places, x_TD.size(-1)).index_put(seat, x_TD[kept_M])
    arrived_ECD = given_ECD

    # What each rank sent lies one below the other. Each expert here has places in all of them: side by side.
    made_XCD = experts(torch.cat(arrived_ECD.chunk(ranks), dim=1))

    # Gap 2. Which rule does the missing step keep? Results go back to the rank whose tokens they are.
    back_ECD = torch.cat(made_XCD.chunk(ranks, dim=1))

    y_MD = back_ECD[seat] * gate_T[kept_M].unsqueeze(-1)
    return torch.zeros_like(x_TD).index_put((kept_M,), y_MD)
