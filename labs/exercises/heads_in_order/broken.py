import torch


def qkv_of_rank(weight: torch.Tensor, *, heads: int, rank: int, ranks: int) -> torch.Tensor:
    """This rank's rows of Megatron's `linear_qkv.weight`, from a matrix with all queries, all keys, all values."""
    return weight.chunk(ranks)[rank].clone()
