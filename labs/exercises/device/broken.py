def place(kind: str | None, count: int, backends: dict[str, str], *, ranks: int, local_rank: int) -> tuple[str, str]:
    """The device and the backend of a rank: its own GPU where every rank has one, else the CPU."""
    if kind == "cuda" and count >= ranks:
        return f"cuda:{local_rank}", "cpu:gloo,cuda:nccl"
    return "cpu", "gloo"
