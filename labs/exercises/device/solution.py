def place(kind: str | None, count: int, backends: dict[str, str], *, ranks: int, local_rank: int) -> tuple[str, str]:
    """The device and the backend of a rank, on any machine: its own accelerator where every rank has one, else the CPU.

    kind is what torch.accelerator.current_accelerator() finds here, None where there is nothing; count how many there
    are. backends names the library of collectives for each kind that has one. ranks start on this machine.
    """
    # A kind without collectives cannot talk to other ranks, and two ranks cannot share one accelerator.
    if kind is None or kind not in backends or count < ranks:
        return "cpu", "gloo"

    # What rests in host memory is sent as well, so the CPU keeps its backend beside the accelerator's.
    return f"{kind}:{local_rank}", f"cpu:gloo,{kind}:{backends[kind]}"
