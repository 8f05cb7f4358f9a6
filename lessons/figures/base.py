"""What a figure is, and the words it speaks."""

from __future__ import annotations

from collections.abc import Callable

from labs.telemetry.drawing import Svg
from translations import Language, translator

Figure = Callable[[Language], Svg]


class Said:
    """The messages of the figures in one language: `said("two-halves-title")`."""

    def __init__(self, language: Language) -> None:
        self.text = translator(language)

    def __call__(self, name: str, /, **values: object) -> str:
        return self.text(f"lessons.figure-{name}", **values)
