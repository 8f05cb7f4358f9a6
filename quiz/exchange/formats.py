"""The formats by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from quiz.exchange import gift, moodle, qti
from quiz.exchange.model import Exchanged, Loss
from translations import CourseError

Read = tuple[tuple[Exchanged, ...], tuple[Loss, ...]]


@dataclass(frozen=True, kw_only=True)
class Format:
    """How a format is written and read, and what it makes of a question that it can't hold as it is."""

    name: str
    ending: str
    write: Callable[[Iterable[Exchanged]], tuple[bytes, tuple[Loss, ...]]]
    read: Callable[[bytes], Read]
    held: Callable[[Exchanged], tuple[Exchanged, tuple[Loss, ...]]]


FORMATS: Mapping[str, Format] = {
    each.name: each
    for each in (
        Format(name="gift", ending=".gift", write=gift.write, read=gift.read, held=gift.held),
        Format(name="moodle", ending=".xml", write=moodle.write, read=moodle.read, held=moodle.held),
        Format(name="qti", ending=".zip", write=qti.write, read=qti.read, held=qti.held),
    )
}


def format_named(name: str) -> Format:
    """The format; CourseError naming those there are."""
    if name not in FORMATS:
        raise CourseError("quiz.exchange-unknown", format=name, known=", ".join(FORMATS))
    return FORMATS[name]
