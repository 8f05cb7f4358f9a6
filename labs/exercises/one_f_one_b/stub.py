from labs.strategies.schedules import Action, Order


def one_f_one_b(*, rank: int, ranks: int, micro_batches: int) -> Order:
    """The order of actions of one rank of a pipeline: warm up, one forward and one backward in turn, then the rest.

    An order is a list: Action("F", k) is the forward of micro-batch k, Action("B", k) its backward; both count from 0.
    A rank does what its list says, one after the other. It waits where something has not come yet: a forward needs that
    of the rank before, a backward that of the rank after.

    - rank, ranks: i and p; the first layers are on rank 0, the last ones on rank p - 1
    - micro_batches: m, at least p

    Every micro-batch goes forward once and backward once. The ranks together are idle no longer than with GPipe, and
    rank i never holds more than p - i micro-batches whose backward is still to come.
    """
    raise NotImplementedError("Write one_f_one_b: forwards to warm up, then one forward and one backward in turn.")
