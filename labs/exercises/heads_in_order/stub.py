import torch


def qkv_of_rank(weight: torch.Tensor, *, heads: int, rank: int, ranks: int) -> torch.Tensor:
    """This rank's rows of Megatron's `linear_qkv.weight`, from a matrix with all queries, all keys, all values.

    weight (3 D, D) is that of a layer which was trained without tensor parallelism: D rows of queries, D of keys, D of
    values, and within each the heads one after the other, D / heads rows each. Megatron keeps the query, the key and
    the value of head 0 together, then those of head 1, and so on; `rank` of `ranks` has its equal part of that.

    Returns (3 D / ranks, D). Nothing is sent: every rank has the whole matrix.
    """
    raise NotImplementedError("Write qkv_of_rank: order the rows by heads, then take the part of this rank.")
