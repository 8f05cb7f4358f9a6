"""How difficult an item is: the share of credit that it is expected to earn, and the band that this puts it in.

The rule. Until an item has been answered often enough, its share is estimated, in percent, from what it asks for
(`OF_KIND`) and how it is answered (`OF_FORM`): recalling is easier than diagnosing, choosing easier than writing a
number. From the rule of 30 on (`quiz.analysis`), the measured share takes the estimate's place. Bands are cut at
`EASY` and `MEDIUM`. Items of one band count as equally difficult; a draw also keeps the mean share of whole papers
close.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from quiz.items import Form, Item, Kind

Band = Literal["easy", "medium", "hard"]
BANDS: tuple[Band, ...] = get_args(Band)

OF_KIND: Mapping[Kind, int] = {"recall": 80, "explain": 70, "predict": 60, "compute": 55, "diagnose": 50}
OF_FORM: Mapping[Form, int] = {
    "choice": 5,
    "match": 0,
    "fault": 0,
    "several": -5,
    "order": -5,
    "number": -10,
    "bytes": -10,
}
EASY, MEDIUM = 70, 55
"""A share of at least so many percent is easy, medium; below that an item is hard."""

Measured = Mapping[str, float]
"""Shares that were measured, 0 to 1, by item id and version (`id@version`): an edited item begins anew."""


def expected(item: Item, measured: Measured | None = None) -> float:
    """The share of credit that the item is expected to earn, 0 to 1."""
    found = (measured or {}).get(f"{item.id}@{item.version}")
    return (OF_KIND[item.kind] + OF_FORM[item.form]) / 100 if found is None else found


def band(item: Item, measured: Measured | None = None) -> Band:
    percent = round(100 * expected(item, measured), 6)
    return "easy" if percent >= EASY else "medium" if percent >= MEDIUM else "hard"
