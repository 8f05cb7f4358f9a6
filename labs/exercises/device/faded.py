def place(kind: str | None, count: int, backends: dict[str, str], *, ranks: int, local_rank: int) -> tuple[str, str]:
    """The device and the backend of a rank, on any machine: its own accelerator where every rank has one, else the CPU.

    kind is what torch.accelerator.current_accelerator() finds here, None where there is nothing; count how many there
    are. backends names the library of collectives for each kind that has one. ranks start on this machine.
    """
    # Gap. Which rule does this condition keep? Every rank of this machine needs an accelerator of its own.
    if kind is None or kind not in backends:
        return "cpu", "gloo"

    # What rests in host memory is sent as well, so the CPU keeps its backend beside the accelerator's.
    return f"{kind}:{local_rank}", f"cpu:gloo,{kind}:{backends[kind]}"
