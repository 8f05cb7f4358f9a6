import torch


def qkv_of_rank(weight: torch.Tensor, *, heads: int, rank: int, ranks: int) -> torch.Tensor:
    """This rank's rows of Megatron's `linear_qkv.weight`, from a matrix with all queries, all keys, all values."""
    features = weight.size(1)

    # (3, heads, features of a head, D): which of the three, which head.
    by_kind = weight.view(3, heads, -1, features)

    # Gap. Which rule does the right order keep? What belongs to one head must lie together before anything is cut.
    by_head = by_kind

    mine = by_head.chunk(ranks)[rank]
    return mine.reshape(-1, features)
