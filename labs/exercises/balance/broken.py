def balance(costs: list[int], stages: int) -> list[int]:
    """How many consecutive pieces each pipeline stage gets, so that the heaviest stage is as light as can be."""
    each, rest = divmod(len(costs), stages)
    return [each + (stage < rest) for stage in range(stages)]
