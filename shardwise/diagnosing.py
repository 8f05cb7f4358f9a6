"""Naming what is broken: which rank, which operation, which rule. Native radio buttons, judged in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from quiz import rendering
from translations import Language, translator

FOLDER = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One thing to choose, and what choosing it would mean."""

    key: str
    text: str
    feedback: str


@dataclass(frozen=True, kw_only=True)
class Part:
    """One of the questions; `answer` is the key of the right choice."""

    key: str
    question: str
    answer: str
    choices: tuple[Choice, ...]


class Diagnosis(anywidget.AnyWidget):
    """The questions. `on_answer(part, choice, right)` is told of every choice that was judged."""

    _esm = FOLDER / "diagnosing.js"
    _css = FOLDER / "diagnosing.css"
    state = traitlets.Dict().tag(sync=True)

    def __init__(
        self, parts: Sequence[Part], *, language: Language, on_answer: Callable[[str, str, bool], None] | None = None
    ) -> None:
        super().__init__()
        self._parts, self._language, self._on_answer = {part.key: part for part in parts}, language, on_answer
        self._chosen: dict[str, str] = {}
        self.on_msg(self._received)
        self._show()

    @property
    def solved(self) -> bool:
        return all(self._chosen.get(key) == part.answer for key, part in self._parts.items())

    def answer(self, chosen: Mapping[str, str]) -> None:
        """Judges what was chosen so far; what names no choice is left alone."""
        for key, choice in chosen.items():
            part = self._parts.get(key)
            if part is not None and choice in {each.key for each in part.choices}:
                self._chosen[key] = choice
                if self._on_answer is not None:
                    self._on_answer(key, choice, choice == part.answer)
        self._show()

    def _received(self, _widget: Any, content: Any, _buffers: Any) -> None:
        match content:
            case {"do": "answer", "chosen": dict(chosen)}:
                self.answer({str(key): str(value) for key, value in chosen.items()})

    def _show(self) -> None:
        text = translator(self._language)
        self.state = {
            "lang": self._language.code,
            "dir": self._language.direction,
            "button": text("shardwise.diagnosis-check"),
            "parts": [self._part(part) for part in self._parts.values()],
            "ending": text("shardwise.diagnosis-solved") if self.solved else "",
        }

    def _part(self, part: Part) -> dict[str, Any]:
        text, chosen = translator(self._language), self._chosen.get(part.key)
        feedback = next((each.feedback for each in part.choices if each.key == chosen), "")
        verdict = "" if chosen is None else text("quiz.right" if chosen == part.answer else "quiz.wrong")
        return {
            "key": part.key,
            "question": rendering.inline(part.question),
            "choices": [{"key": each.key, "html": rendering.inline(each.text)} for each in part.choices],
            "chosen": chosen,
            "verdict": verdict,
            "right": chosen == part.answer,
            "feedback": rendering.inline(feedback),
        }
