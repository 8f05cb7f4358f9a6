def judge(layout: dict, machine: dict) -> tuple[int, float]:
    """The bytes of the fullest rank, and the seconds of a step."""
    # ZeRO shards over the data axis only, and each stage one thing more: with dp 1 a shard is all there is.
    whole = layout["parameters"]
    shard = -(-whole // layout["dp"])
    held = 2 * (shard if layout["zero"] >= 3 else whole)
    held += 4 * (shard if layout["zero"] >= 2 else whole)
    held += 12 * (shard if layout["zero"] >= 1 else whole)
    held += layout["other"]

    # What happens in every slot of the timetable: computing, and the tensor axis, for which computing waits.
    computing = layout["operations"] / machine["rate"]
    tensor = layout["tensor_bytes"] / machine["link"]
    # Gap. Which rule does the right line keep? The bubble is a share of the whole step of the pipeline.
    inside = computing + tensor

    # Once a step, after the last slot. The ranks of a data group lie tp apart, so it reaches over tp x dp of them.
    near = layout["tp"] * layout["dp"] <= machine["node"]
    data = layout["data_bytes"] / (machine["link"] if near else machine["network"])
    return held, inside + (1 - layout["hidden"]) * data


def pick(layouts: list[dict], machine: dict) -> int | None:
    """The place in the list of the fastest layout that fits; None if none fits."""
    best = None
    for place, layout in enumerate(layouts):
        held, seconds = judge(layout, machine)
        # Gap. Which rule does the right condition keep? Fitting is a condition, not a price.
        if best is None or seconds < best[0]:
            best = (seconds, place)
    return None if best is None else best[1]
