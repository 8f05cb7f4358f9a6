def balance(costs: list[int], stages: int) -> list[int]:
    """How many consecutive pieces each pipeline stage gets, so that the heaviest stage is as light as can be.

    costs are those of the pieces of a model, in order: the embedding, each layer, the head. A stage costs the sum of
    its pieces. Every stage gets at least one; there are at least as many pieces as stages.

    Returns as many numbers as there are stages; together they are all pieces.
    """
    raise NotImplementedError("Write balance: how many pieces each stage gets.")
