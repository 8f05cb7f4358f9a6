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
    if len(x_TD) == 0:
        return x_TD

    wants_TE = F.one_hot(expert_T, count)
    place_T = (wants_TE.cumsum(0) * wants_TE).sum(-1) - 1
    kept_M = (place_T < places).nonzero().squeeze(-1)
    seat = expert_T[kept_M], place_T[kept_M]

    given_ECD = x_TD.new_zeros(count, places, x_TD.size(-1)).index_put(seat, x_TD[kept_M])
    arrived_ECD = all_to_all(given_ECD, group)

    made_XCD = experts(torch.cat(arrived_ECD.chunk(ranks), dim=1))
    back_ECD = all_to_all(torch.cat(made_XCD.chunk(ranks, dim=1)), group)

    y_MD = back_ECD[seat] * gate_T[kept_M].unsqueeze(-1)
    return torch.zeros_like(x_TD).index_put((kept_M,), y_MD)
