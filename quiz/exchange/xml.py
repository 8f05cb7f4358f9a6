"""XML from strangers.

Bounded, without definitions of entities, and never as an exception that a caller did not expect.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, ParseError, tostring

from quiz.exchange.model import LARGEST
from translations import CourseError

if TYPE_CHECKING:
    from collections.abc import Iterator

DEEPEST = 100


def parsed(data: bytes, *, form: str) -> Element:
    """The root of a document. Raises CourseError for what is too large, too deep, not XML, or defines entities."""
    try:
        safe = import_module("defusedxml.ElementTree")
        refused: type[Exception] = import_module("defusedxml").DefusedXmlException
    except ImportError as error:
        raise CourseError("quiz.exchange-needs", package="defusedxml") from error
    if len(data) > LARGEST:
        raise CourseError("quiz.exchange-too-large")
    try:
        root: Element = safe.fromstring(data, forbid_dtd=True)
    except (ParseError, refused, ValueError, LookupError) as error:
        reason = f"{type(error).__name__}: {error}"[:200]
        raise CourseError("quiz.exchange-unreadable", format=form, reason=reason) from error
    waiting = [(root, 1)]
    while waiting:
        element, depth = waiting.pop()
        if depth > DEEPEST:
            raise CourseError("quiz.exchange-unreadable", format=form, reason=f"> {DEEPEST}")
        waiting += [(child, depth + 1) for child in element]
    return root


def written(root: Element) -> bytes:
    return b'<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode").encode() + b"\n"


def local(element: Element) -> str:
    """A tag's name without its namespace."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def named(element: Element, *names: str) -> Iterator[Element]:
    """The children of these names, whatever their namespace."""
    return (child for child in element if local(child) in names)


def first(element: Element, name: str) -> Element | None:
    return next(named(element, name), None)
