"""The memory of all ranks, drawn while they run, also while the notebook's cell is busy.

Rows are fed from any thread; they reach the page in binary, at most twenty times a second. When the run ends, the
moving picture gives its place to the same one at rest: an ordinary SVG output, which stays in the notebook. Where no
page looks on, feeding only collects.
"""

from __future__ import annotations

import array
import contextlib
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labs.telemetry.categories import PHASES, Bytes
from labs.telemetry.drawing.legend import Words, entry
from labs.telemetry.drawing.memory import memory_over_time
from labs.telemetry.drawing.palette import FORMULA_DASH, LOOKS, PHASE_HEIGHT, PHASE_STRENGTH, STACKED
from labs.telemetry.drawing.series import Window, ticks
from labs.telemetry.drawing.svg import Sheet, Svg
from labs.telemetry.rows import Row, Told
from translations import Language

EVERY = 0.05
TOLD_EVERY = 1.5
# A page that opens a moment after the first rows would miss them: until then everything is sent again.
OPENING = 4.0

_HERE = Path(__file__).parent


class Live:
    """`show()` it, `feed` it rows from any thread, and `finish()` it: then it is a figure. None of them fails a run."""

    def __init__(self, ranks: int, formula: Bytes | None, language: Language | str) -> None:
        self._words = Words.of(language)
        self._formula = formula
        self._rows: dict[int, list[Row]] = {rank: [] for rank in range(ranks)}
        self._pending: list[tuple[int, Row]] = []
        self._window = Window()
        self._peaks: dict[int, int] = {}  # since training began, as the plot shows
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._plot: Any = None
        self._place: Any = None
        self._sender: threading.Thread | None = None
        self._shown = 0.0
        self._told = -TOLD_EVERY  # never yet

    @property
    def rows(self) -> Mapping[int, tuple[Row, ...]]:
        """All that was fed, by rank."""
        with self._lock:
            return {rank: tuple(rows) for rank, rows in self._rows.items()}

    def show(self) -> None:
        """Put the plot under the running cell. Does nothing where there is no notebook."""
        from IPython import get_ipython

        if getattr(get_ipython(), "kernel", None) is None:
            return
        from IPython.display import display

        self._plot = _plot(self._words, ranks=len(self._rows), formula=self._formula)
        self._place = display(self._plot, display_id=True)  # type: ignore[no-untyped-call]
        self._shown = time.monotonic()
        self._sender = threading.Thread(target=self._send_until_the_end, name="live plot", daemon=True)
        self._sender.start()

    def feed(self, rank: int, row: Told) -> None:
        """What a rank tells next, of which only memory is drawn. A rank that was not announced is taken in."""
        if not isinstance(row, Row):
            return
        with self._lock:
            self._rows.setdefault(rank, []).append(row)
            training = self._window.begun is not None
            self._window.learn(row)
            if training or self._window.begun is None:
                self._peaks[rank] = max(self._peaks.get(rank, 0), row.bytes.total)
            else:
                self._peaks = {rank: row.bytes.total}
            if self._plot is not None:
                self._pending.append((rank, row))

    def finish(self) -> Svg:
        """The run is over, well or not: the figure of what was fed, which takes the plot's place in the notebook."""
        self._ended.set()
        if self._sender is not None:
            self._sender.join(timeout=5)
        figure = memory_over_time(self.rows, formula=self._formula, language=self._words.language)
        if self._place is not None:
            self._place.update(figure)
            self._plot.close()
            self._plot = self._place = None
        return figure

    # --- sending, in a thread of its own

    def _send_until_the_end(self) -> None:
        ended = False
        while not ended:
            ended = self._ended.wait(EVERY)
            with contextlib.suppress(Exception):  # a page that is gone is no reason to disturb a run
                self._send()

    def _send(self) -> None:
        with self._lock:
            if not self._pending:
                return
            again = time.monotonic() - self._shown < OPENING
            fresh, self._pending = self._pending, []
            if again:
                fresh = [(rank, row) for rank, rows in self._rows.items() for row in rows]
            latest = {rank: rows[-1] for rank, rows in self._rows.items() if rows}
            times, peaks = self._window.times, dict(self._peaks)
        numbers = array.array("d")
        for rank, row in fresh:
            phase = PHASES.index(row.phase) if row.phase in PHASES else -1
            numbers.extend([rank, row.seconds, phase, *(getattr(row.bytes, category) for category in STACKED)])
        expected = self._formula.model_states if self._formula is not None else 0
        highest = max([expected, *peaks.values()]) * 1.14 or 1.0
        label = self._words.axis(highest)
        content = {
            "again": again,
            "start": times[0],
            "end": times[1],
            "time": self._words.seconds(times[1] - times[0]),
            "highest": highest,
            "ticks": [[tick, label(tick)] for tick in ticks(highest)],
            "peaks": {str(rank): self._words("peak-label", size=self._words.bytes(peaks[rank])) for rank in peaks},
            "status": self._status(latest, peaks, times),
        }
        self._plot.send(content, buffers=[numbers.tobytes()])

    def _status(self, latest: Mapping[int, Row], peaks: Mapping[int, int], times: tuple[float, float]) -> str | None:
        """Now and then, one rank's numbers in words for who does not see the plot; in between, and before a rank has
        begun its first phase, None.
        """
        now = time.monotonic()
        if self._window.begun is None or now - self._told < TOLD_EVERY:
            return None
        self._told = now
        rank = max(latest, key=lambda each: peaks.get(each, 0))
        return self._words(
            "live-now",
            time=self._words.seconds(times[1] - times[0]),
            rank=rank,
            total=self._words.bytes(latest[rank].bytes.total),
            peak=self._words.bytes(peaks.get(rank, 0)),
        )


def _plot(words: Words, *, ranks: int, formula: Bytes | None) -> Any:
    """The widget, with every word and number format it will show; the page adds none."""
    import anywidget
    import traitlets

    class LivePlot(anywidget.AnyWidget):
        _esm = _HERE / "live.js"
        _css = _HERE / "live.css"
        setup = traitlets.Dict().tag(sync=True)

        def __repr__(self) -> str:
            return words("live-name")

    entries = [entry("category", name, words) for name in STACKED] + [entry("phase", name, words) for name in PHASES]
    if formula is not None:
        entries.append(entry("formula", "formula-states", words))
    legend = []
    for label, draw in entries:
        sheet = Sheet(width=18, height=14, language=words.language)
        draw(sheet, 0, 11)
        legend.append({"label": label, "sign": sheet.svg(alt=label).markup})
    return LivePlot(
        setup={
            "name": words("live-name"),
            "waiting": words("live-waiting"),
            "direction": words.language.direction,
            "language": words.language.code,
            "ranks": [words("rank", rank=rank) for rank in range(ranks)],
            "looks": [
                {"colour": LOOKS[name].colour, "ink": LOOKS[name].ink, "pattern": LOOKS[name].pattern}
                for name in STACKED
            ],
            "phases": [{"strength": PHASE_STRENGTH[name], "height": PHASE_HEIGHT[name]} for name in PHASES],
            "formula": formula.model_states if formula is not None else 0,
            "dash": [float(part) for part in FORMULA_DASH.split()],
            "legend": legend,
        }
    )
