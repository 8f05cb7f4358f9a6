def parts(sizes: dict[str, int], *, rank: int, ranks: int) -> list[tuple[str, int, int, int]]:
    """(name, first, count, here) of what rank's shard holds of each parameter."""
    # Every shard has the same length, so the buffer is as long as the next multiple of the ranks.
    width = -(-sum(sizes.values()) // ranks)
    low, high = rank * width, (rank + 1) * width

    found, begin = [], 0
    for name, size in sizes.items():
        # Gap 1. The parameter is begin ... begin + size of the buffer, the shard low ... high. Which elements do both
        # have? Which rule keeps the padding out?
        first, last = begin, begin + size
        if first < last:
            # Gap 2. Two of these four are places, counted from different beginnings. Whose?
            found.append((name, first, last - first, first))
        begin += size
    return found
