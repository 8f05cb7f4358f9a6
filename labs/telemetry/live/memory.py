"""The memory of all ranks, drawn on the page while they run. Rows reach it in binary."""

from __future__ import annotations

import array
import time
from collections.abc import Mapping
from typing import Any

from labs.telemetry.categories import PHASES, Bytes
from labs.telemetry.drawing.legend import Words, entry
from labs.telemetry.drawing.memory import memory_over_time
from labs.telemetry.drawing.palette import FORMULA_DASH, LOOKS, PHASE_HEIGHT, PHASE_STRENGTH, STACKED
from labs.telemetry.drawing.series import Window, ticks
from labs.telemetry.drawing.svg import Sheet, Svg
from labs.telemetry.live.base import HERE, TOLD_EVERY, Live
from labs.telemetry.rows import Row, Told
from translations import Language

# A page that opens a moment after the first rows would miss them: until then everything is sent again.
OPENING = 4.0


class MemoryPlot(Live):
    """Bytes by category over time, a panel for each rank; the line is what the formula says of the model states."""

    def __init__(self, ranks: int, formula: Bytes | None, language: Language | str) -> None:
        super().__init__(Words.of(language))
        self._formula = formula
        self._rows: dict[int, list[Row]] = {rank: [] for rank in range(ranks)}
        self._pending: list[tuple[int, Row]] = []
        self._window = Window()
        self._peaks: dict[int, int] = {}  # since training began, as the plot shows
        self._shown = 0.0
        self._told = -TOLD_EVERY  # never yet

    @property
    def rows(self) -> Mapping[int, tuple[Row, ...]]:
        """All that was fed, by rank."""
        with self.lock:
            return {rank: tuple(rows) for rank, rows in self._rows.items()}

    def make(self) -> Any:
        self._shown = time.monotonic()
        return _plot(self.words, ranks=len(self._rows), formula=self._formula)

    def take(self, rank: int, told: Told) -> None:
        if not isinstance(told, Row):
            return
        self._rows.setdefault(rank, []).append(told)
        training = self._window.begun is not None
        self._window.learn(told)
        if training or self._window.begun is None:
            self._peaks[rank] = max(self._peaks.get(rank, 0), told.bytes.total)
        else:
            self._peaks = {rank: told.bytes.total}
        if self.widget is not None:
            self._pending.append((rank, told))

    def figure(self, data: Mapping[str, Any] | None) -> Svg:
        return memory_over_time(self.rows, formula=self._formula, language=self.words.language)

    def send(self) -> None:
        with self.lock:
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
        label = self.words.axis(highest)
        content = {
            "again": again,
            "start": times[0],
            "end": times[1],
            "time": self.words.seconds(times[1] - times[0]),
            "highest": highest,
            "ticks": [[tick, label(tick)] for tick in ticks(highest)],
            "peaks": {str(rank): self.words("peak-label", size=self.words.bytes(peaks[rank])) for rank in peaks},
            "status": self._status(latest, peaks, times),
        }
        self.widget.send(content, buffers=[numbers.tobytes()])

    def _status(self, latest: Mapping[int, Row], peaks: Mapping[int, int], times: tuple[float, float]) -> str | None:
        """Now and then, one rank's numbers in words for who does not see the plot; in between, and before a rank has
        begun its first phase, None.
        """
        now = time.monotonic()
        if self._window.begun is None or now - self._told < TOLD_EVERY:
            return None
        self._told = now
        rank = max(latest, key=lambda each: peaks.get(each, 0))
        return self.words(
            "live-now",
            time=self.words.seconds(times[1] - times[0]),
            rank=rank,
            total=self.words.bytes(latest[rank].bytes.total),
            peak=self.words.bytes(peaks.get(rank, 0)),
        )


def _plot(words: Words, *, ranks: int, formula: Bytes | None) -> Any:
    """The widget, with every word and number format it will show; the page adds none."""
    import anywidget
    import traitlets

    class LivePlot(anywidget.AnyWidget):
        _esm = HERE / "memory.js"
        _css = HERE / "live.css"
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
