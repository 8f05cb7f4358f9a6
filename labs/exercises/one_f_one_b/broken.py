from labs.strategies.schedules import Action, Order


def one_f_one_b(*, rank: int, ranks: int, micro_batches: int) -> Order:
    """The order of actions of one rank of a pipeline: warm up, one forward and one backward in turn, then the rest."""
    # A rank that is further back gets its first micro-batch later, so it takes longer to warm up.
    warm_up = rank
    order = [Action("F", k) for k in range(warm_up)]
    for k in range(micro_batches - warm_up):
        order += [Action("F", warm_up + k), Action("B", k)]
    return order + [Action("B", k) for k in range(micro_batches - warm_up, micro_batches)]
