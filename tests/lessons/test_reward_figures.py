"""The figures of the kept GRPO runs: every seed is there, and their numbers are those of the runs."""

from __future__ import annotations

from statistics import fmean

import pytest

from labs.cases.grpo_runs import SEEDS, results, runs
from lessons.figures import grpo_round, one_try_and_many, rewards_of_seeds
from translations import language, languages, translator
from translations.formats import percent


@pytest.mark.parametrize("code", [each.code for each in languages()])
def test_each_seed_has_a_line_and_the_title_says_what_was_measured(code: str) -> None:
    chosen = language(code)
    seeds, tries = rewards_of_seeds()(chosen), one_try_and_many()(chosen)
    assert seeds.markup.count('fill="none" stroke') == len(SEEDS)
    assert seeds.table
    assert tries.table
    for name in ("right", "any"):
        for when in ("start", "end"):
            share = fmean(each[when][name] for each in runs()["runs"])
            assert percent(share, chosen, digits=2) in tries.alt
    assert code == "en" or seeds.alt != rewards_of_seeds()(language("en")).alt


def test_the_rows_of_the_table_of_results_have_names() -> None:
    text = translator("en")
    found = {row.name: row.value for row in results()}
    assert found["grpo-reward-after"] > found["grpo-reward-before"] + found["grpo-least-rise"] > 1.2
    assert found["grpo-any-after"] < found["grpo-any-before"]
    assert all(text(f"labs.result-{name}") for name in found)


@pytest.mark.parametrize("code", [each.code for each in languages()])
def test_the_round_has_a_box_for_each_part_on_either_side_of_the_page(code: str) -> None:
    chosen = language(code)
    figure = grpo_round()(chosen)
    assert figure.markup.count("<rect") == 5
    assert figure.alt == translator(chosen)("lessons.figure-round-alt")
