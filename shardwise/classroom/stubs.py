"""What `nbgrader generate_assignment` does to the cells of a class's notebooks: nothing that would undo them.

nbgrader clears a solution cell in which no solution is marked. The notebooks of the exercises hold no solution, only
what a student begins with, so their cells stay; a teacher's own notebooks in the same course are cleared as ever.
"""

from __future__ import annotations

from typing import Any

from nbgrader.converters import GenerateAssignment  # type: ignore[import-untyped]
from nbgrader.preprocessors import ClearSolutions  # type: ignore[import-untyped]

GIVEN = "given"
"""In a cell's metadata, under `shardwise`: what stands in the cell is what students get."""


class KeepStubs(ClearSolutions):  # type: ignore[misc]
    """Clears solutions, but for cells that say that they hold none."""

    def preprocess_cell(self, cell: Any, resources: Any, cell_index: int) -> tuple[Any, Any]:
        if cell.metadata.get("shardwise", {}).get(GIVEN) is True:
            return cell, resources
        cleared: tuple[Any, Any] = super().preprocess_cell(cell, resources, cell_index)
        return cleared


def preprocessors() -> list[Any]:
    """nbgrader's own steps of `generate_assignment`, with ours in the place of the one that clears solutions."""
    return [KeepStubs if each is ClearSolutions else each for each in GenerateAssignment.preprocessors.default_args[0]]
