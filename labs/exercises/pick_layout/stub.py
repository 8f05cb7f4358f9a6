def judge(layout: dict, machine: dict) -> tuple[int, float]:
    """The bytes of the fullest rank, and the seconds of a step.

    layout    dp, tp, pp, and of the schedule: micro_batches of a step, chunks of layers on each stage (1: no interleaving)
              zero: 0 to 3; parameters of the fullest rank, each with 2 bytes, 4 of gradient and 12 of optimizer states;
              a shard is rounded up to whole parameters
              other: bytes of all that is no model state
              operations: what the fullest rank computes in a step, recomputation included
              tensor_bytes, data_bytes: what it sends on each axis in a step; the pipeline's messages are hidden
              hidden: the share of the data axis that backward hides
    machine   memory: bytes of a GPU; rate: operations a second that it reaches
              link, network: bytes a second inside of a node and between nodes; node: the GPUs of a node
              Ranks are counted with the tensor axis innermost, then the data axis, then the pipeline.
    """
    raise NotImplementedError("Write judge and pick: bytes and seconds of a layout, and the fastest that fits.")


def pick(layouts: list[dict], machine: dict) -> int | None:
    """The place in the list of the fastest layout that fits; None if none fits."""
    raise NotImplementedError("Write judge and pick: bytes and seconds of a layout, and the fastest that fits.")
