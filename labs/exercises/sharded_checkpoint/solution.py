def parts(sizes: dict[str, int], *, rank: int, ranks: int) -> list[tuple[str, int, int, int]]:
    """(name, first, count, here) of what rank's shard holds of each parameter."""
    # Every shard has the same length, so the buffer is as long as the next multiple of the ranks.
    width = -(-sum(sizes.values()) // ranks)
    low, high = rank * width, (rank + 1) * width

    found, begin = [], 0
    for name, size in sizes.items():
        # The parameter is begin ... begin + size of the buffer, the shard low ... high: what both have is in between.
        # Since no parameter reaches into the padding, the padding is in nobody's part.
        first, last = max(begin, low), min(begin + size, high)
        if first < last:
            # The same place counted twice: from the parameter's beginning, and from the shard's.
            found.append((name, first - begin, last - first, first - low))
        begin += size
    return found
