def parts(sizes: dict[str, int], *, rank: int, ranks: int) -> list[tuple[str, int, int, int]]:
    """(name, first, count, here) of what rank's shard holds of each parameter."""
    width = sum(sizes.values()) // ranks
    low, high = rank * width, (rank + 1) * width

    found, begin = [], 0
    for name, size in sizes.items():
        first, last = max(begin, low), min(begin + size, high)
        if first < last:
            found.append((name, first - begin, last - first, first - low))
        begin += size
    return found
