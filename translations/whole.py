"""Which contents a language has whole: a lesson or a bank in a language in preparation is there where it is."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from translations.available import SOURCE, Language, in_preparation, released
from translations.catalogs import catalog
from translations.sources import sources, texts
from translations.wording import ROOT


def whole(language: Language, names: Iterable[str], *, root: Path = ROOT) -> bool:
    """Whether no text of these catalogs is without a current translation."""
    if language.code == SOURCE:
        return True
    named = frozenset(names)
    if not all((language.folder / f"{name}.po").exists() for name in named):
        return False
    return all(
        catalog(language, each.catalog).current(text.context, text.english)
        for each in sources(root)
        if each.catalog in named
        for text in texts(each)
    )


def languages_with(names: Iterable[str], *, root: Path = ROOT) -> tuple[Language, ...]:
    """The languages released, and those in preparation that have all of these catalogs."""
    named = frozenset(names)
    return *released(), *(each for each in in_preparation() if whole(each, named, root=root))
