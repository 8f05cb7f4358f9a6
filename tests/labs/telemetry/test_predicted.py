"""What a lab predicted beside what it measured, in rows that ranks share where both are the same."""

from __future__ import annotations

from typing import Any

import pytest

from labs.telemetry.drawing.legend import Words
from labs.telemetry.drawing.predicted import header_beside, rows_beside, table_beside
from translations import languages


def report(rank: int, *, peak: int, moved: dict[str, int]) -> dict[str, Any]:
    rest = {"parameters": 1000, "gradients": 1000, "optimizer_states": 2000, "activations": 9, "temporary": 9}
    axes: dict[str, Any] = {axis: {"all_reduce": {"count": 1, "bytes": size}} for axis, size in moved.items()}
    axes["data"]["clipping"] = {"count": 1, "bytes": 8}
    predicted = {"rest": 4000, "peak": 9000, "traffic": {"tensor": 50, "data": 2000}}
    return {"rank": rank, "bytes": {"rest": rest}, "peak_total": peak, "axes": axes, "predicted": predicted}


DATA = {
    "ranks": [
        report(0, peak=9000, moved={"data": 2000, "tensor": 50}),
        report(1, peak=9000, moved={"data": 2000, "tensor": 50}),
        report(2, peak=9500, moved={"data": 1000}),
    ]
}


def test_ranks_that_are_alike_share_a_row_and_clipping_is_not_counted() -> None:
    assert rows_beside(DATA, Words.of("en")) == [
        ["model states at rest", "0–2", "4.00\u202fkB", "4.00\u202fkB"],
        ["the most at one moment", "0–1", "9.00\u202fkB", "9.00\u202fkB"],
        ["the most at one moment", "2", "9.50\u202fkB", "9.00\u202fkB"],
        ["moved in a step, data axis", "0–1", "2.00\u202fkB", "2.00\u202fkB"],
        ["moved in a step, data axis", "2", "1.00\u202fkB", "2.00\u202fkB"],
        ["moved in a step, tensor axis", "0–1", "50\u202fB", "50\u202fB"],
        ["moved in a step, tensor axis", "2", "0\u202fB", "50\u202fB"],
    ]


def test_a_lab_that_predicts_nothing_of_it_has_no_table() -> None:
    nothing: list[dict[str, Any]] = [{}, {"ranks": [{"rank": 0}]}, {"ranks": [{"rank": 0, "predicted": {"states": 1}}]}]
    for data in nothing:
        assert table_beside(data, Words.of("en")) == ""


@pytest.mark.parametrize("language", [each.code for each in languages() if each.released])
def test_every_language_has_words_of_its_own(language: str) -> None:
    words = Words.of(language)
    shown = table_beside(DATA, words)
    assert f'lang="{language}"' in shown
    told, english = (
        {*header_beside(each)[2:], *(row[0] for row in rows_beside(DATA, each))} for each in (words, Words.of("en"))
    )
    assert language == "en" or not told & english
