"""The glossary's terms in a book: where each is spoken of, for the list at its end."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from lessons.builder import ROOT
from lessons.editions.printed.markup import array, call, string, words
from translations import SOURCE, Language

_REMARK = re.compile(r"\s*\([^)]*\)")
_SIGNS = re.compile("[\u064b-\u0655\u0670\u0640]")
_BEFORE = "(?:[وف])?(?:لل|[بكل])?(?:ال)?"
"""What may stand before an Arabic word and be written with it: and, so; in, as, for; the."""
_AFTER = "(?:ات|ان|ين|ون|ه|ها|هم|ة)?"


@dataclass(frozen=True, kw_only=True)
class Term:
    """A term as the book's language says it, with the other languages' wordings by their codes."""

    key: str
    shown: str
    forms: tuple[str, ...]
    others: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Terms:
    """The terms of a language."""

    language: Language
    path: Path = ROOT / "translations" / "glossary.yaml"

    @cached_property
    def known(self) -> tuple[Term, ...]:
        """All terms, each once, in the order of the book's language."""
        code = self.language.code
        found: dict[str, Term] = {}
        for each in yaml.safe_load(self.path.read_text(encoding="utf-8"))["terms"]:
            shown = _bare(each.get(code) or each["en"])
            forms = [shown, *([_bare(each[f"{code}_plural"])] if f"{code}_plural" in each else [])]
            english = _bare(each["en"])
            others = ((SOURCE, english),) if code != SOURCE and english != shown else ()
            term = Term(key=english, shown=shown, forms=tuple(forms), others=others)
            if shown in found:  # two ideas with one wording here
                continue
            found[shown] = term
        return tuple(sorted(found.values(), key=lambda term: _sorted_as(term.shown)))

    @cached_property
    def _finder(self) -> tuple[re.Pattern[str], dict[str, str]]:
        keys: dict[str, str] = {}
        forms: list[str] = []
        for term in self.known:
            for form in term.forms:
                keys.setdefault(_folded(form), term.key)
                forms.append(form)
        forms.sort(key=len, reverse=True)
        return re.compile("|".join(f"(?P<t{n}>{self._pattern(each)})" for n, each in enumerate(forms)), re.I), {
            f"t{n}": keys[_folded(each)] for n, each in enumerate(forms)
        }

    def _pattern(self, form: str) -> str:
        if self.language.direction == "rtl":
            letters = "".join(
                r"\s+(?:ال)?" if sign == " " else f"{re.escape(sign)}[\u064b-\u0655\u0670]*"
                for sign in _SIGNS.sub("", form)
            )
            return rf"(?<!\w){_BEFORE}{letters}{_AFTER}(?!\w)"
        if form.isupper() or any(sign.isupper() for sign in form[1:]):
            return rf"(?<![\w-])(?-i:{re.escape(form)})(?![\w-])"
        return rf"(?<![\w-]){re.escape(form)}(?:s|es|en|n|e)?(?![\w-])"

    def keys_in(self, text: str) -> list[str]:
        """The keys of the terms that a text names, each once, in order."""
        pattern, keys = self._finder
        found = (keys[str(match.lastgroup)] for match in pattern.finditer(text) if match.lastgroup)
        return list(dict.fromkeys(found))

    def listed(self) -> str:
        """The list at the end of the book, to which the template adds the pages."""
        rows = (
            f"({string(term.key)}, [{words(term.shown)}], "
            f"{array(f'({string(code)}, [{words(name)}])' for code, name in term.others)})"
            for term in self.known
        )
        return call("terms", entries=array(rows))


def _bare(name: Any) -> str:
    """A term without what the glossary adds in brackets."""
    return _REMARK.sub("", str(name)).strip()


def _folded(form: str) -> str:
    return _SIGNS.sub("", form).casefold()


def _sorted_as(shown: str) -> str:
    plain = "".join(each for each in unicodedata.normalize("NFD", shown) if not unicodedata.combining(each))
    return re.sub(r"^ال", "", re.sub(r"[أإآ]", "ا", _folded(plain)))
