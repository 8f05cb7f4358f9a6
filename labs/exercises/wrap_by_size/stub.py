from typing import Any


def units(model: dict[str, Any], least: int) -> list[dict[str, int]]:
    """The units that a rule by size makes of a model, each with its parameters; the last is what is left.

    model is a tree: under each name stands a parameter, as its number of elements, or a module, as a dictionary. From
    the leaves up, a module becomes a unit as soon as at least `least` elements inside of it are in no unit yet.

    Returns the units in the order in which they are made, each as {full name: elements}, such as
    {"block.attention.weight": 64}. The last is the whole model's: all that no other has, be it nothing.
    """
    raise NotImplementedError("Write units: which parameters are gathered together.")
