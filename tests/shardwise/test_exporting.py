"""An exported lesson: formulas are drawn without a script, and what a component showed at its end stays."""

from __future__ import annotations

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from lessons.formulas import formulas
from shardwise.exporting import WIDGET, Offline


@pytest.mark.parametrize("text", ["`$a$`", "```sh\necho $HOME $PATH\n```", r"\$5 and \$6", "5$ and 6$", "no formula"])
def test_what_is_no_formula_stays(text: str) -> None:
    assert formulas(text) == text


def test_a_formula_is_drawn_left_to_right_and_markdown_leaves_it_alone() -> None:
    drawn = formulas(r"Before $P_{\max}$ and $a * b_1 * c$, then" + "\n\n$$M = \\frac{16P}{N}$$")
    assert drawn.startswith('Before <math dir="ltr"')
    assert drawn.count('display="inline"') == 2
    assert drawn.count('display="block"') == 1
    assert "<mfrac>" in drawn
    assert not set("*_`$\\") & set(drawn)


def test_live_components_are_left_out_and_what_they_left_behind_stays() -> None:
    live = new_output("display_data", data={WIDGET: {"model_id": "1"}, "text/plain": "Quiz"})
    kept = new_output("display_data", data={"text/html": "<p>7 of 9</p>"})
    notebook = new_notebook(
        metadata={"widgets": {"state": {}}}, cells=[new_markdown_cell("$N$"), new_code_cell(outputs=[live, kept])]
    )
    written, _ = Offline().preprocess(notebook, {})
    assert "widgets" not in written.metadata
    assert written.cells[1].outputs == [kept]
    assert "<math" in written.cells[0].source
