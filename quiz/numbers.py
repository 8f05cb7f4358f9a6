"""Numbers as people write them: Arabic-Indic digits, decimal comma or point, grouping, powers of ten, unit words."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from translations import CourseError

_SIGNS = {"٫": ".", "٬": " ", "−": "-", "–": "-", "×": "*", "·": "*", "⋅": "*", "،": ",", "’": "'"}
_INVISIBLE = re.compile("[\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069\ufeff]")
_NUMBER = re.compile(
    r"""^\s*[~≈=]?\s*(?P<digits>[-+]?[\d][\d.,'\s_]*|[-+]?[.,]\d+)
        (?:\s*\*\s*10\s*(?:\^|\*\*)?\s*(?P<ten>[-+]?\d+)|[eE](?P<exponent>[-+]?\d+))?
        \s*(?P<unit>[^\d\s].*?)?\s*$""",
    re.VERBOSE,
)


@dataclass(frozen=True, kw_only=True)
class Unit:
    """A unit: how many of its family's smallest are one of it."""

    name: str
    family: str
    size: float


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """What was written. `readings` are the numbers it can stand for ('1,234' is 1.234 and 1234), in `unit`."""

    readings: tuple[float, ...]
    unit: Unit | None


def unit(name: str) -> Unit | None:
    """The unit with this name or word, in any language; None where there is none."""
    units = _units()
    return units.get(name) or units.get(name.lower()) or units.get(_bare(name))


def parse(text: str) -> Quantity:
    """The number and unit in a learner's text. Raises CourseError where there is no number, or an unknown unit."""
    cleaned = "".join(_western(character) for character in _INVISIBLE.sub("", text))
    found = _NUMBER.match(cleaned)
    if found is None:
        raise CourseError("quiz.not-a-number", answer=text.strip()[:60])
    power = int(found["ten"] or found["exponent"] or 0)
    if abs(power) > 60 or len(found["digits"]) > 60:
        raise CourseError("quiz.not-a-number", answer=text.strip()[:60])
    readings = tuple(value * 10.0**power for value in _readings(found["digits"]))
    if not readings:
        raise CourseError("quiz.not-a-number", answer=text.strip()[:60])
    if not found["unit"]:
        return Quantity(readings=readings, unit=None)
    known = unit(found["unit"]) or unit(found["unit"].split()[0])
    if known is None:
        raise CourseError("quiz.unknown-unit-of-answer", unit=found["unit"][:40])
    return Quantity(readings=readings, unit=known)


def _western(character: str) -> str:
    digit = unicodedata.digit(character, None)
    if digit is not None and unicodedata.category(character) == "Nd":
        return str(digit)
    if character.isspace():
        return " "
    return _SIGNS.get(character, character)


def _readings(digits: str) -> tuple[float, ...]:
    """The values that a run of digits and separators can have, the likelier first."""
    text = re.sub(r"[\s'_]", "", digits)
    points, commas = text.count("."), text.count(",")
    if points and commas:
        decimal = max(".", ",", key=text.rfind)
        grouping = "," if decimal == "." else "."
        candidates = [text.replace(grouping, "").replace(decimal, ".")] if text.count(decimal) == 1 else []
    elif points + commas == 1:
        candidates = [text.replace(",", ".")]
        if re.fullmatch(r"[-+]?[1-9]\d{0,2}[.,]\d{3}", text):
            candidates.append(re.sub("[.,]", "", text))
    elif points + commas > 1:
        candidates = [re.sub("[.,]", "", text)] if re.fullmatch(r"[-+]?\d{1,3}([.,]\d{3})+", text) else []
    else:
        candidates = [text]
    return tuple(float(each) for each in candidates)


def _bare(word: str) -> str:
    """The word in lower case without Arabic vowel signs or a closing full stop."""
    return "".join(c for c in word.lower().strip(" .") if not "\u064b" <= c <= "\u0652")


@functools.cache
def _units() -> Mapping[str, Unit]:
    families = yaml.safe_load((Path(__file__).parent / "units.yaml").read_text(encoding="utf-8"))
    found: dict[str, Unit] = {}
    for family, units in families.items():
        for name, fields in units.items():
            made = Unit(name=name, family=family, size=float(fields["size"]))
            for word in (name, *fields["words"]):
                found.setdefault(word, made)
                found.setdefault(_bare(word) if not word.isascii() else word, made)
    return found
