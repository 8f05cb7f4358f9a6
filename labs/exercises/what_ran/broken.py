from typing import Any


def ran(report: dict[str, Any], *, parameters: int, each: int) -> str:
    """What a launch on several ranks really did: "sharded", "replicated" or "alone"."""
    if not any(report["sent"].values()):
        return "alone"
    return "replicated" if report["wrapped"] == "DistributedDataParallel" else "sharded"
