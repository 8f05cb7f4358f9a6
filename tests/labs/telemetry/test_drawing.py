"""Figures say their message and numbers in every language, need nothing from outside, and lose no peak."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs.telemetry import CATEGORIES, Bytes
from labs.telemetry.categories import Count
from labs.telemetry.drawing import (
    Svg,
    Table,
    bars,
    memory_over_time,
    rank_table,
    ring,
    stacked_bars,
    traffic_bars,
)
from labs.telemetry.drawing.diagrams import _summed, timetable
from labs.telemetry.drawing.lanes import lanes_over_time
from labs.telemetry.drawing.legend import Words
from labs.telemetry.drawing.palette import LOOKS, SLOTS, STRETCHES
from labs.telemetry.drawing.series import condensed, since, spans, ticks, window
from labs.telemetry.drawing.slots import slots_over_time
from labs.telemetry.drawing.svg import wrapped
from labs.telemetry.drawing.traffic import traffic_of_step, traffic_so_far
from labs.telemetry.events import Event
from labs.telemetry.lanes import timeline
from labs.telemetry.rows import Row
from labs.telemetry.slots import Cell
from translations import CourseError
from translations.formats import bytes_

LANGUAGES = ("en", "nl", "ar")
STEP = {
    0: [
        Cell(kind="F", micro_batch=0, chunk=0, start=5.0, end=6.0),
        Cell(kind="W", micro_batch=0, chunk=1, start=7.0, end=8.0),
    ],
    1: [
        Cell(kind="B", micro_batch=0, chunk=2, start=6.0, end=7.5),
        Cell(kind="F", micro_batch=1, chunk=0, start=8.0, end=None),
    ],
}
EVENTS = [
    Event(seconds=at, name=name, rank=rank, values={"step": step, "kind": "loss-spike"})
    for at, name, rank, step in (
        (1.0, "started", 0, None), (1.5, "step", 0, 0), (1.6, "saving", 0, 0), (2.0, "trained", 0, 1),
        (2.0, "step", 0, 1), (2.2, "saved", 0, 0), (2.5, "killed", 1, None), (2.6, "detected", None, None),
        (2.7, "alarm", 0, 1), (3.0, "resumed", 0, 0), (3.1, "step", 0, 0),
    )
]  # fmt: skip


def rows(*, factor: int = 1) -> tuple[Row, ...]:
    states = {
        "parameters": 2_000_000 * factor,
        "gradients": 2_000_000 * factor,
        "optimizer_states": 12_000_000 * factor,
    }
    return tuple(
        Row(seconds=at, phase=phase, bytes=Bytes(**states, activations=activations))
        for at, phase, activations in [
            (0.0, "", 0),
            (5.0, "forward", 0),
            (5.2, "forward", 3_000_000),
            (5.5, "backward", 3_000_000),
            (5.9, "optimizer", 0),
            (6.0, "", 0),
        ]
    )


def every_figure(language: str) -> dict[str, Svg]:
    states = Bytes(parameters=2_000_000, gradients=2_000_000, optimizer_states=12_000_000)
    collectives = {"all_gather": Count(count=6, bytes=4_000_000), "reduce_scatter": Count(count=1, bytes=2_000_000)}
    title = "Stage 2 halves the gradients"
    return {
        "memory": memory_over_time({0: rows(), 1: rows()}, formula=states, language=language),
        "memory of one": memory_over_time({0: rows()}, formula=None, language=language),
        "memory unlike": memory_over_time({0: rows(), 1: rows(factor=2)}, formula=states, language=language),
        "memory of nobody": memory_over_time({}, formula=states, language=language),
        "stacked": stacked_bars(
            [("stage 0", states), ("stage 1", states)], language=language, title=title, formula=[1, 2]
        ),
        "bars": bars([("a", 3.0), ("b", 0.0)], language=language, title=title, formula=[3.0, None]),
        "traffic": traffic_bars(collectives, 6_000_000, language),
        "traffic by name": traffic_bars(collectives, {"all_gather": 4_000_000, "broadcast": 7}, language),
        "shards": rank_table(ranks=3, sharded=["optimizer_states"], language=language, title=title),
        "ring": ring(ranks=4, step=1, language=language, title=title),
        "gathered": ring(ranks=3, step=2, phase="all-gather", language=language, title=title),
        "slots": slots_over_time(STEP, language=language, expected=0.1),
        "slots under way": slots_over_time(STEP, language=language, now=9.0),
        "slots of nobody": slots_over_time({0: [], 1: []}, language=language),
        "lanes": lanes_over_time(timeline(EVENTS, ranks=2), language=language),
        "lanes of nobody": lanes_over_time(timeline([], ranks=2), language=language),
        "axes": traffic_of_step({rank: {"tensor": collectives, "own": {}} for rank in range(2)}, language=language),
        "axes so far": traffic_so_far({"data": {0: 7, 1: 0}, "world": {0: 0}}, language=language),
        "axes of nobody": traffic_so_far({}, language=language),
        "timetable": timetable(
            [("rank 0", [("forward", 0, 1), ("backward", 1, 3)])], language=language, title=title, alt=title
        ),
    }


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_figure_stands_alone(language: str, tmp_path: Path) -> None:
    for name, figure in every_figure(language).items():
        figure.save(tmp_path / "figure.svg")
        root = ElementTree.parse(tmp_path / "figure.svg").getroot()
        assert root.get("role") == "img", name
        assert root.get("aria-label") == figure.alt, name
        bundle = figure._repr_mimebundle_()
        assert set(bundle) == {"text/html", "image/svg+xml", "text/plain"}
        everything = bundle["text/html"] + bundle["image/svg+xml"]
        assert "<script" not in everything
        assert re.findall(r"(?:href|src)=|https?://(?!www\.w3\.org/2000/svg)", everything) == []
        references, made = (
            set(re.findall(r"url\(#([\w-]+)\)", everything)),
            set(re.findall(r' id="([\w-]+)"', everything)),
        )
        assert references == made, name
        assert f'dir="{"rtl" if language == "ar" else "ltr"}"' in figure.html
        width, height = (float(part) for part in str(root.get("viewBox")).split()[2:])
        for text in root.iter("{http://www.w3.org/2000/svg}text"):
            assert 0 <= float(text.get("x", "-1")) <= width, (name, text.text)
            assert 0 <= float(text.get("y", "-1")) <= height, (name, text.text)


@pytest.mark.parametrize("language", LANGUAGES)
def test_under_every_figure_stand_its_numbers_or_its_words(language: str) -> None:
    figures = every_figure(language)
    for name, figure in figures.items():
        root = ElementTree.fromstring(f"<div>{figure.html}</div>")
        folded = root.find("details")
        assert folded is not None, name
        assert folded.get("open") is None
        inside = folded.find("div")
        assert inside is not None
        assert (inside.find("table") is None) == (not figure.table), name
        shown = root.find("figure")
        assert shown is not None
        assert shown.get("data-name") == figure.name
        assert re.fullmatch(r"[\w%-]+", figure.name), figure.name
    assert figures["memory"].table
    told = re.sub("<[^>]*>", " ", figures["memory unlike"].table)
    for size in (16e6, 19e6, 32e6, 35e6):
        assert bytes_(size, language) in told


def test_a_figure_is_saved_by_its_files_end(tmp_path: Path) -> None:
    figure = every_figure("ar")["stacked"]
    kept = figure.save(str(tmp_path / "figure.PNG")).read_bytes()
    assert kept.startswith(b"\x89PNG")
    wide, high = (int.from_bytes(kept[at : at + 4], "big") for at in (16, 20))
    assert wide == 2 * 760
    assert 0.1 < high / wide < 0.5
    with pytest.raises(CourseError) as refused:
        figure.save(tmp_path / "figure.jpg")
    assert refused.value.id == "labs.figure-file"
    assert [each.name for each in tmp_path.iterdir()] == ["figure.PNG"]


def test_arabic_text_has_its_direction_and_numbers_theirs() -> None:
    figure = every_figure("ar")["memory"]
    directions = {
        text.text: text.get("direction")
        for text in ElementTree.fromstring(figure.markup).iter()
        if text.tag.endswith("text")
    }
    assert {directions[words] for words in directions if words and re.search("[\u0600-\u06ff]", words)} == {"rtl"}
    assert directions["10\u202fMB"] == "ltr"


def test_no_two_figures_share_a_pattern_by_accident() -> None:
    ids = [set(re.findall(r' id="([\w-]+)"', figure.markup)) for figure in every_figure("en").values()]
    assert sum(map(len, ids)) == len(set().union(*ids))


def test_the_title_is_the_message() -> None:
    states = Bytes(parameters=2_000_000, gradients=2_000_000, optimizer_states=12_000_000)
    right = memory_over_time({0: rows(), 1: rows()}, formula=states, language="en")
    wrong = memory_over_time({0: rows()}, formula=Bytes(parameters=1_000_000), language="en")
    assert right.alt.startswith(
        "Model states take 16.0\u202fMB on every rank, as the formula says; the peak is 19.0\u202fMB."
    )
    assert "where the formula says 1.00\u202fMB" in wrong.alt
    assert "activations 3.00\u202fMB" in right.alt
    assert traffic_bars({"all_reduce": Count(count=1, bytes=10)}, 10, "en").alt.startswith(
        "A rank moves 10\u202fB in one optimizer step, as the formula says."
    )


def test_each_category_has_a_look_of_its_own() -> None:
    assert tuple(LOOKS) == CATEGORIES
    for looks in (LOOKS, SLOTS, STRETCHES):
        assert len({look.colour for look in looks.values()}) == len(looks)
        assert len({look.pattern for look in looks.values()}) == len(looks)


def test_a_long_run_stays_small() -> None:
    long = tuple(
        Row(seconds=index / 200, phase="forward", bytes=Bytes(parameters=9_000, activations=index * 37 % 5000))
        for index in range(6000)
    )
    figure = memory_over_time(dict.fromkeys(range(4), long), formula=None, language="en")
    assert len(figure.html) < 150_000


# --- the mathematics


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(0, 10**9)), min_size=1, max_size=80), st.integers(1, 40))
def test_condensing_keeps_the_peak_and_the_last(series: list[tuple[float, int]], columns: int) -> None:
    all_rows = [Row(seconds=at, phase="", bytes=Bytes(activations=size)) for at, size in sorted(series)]
    kept = condensed(all_rows, start=all_rows[0].seconds, end=all_rows[-1].seconds, columns=columns)
    assert len(kept) <= 2 * (columns + 1)
    assert max(row.bytes.total for row in kept) == max(row.bytes.total for row in all_rows)
    assert kept[-1] == all_rows[-1]
    assert [row.seconds for row in kept] == sorted(row.seconds for row in kept)


@given(st.floats(1e-6, 1e15))
def test_ticks_are_few_round_and_inside(highest: float) -> None:
    found = ticks(highest)
    assert 2 <= len(found) <= 5
    assert found[0] == 0
    assert found[-1] <= highest * (1 + 1e-6)


def test_the_window_begins_shortly_before_training() -> None:
    start, end = window([rows()])
    assert end == 6.0
    assert 4.9 < start < 5.0
    assert since(rows(), start)[0] == Row(seconds=start, phase="", bytes=rows()[0].bytes)


def test_phases_are_spans() -> None:
    found = [(span.phase, span.start, span.end) for span in spans(rows(), end=6.0)]
    assert found == [("forward", 5.0, 5.5), ("backward", 5.5, 5.9), ("optimizer", 5.9, 6.0)]


@pytest.mark.parametrize("ranks", [2, 3, 4, 6])
def test_a_ring_ends_with_the_whole_sum_of_one_chunk_and_then_of_all(ranks: int) -> None:

    chunks = [[1] * ranks for _ in range(ranks)]
    for step in range(ranks):
        told = [
            [_summed(r, c, ranks=ranks, step=step, phase="reduce-scatter") for c in range(ranks)] for r in range(ranks)
        ]
        assert told == chunks
        before = [list(own) for own in chunks]
        for rank in range(ranks):
            chunk = (rank - step) % ranks
            chunks[(rank + 1) % ranks][chunk] += before[rank][chunk]
        if step == ranks - 2:
            assert all(chunks[rank][(rank + 1) % ranks] == ranks for rank in range(ranks))
            break
    for step in range(ranks):
        told = [[_summed(r, c, ranks=ranks, step=step, phase="all-gather") for c in range(ranks)] for r in range(ranks)]
        assert told == chunks
        before = [list(own) for own in chunks]
        for rank in range(ranks):
            chunk = (rank + 1 - step) % ranks
            chunks[(rank + 1) % ranks][chunk] = before[rank][chunk]
        if step == ranks - 2:
            assert chunks == [[ranks] * ranks] * ranks
            break


def test_lines_of_a_title_are_of_about_one_length() -> None:
    lines = wrapped(
        "Model states take 52.7 MB on a rank where the formula says 30.8 MB; the peak is 56.7 MB", size=16, width=600
    )
    assert len(lines) == 2
    assert 0.6 < len(lines[0]) / len(lines[1]) < 1.7


def test_a_table_is_readable_without_seeing_it() -> None:
    table = Table([("parameters", "2 MB"), ("<b>", 3)], header=("category", "bytes"), language="ar", caption="Bytes")
    root = ElementTree.fromstring(table.html)
    assert root.get("dir") == "rtl"
    assert [cell.get("scope") for cell in root.iter("th")] == ["col", "col", "row", "row"]
    assert "&lt;b&gt;" in table.html
    assert "parameters\t2 MB" in table._repr_mimebundle_()["text/plain"]


def test_wrong_use_says_what_is_possible() -> None:
    with pytest.raises(ValueError, match="steps 0 to 2"):
        ring(ranks=4, step=4, language="en", title="")
    with pytest.raises(ValueError, match="cannot be sharded"):
        rank_table(ranks=2, sharded=["activations"], language="en", title="")


@pytest.mark.parametrize("language", LANGUAGES)
def test_axis_labels_share_a_unit(language: str) -> None:
    label = Words.of(language).axis(4_200_000)
    assert label(0) == "0"
    assert label(2_000_000) == "2\u202fMB"
    assert label(500_000) == ("0,50\u202fMB" if language == "nl" else "0.50\u202fMB")
