"""One question with one typed answer, as a widget of native controls: a prediction, a name.

The answer is judged in Python by `on_answer`, which gives back what is said under the field. Nothing waits for
it: a notebook that nobody watches runs on.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from translations import CourseError, Language, translator

FOLDER = Path(__file__).parent


class Asking(anywidget.AnyWidget):
    """A labelled field and a button. `unit` stands behind the field; `value` is what was answered last."""

    _esm = FOLDER / "asking.js"
    _css = FOLDER / "asking.css"
    state = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        *,
        label: str,
        button: str,
        language: Language,
        on_answer: Callable[[str], str],
        unit: str = "",
        value: str = "",
        said: str = "",
        numeric: bool = False,
    ) -> None:
        super().__init__()
        self._on_answer, self._language = on_answer, language
        self.state = {
            "label": label,
            "button": button,
            "unit": unit,
            "value": value,
            "said": said,
            "wrong": False,
            "numeric": numeric,
            "lang": language.code,
            "dir": language.direction,
        }
        self.on_msg(self._received)

    def answer(self, given: str) -> None:
        """What the button does."""
        try:
            said, wrong = self._on_answer(given), False
        except CourseError as error:
            said, wrong = error.in_language(translator(self._language)), True
        self.state = self.state | {"value": given, "said": said, "wrong": wrong}

    def _received(self, _widget: Any, content: Any, _buffers: Any) -> None:
        match content:
            case {"do": "answer", "answer": str(given)}:
                self.answer(given[:1000])
