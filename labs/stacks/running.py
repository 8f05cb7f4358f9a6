"""A run of a lab's script within a lab that is more than one: its ranks' reports, the live series, and a summary."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from labs.options.base import Options
from labs.runner import run
from labs.telemetry.rows import Reader, read

if TYPE_CHECKING:
    from labs.telemetry.rows import Row, Told


def run_of(
    script: Path,
    options: Options,
    *,
    ranks: int,
    timeout: float,
    on_row: Callable[[int, Told], None] | None = None,
    on_output: Callable[[int, str], None] | None = None,
    python: Path | None = None,
) -> tuple[list[dict[str, Any]], dict[int, tuple[Row, ...]]]:
    """The reports of the ranks, and the rows of what they held."""
    with tempfile.TemporaryDirectory(prefix="shardwise-") as place:
        folder = Path(place)
        with Reader(folder, ranks=ranks, on_row=on_row) if on_row else nullcontext():
            outcome = run(
                script,
                ranks=ranks,
                arguments=options.arguments(),
                timeout=timeout,
                on_output=on_output,
                folder=folder,
                python=python,
            )
        rows = read(folder)
    return [cast("dict[str, Any]", each.value) for each in outcome.ranks], rows


def summary(reports: Sequence[dict[str, Any]], *also: str) -> dict[str, Any]:
    """What the fullest rank held, and what one step moved; `also` names what some reports have besides."""
    fullest = max(reports, key=lambda each: sum(each["bytes"]["rest"].values()))
    return {
        **{name: fullest[name] for name in ("losses", "peak_total", "collectives", "axes", "predicted")},
        **{name: fullest[name] for name in also if name in fullest},
        "rest": fullest["bytes"]["rest"],
        "gathered": fullest["bytes"]["peak"]["communication"],
        "traffic": sum(count["bytes"] for count in fullest["collectives"].values()),
    }
