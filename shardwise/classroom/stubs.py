"""What `nbgrader generate_assignment` does to the notebooks of a class: nothing that would undo them.

nbgrader clears a solution cell in which no solution is marked. The notebooks of the exercises hold no solution, only
what a student begins with, so their cells stay; a teacher's own notebooks in the same course are cleared as ever. And
it leaves out every notebook below the top, where those of the other languages lie: they are handed on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nbgrader.converters import GenerateAssignment  # type: ignore[import-untyped]
from nbgrader.preprocessors import ClearSolutions, NbGraderPreprocessor  # type: ignore[import-untyped]

GIVEN = "given"
"""In a cell's metadata, under `shardwise`: what stands in the cell is what students get."""
FOLDER = "languages"


class KeepStubs(ClearSolutions):  # type: ignore[misc]
    """Clears solutions, but for cells that say that they hold none."""

    def preprocess_cell(self, cell: Any, resources: Any, cell_index: int) -> tuple[Any, Any]:
        if cell.metadata.get("shardwise", {}).get(GIVEN) is True:
            return cell, resources
        cleared: tuple[Any, Any] = super().preprocess_cell(cell, resources, cell_index)
        return cleared


class WithLanguages(NbGraderPreprocessor):  # type: ignore[misc]
    """Puts an assignment's notebooks in other languages beside the one that nbgrader makes. They hold no solutions."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        if assignment := nb.metadata.get("shardwise", {}).get("assignment"):
            folder = Path(resources["metadata"]["path"])
            for path in sorted(folder.glob(f"{FOLDER}/{assignment}.*.ipynb")):
                resources.setdefault("outputs", {})[f"{FOLDER}/{path.name}"] = path.read_bytes()
        return nb, resources


def preprocessors() -> list[Any]:
    """nbgrader's own steps of `generate_assignment`, with ours in the place of the one that clears solutions."""
    own = [KeepStubs if each is ClearSolutions else each for each in GenerateAssignment.preprocessors.default_args[0]]
    return [*own, WithLanguages]
