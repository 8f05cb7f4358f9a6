def judge(layout: dict, machine: dict) -> tuple[int, float]:
    """The bytes of the fullest rank, and the seconds of a step.

    Of the layout: `dp`, `tp`, `pp`, `zero` (0 to 3), `micro_batches` of a step, `chunks` of each stage (1 or more).

    Of its fullest rank: `parameters`, each with 2 bytes, 4 of gradient and 12 of optimizer states (a shard is rounded
    up to whole parameters); `other`, the bytes of all that is no model state; `operations`, what it computes in a step;
    `tensor_bytes` and `data_bytes`, what it sends in a step; `hidden`, the share of the data axis that backward hides.
    The messages of the pipeline are hidden.

    Of the machine: `memory` of a GPU in bytes, `rate` in operations a second that it reaches, `link` and `network` in
    bytes a second inside of a node and between nodes, `node`, the GPUs of a node. Ranks are counted with the tensor
    axis innermost, then the data axis, then the pipeline.
    """
    raise NotImplementedError("Write judge and pick: bytes and seconds of a layout, and the fastest that fits.")


def pick(layouts: list[dict], machine: dict) -> int | None:
    """The place in the list of the fastest layout that fits; None if none fits."""
    raise NotImplementedError("Write judge and pick: bytes and seconds of a layout, and the fastest that fits.")
