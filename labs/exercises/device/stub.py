def place(kind: str | None, count: int, backends: dict[str, str], *, ranks: int, local_rank: int) -> tuple[str, str]:
    """The device and the backend of a rank, on any machine: its own accelerator where every rank has one, else the CPU.

    kind is what torch.accelerator.current_accelerator() finds here ("cuda", also on AMD's GPUs, "xpu", "mps", ...),
    None where there is nothing; count how many there are. backends names the library of collectives for each kind that
    has one, such as {"cuda": "nccl", "xpu": "xccl"}. ranks start on this machine, of which this one is local_rank.

    Returns ("cuda:1", "cpu:gloo,cuda:nccl"), or ("cpu", "gloo"). Two ranks cannot share an accelerator.
    """
    raise NotImplementedError("Write place: a device and a backend.")
