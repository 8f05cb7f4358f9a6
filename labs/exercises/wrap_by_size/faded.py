from typing import Any


def units(model: dict[str, Any], least: int) -> list[dict[str, int]]:
    """The units that a rule by size makes of a model, each with its parameters; the last is what is left."""
    made: list[dict[str, int]] = []

    def loose(module: dict[str, Any], path: str) -> dict[str, int]:
        """The parameters of a module that are in no unit yet, by their full name."""
        found: dict[str, int] = {}
        for name, part in module.items():
            found |= loose(part, f"{path}{name}.") if isinstance(part, dict) else {f"{path}{name}": part}
        if sum(found.values()) >= least and path:
            made.append(found)
            # Gap. Which rule does the right line keep? Each parameter lies in exactly one unit.
            return found
        return found

    left = loose(model, "")
    # The whole model is a unit too: else nobody would gather what no smaller unit has.
    return [*made, left]
