def batch_sizes(config: dict[str, int], ranks: int) -> dict[str, int]:
    """The three batch settings of a DeepSpeed configuration, with those that are missing filled in."""
    train = config.get("train_batch_size")
    micro = config.get("train_micro_batch_size_per_gpu")
    steps = config.get("gradient_accumulation_steps")
    if train is None and micro is None:
        raise ValueError("neither the batch of all ranks nor that of one is given")

    if steps is None and (train is None or micro is None):
        steps = 1
    if train is None:
        train = micro * steps
    elif micro is None:
        micro = train // steps
    elif steps is None:
        steps = train // micro

    if train != micro * steps:
        raise ValueError(f"{train} is not {micro} x {steps}")
    return {
        "train_batch_size": train,
        "train_micro_batch_size_per_gpu": micro,
        "gradient_accumulation_steps": steps,
    }
