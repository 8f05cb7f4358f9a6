import torch


def qkv_of_rank(weight: torch.Tensor, *, heads: int, rank: int, ranks: int) -> torch.Tensor:
    """This rank's rows of Megatron's `linear_qkv.weight`, from a matrix with all queries, all keys, all values."""
    features = weight.size(1)

    # (3, heads, features of a head, D): which of the three, which head.
    by_kind = weight.view(3, heads, -1, features)

    # (heads, 3, ...): query, key and value of one head lie together, so that a cut gives whole heads.
    by_head = by_kind.transpose(0, 1)

    mine = by_head.chunk(ranks)[rank]
    return mine.reshape(-1, features)
