"""A notebook as a page that needs no network: formulas as MathML, and of live components what they left behind."""

from __future__ import annotations

import re
from typing import Any

from nbconvert.preprocessors import Preprocessor

WIDGET = "application/vnd.jupyter.widget-view+json"
_FORMULA = re.compile(
    r"(?P<code>^(?P<fence>`{3,}|~{3,}).*?^(?P=fence)[^\n]*$|(?P<tick>`+).+?(?P=tick)|\\\$)"
    r"|\$\$(?P<block>.+?)\$\$|\$(?=\S)(?P<inline>[^$\n]+?)(?<=\S)\$(?!\d)",
    re.DOTALL | re.MULTILINE,
)


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


def formulas(text: str) -> str:
    """Markdown with its $formulas$ as MathML, which browsers draw by themselves; code stays as it is."""
    return _FORMULA.sub(_written, text)


def _written(found: re.Match[str]) -> str:
    from latex2mathml.converter import convert

    if found["code"] is not None:
        return found[0]
    block = found["block"] is not None
    drawn = convert(found["block"] if block else found["inline"], display="block" if block else "inline")
    for sign in "*_`":  # Markdown would read them as its own
        drawn = drawn.replace(sign, f"&#{ord(sign)};")
    return drawn.replace("<math ", '<math dir="ltr" ', 1)
