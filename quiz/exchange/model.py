"""A question as it travels between systems: what all three formats have in common, and what got lost on the way.

Texts hold the course's few marks (`code`, $formula$, a blank line between paragraphs) in a normal form: no control
signs, no marks of direction (they are put in anew where a text is shown), blanks never doubled, and in a formula no
braces around what is raised or lowered without them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from translations import Translator

TravelForm = Literal["choice", "several", "number", "order", "match"]
LARGEST = 8_000_000
"""Bytes of the largest file that is read."""
MOST = 5000
"""Questions of the largest file that is read."""
_MARKED = re.compile(r"`([^`]+)`|\$([^$]+)\$")
_UNWANTED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One thing to choose."""

    text: str
    right: bool
    feedback: str = ""


@dataclass(frozen=True, kw_only=True)
class Number:
    """A number that is right, or wrong in a known way; `tolerance` is absolute."""

    value: float
    tolerance: float
    right: bool
    feedback: str = ""


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """Something to be matched, and the text that fits it."""

    text: str
    fit: str


@dataclass(frozen=True, kw_only=True)
class Exchanged:
    """A question on its way. `extra` are answers of a match that fit nothing; `steps` stand in the right order.

    `tags` are `name=value` (unit, objective, kind, version, seed, measure), in the order of their names.
    """

    id: str
    form: TravelForm
    text: str
    code: str = ""
    feedback: str = ""
    choices: tuple[Choice, ...] = ()
    numbers: tuple[Number, ...] = ()
    pairs: tuple[Pairing, ...] = ()
    extra: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    language: str = "en"
    tags: tuple[str, ...] = ()

    def tag(self, name: str) -> str:
        """The value of a tag; empty where there is none."""
        return next((each.partition("=")[2] for each in self.tags if each.startswith(f"{name}=")), "")


@dataclass(frozen=True, kw_only=True)
class Loss:
    """What of a question a format could not hold, or a reader did not understand: the message `quiz.loss-<what>`."""

    id: str
    what: str

    def say(self, text: Translator) -> str:
        return f"{self.id}: {text(f'quiz.loss-{self.what}')}"


def losses_in(losses: Iterable[Loss]) -> tuple[Loss, ...]:
    """Each loss once, by question."""
    return tuple(sorted(set(losses), key=lambda each: (each.id, each.what)))


def normal(text: str) -> str:
    """The normal form of a text with marks."""
    cleaned = _UNWANTED.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    paragraphs = (re.sub(r"[ \t\n]+", " ", each).strip(" ") for each in re.split(r"\n[ \t]*(?:\n[ \t]*)+", cleaned))
    return _MARKED.sub(_fewest_braces, "\n\n".join(each for each in paragraphs if each))


def _fewest_braces(mark: re.Match[str]) -> str:
    if mark[1]:
        return mark[0]
    raised = re.sub(r"\^\{(-?\w+)\}(?!\w)", r"^\1", mark[0])
    return re.sub(r"_\{(\w)\}", r"_\1", raised)


def bare(text: str) -> str:
    """A text without marks, in one line: for a place that takes no markup."""
    return normal(_MARKED.sub(lambda mark: mark[1] or mark[2], text)).replace("\n\n", " ")


def plain_fits(question: Exchanged) -> tuple[Exchanged, list[str]]:
    """The question with the answers of a match as bare texts, and what that loses."""
    pairs = tuple(Pairing(text=each.text, fit=bare(each.fit)) for each in question.pairs)
    extra = tuple(bare(each) for each in question.extra)
    if (pairs, extra) == (question.pairs, question.extra):
        return question, []
    return replace(question, pairs=pairs, extra=extra), ["plain-answers"]


def unmarked(text: str) -> str:
    """A text from outside that has no marks: signs that would be read as some are replaced by their like."""
    return normal(text.replace("`", "'").replace("$", "＄"))


def normal_code(text: str) -> str:
    """The normal form of a block of code: its lines as they are, without blank ones around them."""
    cleaned = _UNWANTED.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return "\n".join(line.rstrip() for line in cleaned.split("\n")).strip("\n")
