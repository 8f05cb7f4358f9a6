"""A notebook as a page that needs no network: formulas as MathML, and of live components what they left behind."""

from __future__ import annotations

from typing import Any

from nbconvert.preprocessors import Preprocessor

from lessons.formulas import formulas

WIDGET = "application/vnd.jupyter.widget-view+json"


class Offline(Preprocessor):
    """Leaves nothing in the notebook for which the exported page would have to load a script.

    A component can't live without its kernel; what it showed at its end stands beside it as an ordinary output.
    """

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        nb.metadata.pop("widgets", None)
        for index, cell in enumerate(nb.cells):
            nb.cells[index], resources = self.preprocess_cell(cell, resources, index)
        return nb, resources

    def preprocess_cell(self, cell: Any, resources: Any, index: int) -> tuple[Any, Any]:
        if cell.cell_type == "markdown":
            cell.source = formulas(cell.source)
        elif cell.cell_type == "code":
            cell.outputs = [each for each in cell.outputs if WIDGET not in each.get("data", {})]
        return cell, resources
