"""Tables in the terminal keep their columns where text runs from right to left."""

from __future__ import annotations

import re

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from shardwise.tables import CLOSE, OPEN, isolated, show
from translations import language


def example() -> Table:
    table = Table()
    table.add_column("الرابط")
    table.add_column("السرعة")
    table.add_row("داخل العُقدة", "300 GB/s")
    table.add_row("", "25 GB/s")
    return table


def test_every_cell_is_isolated_and_as_wide_as_before() -> None:
    line = "│ داخل العُقدة  │ 300 GB/s │      │"
    told = isolated(line)
    assert re.findall(f"{OPEN}([^{CLOSE}]*){CLOSE}", told) == ["داخل العُقدة", "300 GB/s"]
    assert cell_len(told) == cell_len(line)
    plain = isolated(" 4   24  nothing    a larger bubble")
    assert re.findall(f"{OPEN}([^{CLOSE}]*){CLOSE}", plain) == ["4", "24", "nothing", "a larger bubble"]


def test_only_right_to_left_languages_get_marks(capsys: pytest.CaptureFixture[str]) -> None:
    for code, marked in (("en", False), ("ar", True)):
        show(example(), Console(width=60), language(code))
        lines = capsys.readouterr().out.splitlines()
        assert any(OPEN in line for line in lines) == marked
        assert len({cell_len(line) for line in lines}) == 1
