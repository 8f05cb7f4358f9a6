"""Handing in from a notebook, in three clicks: choose, look, hand in. A widget of native controls.

Its state comes from here, whole, and a click goes back as a message. Before a look, the page is asked to save what is
open of the assignment (`shardwise:save`, which the course's JupyterLab extension hears), so that what is looked at is
what is on the screen. Nothing waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from shardwise.classroom import told
from shardwise.classroom.student import Class, Receipt
from translations import CourseError, Language, Translator, translator

FOLDER = Path(__file__).parent


class HandingIn(anywidget.AnyWidget):
    """The assignments that can be handed in as buttons; of one, what would be handed in; at last the receipt.

    With `only`, in an assignment's own notebook, there is nothing to choose. `on_done` is called after each hand-in.
    """

    _esm = FOLDER / "handing_in.js"
    _css = FOLDER / "handing_in.css"
    state = traitlets.Dict().tag(sync=True)

    def __init__(
        self, here: Class, *, language: Language, only: str | None = None, on_done: Callable[[], None] | None = None
    ) -> None:
        super().__init__()
        self._here, self._language, self._only, self._on_done = here, language, only, on_done
        self.receipt: Receipt | None = None
        self.choose()
        self.on_msg(self._received)

    @property
    def _text(self) -> Translator:
        return translator(self._language)

    def choose(self) -> None:
        """The first step."""
        ids = [self._only] if self._only else [each.id for each in self._here.assignments() if each.notebooks]
        choices = [{"id": id, "name": told.name(id, self._text)} for id in ids]
        self._show(step="choose", title=self._text("shardwise.hand-in-choose"), choices=choices)

    def look(self, id: str) -> None:
        """The second step: what would be handed in, and whether it is late."""
        try:
            found = self._here.look(id)
            title, *lines = told.look(found, self._here.assignment(id), self._text)
        except CourseError as error:
            self._fail(error)
            return
        self._show(
            step="look",
            title=title,
            id=id,
            lines=lines,
            warn=told.is_late(found) or not found.changed,
            do=self._text("shardwise.hand-in-do"),
            back=self._text("shardwise.hand-in-back"),
            working=self._text("shardwise.hand-in-working"),
        )

    def hand_in(self, id: str) -> None:
        """The third step."""
        try:
            self.receipt = self._here.submit(id)
        except CourseError as error:
            self._fail(error)
            return
        title, *lines = told.receipt(self.receipt, self._here, self._text)
        assert self.receipt.kept is not None
        place = self.receipt.kept.relative_to(self._here.folder.parents[1]).as_posix()
        kept = self._text("shardwise.hand-in-done-kept", path=place)
        self._show(step="done", title=title, lines=[*lines, kept], back=self._text("shardwise.hand-in-back"))
        if self._on_done is not None:
            self._on_done()

    def _fail(self, error: CourseError) -> None:
        said = error.in_language(self._text)
        back = self._text("shardwise.hand-in-back")
        self._show(step="failed", title=self._text("shardwise.hand-in-choose"), lines=[said], back=back)

    def _show(self, **state: Any) -> None:
        place = f"{self._here.folder.parent.name}/{self._here.id}/"
        language = {"lang": self._language.code, "dir": self._language.direction}
        self.state = {"place": place, "id": "", "lines": [], "choices": [], "warn": False, **language, **state}

    def _received(self, _widget: Any, content: Any, _buffers: Any) -> None:
        match content:
            case {"do": "choose"}:
                self.choose()
            case {"do": "look", "id": str(id)}:
                self.look(id)
            case {"do": "hand-in", "id": str(id)} if self.state.get("step") == "look" and self.state["id"] == id:
                self.hand_in(id)
