"""The figures of what recomputation and checkpoints cost: their numbers are the planner's, in every language, and what
their looks mean stands where reading begins.
"""

from __future__ import annotations

import re

import pytest

from labs.planner import activations
from labs.planner.goodput import Account
from lessons import figures
from translations import Language, languages, translator
from translations.formats import bytes_, percent

LANGUAGES = pytest.mark.parametrize("language", languages(), ids=lambda each: each.code)
ACCOUNTS = {
    1_024: Account(progress=0.93, saving=0.02, lost=0.02, restarting=0.01, waiting=0.01, missing=0.01),
    65_536: Account(progress=0.61, saving=0.06, lost=0.12, restarting=0.09, waiting=0.05, missing=0.07),
}


def first_words(markup: str, *, after: str) -> float:
    """Where the words stand that follow the first mark in this look."""
    rest = markup[markup.index(after) :]
    found = re.search(r'<text x="([\d.]+)"', rest)
    assert found
    return float(found.group(1))


@LANGUAGES
def test_each_operation_has_the_planners_bytes(language: Language) -> None:
    sizes = {"sequence": 2_048, "hidden": 4_096, "heads": 32}
    drawn = figures.kept_by_operation(**sizes)(language)
    for size in activations.by_operation(**sizes, batch=1).values():
        assert bytes_(size, language) in drawn.table


@LANGUAGES
def test_what_recomputation_adds_is_the_planners_share(language: Language) -> None:
    shape = {"hidden": 4_096, "layers": 32, "vocabulary": 51_200}
    drawn = figures.more_operations(**shape, longest=32_768)(language)
    for mode in ("selective", "full"):
        share = activations.more_operations(**shape, sequence=32_768, recompute=mode)
        assert percent(share, language, digits=2) in drawn.table


@LANGUAGES
def test_time_is_told_of_every_size_and_its_looks_are_named_from_where_reading_begins(language: Language) -> None:
    drawn = figures.where_time_goes(ACCOUNTS, title="At {share}")(language)
    assert drawn.alt.startswith(f"At {percent(0.61, language, digits=2)}")
    for each in ACCOUNTS.values():
        assert all(percent(share, language, digits=2) in drawn.table for share in each.as_dict().values())
    at = first_words(drawn.markup, after="<path")
    assert at > 600 if language.direction == "rtl" else at < 100


@LANGUAGES
def test_only_an_asynchronous_save_has_a_row_of_its_own(language: Language) -> None:
    blocking, beside = (figures.saves(asynchronous=each)(language) for each in (False, True))
    writer = f">{translator(language)('lessons.figure-saves-writer')}</text>"
    assert (blocking.markup.count(writer), beside.markup.count(writer)) == (0, 1)
    assert beside.alt != blocking.alt
