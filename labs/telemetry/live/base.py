"""How a view of a run comes onto the page, also while the notebook's cell is busy, and what it leaves there.

What ranks tell is fed from any thread; it reaches the page at most twenty times a second. When the run ends, the moving
view gives its place to the same one at rest: an ordinary SVG output, which stays in the notebook. Where no page looks
on, feeding only collects.
"""

from __future__ import annotations

import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labs.telemetry.drawing.legend import Words
from labs.telemetry.drawing.predicted import table_beside
from labs.telemetry.drawing.svg import Svg
from labs.telemetry.rows import Told

EVERY = 0.05
TOLD_EVERY = 1.5
"""Seconds between two sentences of the status line, which a screen reader reads aloud."""
HERE = Path(__file__).parent


class Live(ABC):
    """`show()` it, `feed` it from any thread, and `finish()` it: then it is a figure. None of them fails a run."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self.lock = threading.Lock()
        self.widget: Any = None
        self._place: Any = None
        self._ended = threading.Event()
        self._sender: threading.Thread | None = None

    def show(self) -> None:
        """Put the view under the running cell. Does nothing where there is no notebook."""
        from IPython import get_ipython

        if getattr(get_ipython(), "kernel", None) is None:
            return
        from IPython.display import display

        self.widget = self.make()
        self._place = display(self.widget, display_id=True)  # type: ignore[no-untyped-call]
        self._sender = threading.Thread(target=self._send_until_the_end, name="live view", daemon=True)
        self._sender.start()

    def feed(self, rank: int, told: Told) -> None:
        """What a rank tells next. A rank that was not announced is taken in."""
        with self.lock:
            self.take(rank, told)

    def finish(self, data: Mapping[str, Any] | None = None) -> Svg:
        """The run is over: the figure of what was fed, which takes the view's place in the notebook. `data` is the
        lab's JSON; None for a run that broke.
        """
        self._ended.set()
        if self._sender is not None:
            self._sender.join(timeout=5)
        figure = self.figure(data)
        if data is not None:
            figure = figure.beside(figure.table + table_beside(data, self.words))
        if self._place is not None:
            self._place.update(figure)
            self.widget.close()
            self.widget = self._place = None
        return figure

    def _send_until_the_end(self) -> None:
        ended = False
        while not ended:
            ended = self._ended.wait(EVERY)
            with contextlib.suppress(Exception):  # a page that is gone is no reason to disturb a run
                self.send()

    # --- what a view is

    @abstractmethod
    def make(self) -> Any:
        """The widget, with every word and number format it will show; the page adds none."""

    @abstractmethod
    def take(self, rank: int, told: Told) -> None:
        """Remember what was told; the lock is held."""

    @abstractmethod
    def send(self) -> None:
        """Bring the page up to date, where there is anything new."""

    @abstractmethod
    def figure(self, data: Mapping[str, Any] | None) -> Svg:
        """The view at rest."""
