"""Formats of numbers as data (`formats.yaml`), and the bytes that weights take in them, their scales included."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from translations import CourseError


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """`bits` of an element; `block` elements share a scale of `scale` bits (none, or one for the tensor: block 0)."""

    name: str
    bits: int
    source: str
    torch: str
    block: int = 0
    scale: int = 0

    @property
    def bytes_per_element(self) -> float:
        """With its part of the scale."""
        return (self.bits + (self.scale / self.block if self.block else 0)) / 8

    def bytes_of(self, elements: int) -> int:
        """Bytes of so many elements: whole bytes, and whole blocks of scales."""
        blocks = -(-elements // self.block) if self.block else 0
        return -(-elements * self.bits // 8) + blocks * self.scale // 8


@functools.cache
def formats() -> Mapping[str, Format]:
    """By name and alias."""
    rows = yaml.safe_load((Path(__file__).parent / "formats.yaml").read_text(encoding="utf-8"))["formats"]
    found = {}
    for row in rows:
        aliases = row.pop("aliases", ())
        made = Format(**row)
        found.update(dict.fromkeys((made.name, *aliases), made))
    return found


def number_format(name: str) -> Format:
    """The format of that name or alias. Raises CourseError naming the nearest."""
    if name not in formats():
        near = difflib.get_close_matches(name, formats(), n=3, cutoff=0.3)
        raise CourseError("labs.unknown-format", name=name, known=", ".join(near or formats()))
    return formats()[name]


def weights(elements: int, *, stored: str) -> int:
    """Bytes of a model's weights in a format."""
    return number_format(stored).bytes_of(elements)


def speedup(*, share: float, times: float) -> float:
    """How much faster the whole is where `share` of its time becomes `times` as fast (Amdahl 1967)."""
    return 1 / (1 - share + share / times)
