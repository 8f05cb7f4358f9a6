"""The course's figures: memory and traffic as measured, shards and rings as arranged, in the learner's language."""

from pathlib import Path

from labs.telemetry.drawing.diagrams import rank_table, ring
from labs.telemetry.drawing.memory import bars, memory_over_time, stacked_bars, traffic_bars
from labs.telemetry.drawing.svg import Svg
from labs.telemetry.drawing.table import Table

SAVING = Path(__file__).with_name("saving.js")
"""What offers on a page to save its figures."""

__all__ = [
    "SAVING",
    "Svg",
    "Table",
    "bars",
    "memory_over_time",
    "rank_table",
    "ring",
    "stacked_bars",
    "traffic_bars",
]
