def judge(layout: dict, machine: dict) -> tuple[int, float]:
    """The bytes of the fullest rank, and the seconds of a step."""
    whole = layout["parameters"]
    shard = -(-whole // layout["dp"])
    held = 2 * (shard if layout["zero"] >= 3 else whole)
    held += 4 * (shard if layout["zero"] >= 2 else whole)
    held += 12 * (shard if layout["zero"] >= 1 else whole)
    held += layout["other"]

    computing = layout["operations"] / machine["rate"]
    tensor = layout["tensor_bytes"] / machine["link"]
    idle, slots = layout["pp"] - 1, layout["chunks"] * layout["micro_batches"]
    inside = (computing + tensor) / (1 - idle / (slots + idle))

    near = layout["dp"] <= machine["node"]
    data = layout["data_bytes"] / (machine["link"] if near else machine["network"])
    return held, inside + (1 - layout["hidden"]) * data


def pick(layouts: list[dict], machine: dict) -> int | None:
    """The place in the list of the fastest layout that fits; None if none fits."""
    best = None
    for place, layout in enumerate(layouts):
        held, seconds = judge(layout, machine)
        if held <= machine["memory"] and (best is None or seconds < best[0]):
            best = (seconds, place)
    return None if best is None else best[1]
