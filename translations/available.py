"""Which languages there are, and which of them a learner reads."""

from __future__ import annotations

import gettext
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import yaml

from translations.wording import ROOT, CourseError

SOURCE = "en"
"""The language in which everything is written first."""


@dataclass(frozen=True, kw_only=True)
class Language:
    """One language of the course. ``direction`` is ``ltr`` or ``rtl``; ``locale`` is what Babel calls it.

    A language that is not ``released`` is in preparation: nobody is given it who did not ask for it, and what it
    has not translated yet is shown in English. ``font`` is a family that has its letters, where the folder brings
    one along.
    """

    code: str
    name: str
    direction: str
    released: bool
    locale: str = field(compare=False)
    plural: str = field(compare=False, repr=False)
    folder: Path = field(compare=False, repr=False)
    font: str = field(default="", compare=False)

    @property
    def fonts(self) -> Path | None:
        """The folder of the font files that it brings along, if it does."""
        path = self.folder / "fonts"
        return path if path.is_dir() else None

    @property
    def plurals(self) -> int:
        """How many plural forms its catalogs give."""
        return int(self.plural.split(";")[0].split("=")[1])

    def plural_form(self, count: int) -> int:
        """Which of them a count takes."""
        return _plural_rule(self.plural)(abs(count))


def languages() -> tuple[Language, ...]:
    """Every language: the source, then the others by code."""
    return _languages(os.environ.get("SHARDWISE_LANGUAGES_PATH", ""))


def released() -> tuple[Language, ...]:
    """The languages that learners are offered."""
    return tuple(each for each in languages() if each.released)


def in_preparation() -> tuple[Language, ...]:
    """The languages that are being translated still."""
    return tuple(each for each in languages() if not each.released)


def language(code: str | Language) -> Language:
    """The language with this code. Raises CourseError naming those there are."""
    if isinstance(code, Language):
        return code
    known = {each.code: each for each in languages()}
    if code not in known:
        raise CourseError("translations.unknown-language", code=code, known=", ".join(each.code for each in released()))
    return known[code]


def preferred(explicit: str | None = None, environ: Mapping[str, str] | None = None) -> Language:
    """The learner's language: what was asked for, ``SHARDWISE_LANG``, the locale's if released, else English."""
    environ = os.environ if environ is None else environ
    if asked := explicit or environ.get("SHARDWISE_LANG"):
        return language(asked)
    offered = {each.code: each for each in released()}
    for variable in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
        for name in environ.get(variable, "").split(":"):
            code = name.split(".")[0].split("@")[0].split("_")[0].lower()
            if code in offered:
                return offered[code]
    return language(SOURCE)


@lru_cache(maxsize=8)
def _languages(more: str) -> tuple[Language, ...]:
    folders = [ROOT / "translations", *(Path(each) for each in more.split(os.pathsep) if each)]
    found: dict[str, Language] = {}
    for folder in folders:
        for path in sorted(folder.glob("*/language.yaml")):
            values = yaml.safe_load(path.read_text(encoding="utf-8"))
            found[path.parent.name] = Language(code=path.parent.name, folder=path.parent, **values)
    return tuple(sorted(found.values(), key=lambda each: (each.code != SOURCE, each.code)))


@lru_cache(maxsize=16)
def _plural_rule(plural: str) -> Callable[[int], int]:
    rule: Callable[[int], int] = gettext.c2py(plural.split("plural=")[1].strip("; "))
    return rule
