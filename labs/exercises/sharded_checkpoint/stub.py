def parts(sizes: dict[str, int], *, rank: int, ranks: int) -> list[tuple[str, int, int, int]]:
    """What a shard of a flat buffer holds of each parameter, in words that do not depend on the number of ranks.

    The buffer is that of ZeRO: the parameters lie in it one after the other, in the order of `sizes`, padded with zeros
    to a multiple of `ranks`. It is cut into `ranks` equal shards, and rank r has the r-th.

    - sizes: how many elements each parameter has, by its name
    - each entry of the list: (name, first, count, here)
        - elements `first` to `first + count` - 1 of that parameter, counted from the parameter's own beginning ...
        - ... lie in this rank's shard from place `here` on
    - a parameter of which nothing lies in the shard has no entry, and padding is no part of any parameter

    What 4 ranks have written under these names, 3 others can read: they ask for what their own shards hold.
    """
    raise NotImplementedError("Write parts: for each parameter, the elements in the shard of this rank.")
