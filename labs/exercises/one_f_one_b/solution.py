from labs.strategies.schedules import Action, Order


def one_f_one_b(*, rank: int, ranks: int, micro_batches: int) -> Order:
    """The order of actions of one rank of a pipeline: warm up, one forward and one backward in turn, then the rest."""
    # The first backward comes when micro-batch 0 has been to the last rank and back. Until then this rank has nothing
    # else to do than forwards, one for each rank behind it; the last rank has none behind it and needs no warming up.
    warm_up = ranks - 1 - rank
    order = [Action("F", k) for k in range(warm_up)]

    # From here on each forward is followed by the oldest backward: what comes in goes out, and no more is held.
    for k in range(micro_batches - warm_up):
        order += [Action("F", warm_up + k), Action("B", k)]

    # No forwards are left; the backwards of the last ones are.
    return order + [Action("B", k) for k in range(micro_batches - warm_up, micro_batches)]
