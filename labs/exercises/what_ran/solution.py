from typing import Any


def ran(report: dict[str, Any], *, parameters: int, each: int) -> str:
    """What a launch on several ranks really did: "sharded", "replicated" or "alone".

    report is what the ranks printed: "wrapped", the type around the model; "adam", the bytes that Adam keeps on each
    rank; "sent", the bytes that one step moved, by collective. Whole, Adam keeps `each` bytes for each parameter.
    """
    # Ranks that train one model send something in every step.
    if not any(report["sent"].values()):
        return "alone"

    # The fullest rank decides, and its bytes do: the type around the model only says what was meant.
    return "replicated" if max(report["adam"]) >= each * parameters else "sharded"
