from typing import Any


def ran(report: dict[str, Any], *, parameters: int, each: int) -> str:
    """What a launch on several ranks really did: "sharded", "replicated" or "alone".

    report is what the ranks printed: "wrapped", the type around the model; "adam", the bytes that Adam keeps on each
    rank; "sent", the bytes that one step moved, by collective. Whole, Adam keeps `each` bytes for each of the
    parameters. Returns "alone" where no rank heard of another, "replicated" where a rank keeps all of Adam's states.
    """
    raise NotImplementedError("Write ran: what a launch really did.")
