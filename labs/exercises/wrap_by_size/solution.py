from typing import Any


def units(model: dict[str, Any], least: int) -> list[dict[str, int]]:
    """The units that a rule by size makes of a model, each with its parameters; the last is what is left."""
    made: list[dict[str, int]] = []

    def loose(module: dict[str, Any], path: str) -> dict[str, int]:
        """The parameters of a module that are in no unit yet, by their full name."""
        found: dict[str, int] = {}
        for name, part in module.items():
            # From the leaves up: what is inside decides first, and only what it leaves belongs to this module.
            found |= loose(part, f"{path}{name}.") if isinstance(part, dict) else {f"{path}{name}": part}
        if sum(found.values()) >= least and path:
            made.append(found)
            return {}
        return found

    left = loose(model, "")
    # The whole model is a unit too: else nobody would gather what no smaller unit has.
    return [*made, left]
