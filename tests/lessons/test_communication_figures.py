"""The figures of communication: they say their numbers in every language and stay on their sheets."""

from __future__ import annotations

import re

import pytest

from lessons import figures
from translations import language, languages

CODES = [each.code for each in languages() if each.released]
STEP = {
    "ranks": [{"rank": 0, "trace": {"compute": [["backward", 0.0, 1.0]], "communication": [["all_reduce", 0.5, 1.5]]}}]
}


def every_figure() -> dict[str, figures.Figure]:
    sizes = [10.0**power for power in range(3, 10)]
    return {
        "sizes": figures.seconds_by_size(
            {"A": [(size, 1e-5 + size / 1e9) for size in sizes], "B": [(size, 1e-4) for size in sizes]},
            title="A", x="B", y="C",
        ),
        "buckets": figures.seconds_by_size({"A": [(1e3, 0.2), (1e6, 0.1), (1e9, 0.15)]}, title="A", x="B", y="C"),
        "levels": figures.two_levels(per_node=4, nodes=2),
        "levels of three": figures.two_levels(per_node=2, nodes=3),
        "beside": figures.beside_backward([1.0] * 6, [0.5] * 6),
        "full link": figures.beside_backward([1.0] * 4, [2.0] * 4),
        "links": figures.two_links({"A": (0.01, 0.1), "B": (0.02, 0.0)}, title="A"),
        "traced": figures.traced(STEP),
    }  # fmt: skip


@pytest.mark.parametrize("code", CODES)
def test_every_figure_stays_on_its_sheet(code: str) -> None:
    for name, figure in every_figure().items():
        markup = figure(language(code)).html
        found = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', markup)
        assert found, name
        wide, tall = map(float, found.groups())
        for x, y in re.findall(r'<text x="([-\d.]+)" y="([-\d.]+)"', markup):
            assert 0 <= float(x) <= wide, name
            assert 0 <= float(y) <= tall, name
        assert re.search(r'aria-label="[^"]{20,}"', markup), name


def test_the_hidden_share_stands_in_the_title() -> None:
    english = language("en")
    assert "83%" in figures.beside_backward([3.0] * 6, [2.5] * 6)(english).html
    assert "50%" in figures.traced(STEP)(english).html
