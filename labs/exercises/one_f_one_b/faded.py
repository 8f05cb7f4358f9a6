from labs.strategies.schedules import Action, Order


def one_f_one_b(*, rank: int, ranks: int, micro_batches: int) -> Order:
    """The order of actions of one rank of a pipeline: warm up, one forward and one backward in turn, then the rest."""
    # Gap. Which rule does the right number keep? With it, the first backward comes just when this rank has finished its
    # forwards: micro-batch 0 has been to the last rank and back. How many ranks are behind this one?
    warm_up = 0
    order = [Action("F", k) for k in range(warm_up)]

    # From here on each forward is followed by the oldest backward: what comes in goes out, and no more is held.
    for k in range(micro_batches - warm_up):
        order += [Action("F", warm_up + k), Action("B", k)]

    # Gap. Which rule does the missing line keep? Every micro-batch that went forward comes back.
    return order
