from typing import Any


def units(model: dict[str, Any], least: int) -> list[dict[str, int]]:
    """The units that a rule by size makes of a model, each with its parameters; the last is what is left."""
    made: list[dict[str, int]] = []

    def loose(module: dict[str, Any], path: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for name, part in module.items():
            found |= loose(part, f"{path}{name}.") if isinstance(part, dict) else {f"{path}{name}": part}
        if sum(found.values()) >= least and path:
            made.append(found)
            return {}
        return found

    loose(model, "")
    return made
