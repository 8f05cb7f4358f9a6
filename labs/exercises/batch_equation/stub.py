def batch_sizes(config: dict[str, int], ranks: int) -> dict[str, int]:
    """The three batch settings of a DeepSpeed configuration, with those that are missing filled in.

    config may have each of "train_batch_size" (of all ranks, in one optimizer step), "train_micro_batch_size_per_gpu"
    and "gradient_accumulation_steps" (1 where nothing else follows from the others).

    Returns all three. Raises ValueError where neither of the first two is given, and where no whole numbers fit.
    """
    raise NotImplementedError("Write batch_sizes: three settings that fit each other and the ranks.")
