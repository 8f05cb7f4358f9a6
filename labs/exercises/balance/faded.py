from functools import cache
from itertools import accumulate


def balance(costs: list[int], stages: int) -> list[int]:
    """How many consecutive pieces each pipeline stage gets, so that the heaviest stage is as light as can be."""
    before = [0, *accumulate(costs)]

    @cache
    def best(first: int, stages: int) -> tuple[int, tuple[int, ...]]:
        """The heaviest stage, and the sizes, when the pieces from `first` on are cut into so many stages."""
        rest = len(costs) - first
        if stages == 1:
            return before[-1] - before[first], (rest,)
        found = []
        # Leave at least one piece for each of the stages behind this one.
        for size in range(1, rest - stages + 2):
            own = before[first + size] - before[first]
            heaviest, sizes = best(first + size, stages - 1)
            # Gap. Which rule does the right number keep? A step takes as long as its slowest stage.
            found.append((min(own, heaviest), (size, *sizes)))
        return min(found)

    return list(best(0, stages)[1])
