"""A paper is what its blueprint asks for, whatever the seed: no item twice, the bands as asked, equally difficult."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from statistics import mean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quiz.exam import Banks, Paper, banks, blueprint, draw, exam_policy, expected, shortages
from quiz.exam.difficulty import EASY, MEDIUM, band
from quiz.exam.drawing import SPREAD
from quiz.items import items, objectives, units
from shardwise.units import units as course_units
from tests.quiz.exam.making import SECRET, UNIT, blueprint_file, paper, private_bank, private_item, public
from translations import CourseError

secrets = st.binary(min_size=32, max_size=48)


def test_the_course_s_blueprint_asks_for_every_objective_and_says_which_units_wait() -> None:
    plan = blueprint()
    assert {line.objective for line in plan.lines} == {each.id for each in objectives()}
    assert not list(shortages(plan, public()))
    assert sorted({*plan.units} | {*plan.waiting}) == [each.id for each in course_units()]
    assert not {*plan.waiting} & {*units()}, "a unit with a bank waits no longer: give it lines"
    for line in plan.lines:
        assert sum(line.takes(each) for each in public().held.values()) >= 2, f"{line} is no draw"


def test_the_course_s_exam_always_asks_what_everybody_should_be_able_to_say() -> None:
    always = [line for line in blueprint().lines if line.asks]
    assert {line.asks for line in always} == {
        "what-zero-is-for",
        "how-tensor-parallelism-splits",
        "which-stage-saves-most",
        "what-recomputation-trades",
        "why-3d",
        "what-the-two-stacks-are",
    }
    asking = {each.item.asks for each in public().held.values() if each.item.asks}
    assert asking == {line.asks for line in always}, "an item asks what no line takes, or a line what no item asks"


@settings(max_examples=25, deadline=None)
@given(secret=secrets, attempt=st.text(max_size=40))
def test_every_paper_keeps_to_the_blueprint(secret: bytes, attempt: str) -> None:
    plan, drawn = blueprint(), paper(attempt, secret=secret)
    asked = [each.item for each in drawn.questions]
    assert len({each.id for each in asked}) == len(asked) == plan.items
    held = public().held
    assert Counter(line.objective for line in plan.lines) == Counter(each.objective for each in asked)
    banded = Counter((line.objective, line.band) for line in plan.lines if line.band)
    assert banded <= Counter((each.objective, band(held[each.id].item)) for each in asked)
    assert {line.asks for line in plan.lines if line.asks} <= {each.asks for each in asked}
    pools = [[expected(h.item) for h in held.values() if line.takes(h)] for line in plan.lines]
    assert abs(mean(expected(held[each.id].item) for each in asked) - mean(map(mean, pools))) <= 1.5 * SPREAD


def test_equal_secret_and_attempt_give_the_equal_paper_and_nothing_else_does() -> None:
    first = paper("a")
    assert first == paper("a")
    assert first.digest == paper("a").digest
    others = [paper("b"), paper("a", secret=SECRET[::-1])]
    for other in others:
        assert other.items != first.items
        shared = {q.item.id: q.variant.seed for q in first.questions if q.item.id in other.items}
        assert shared
        assert all(shared.get(q.item.id) != q.variant.seed for q in other.questions)
    with pytest.raises(ValueError, match="32"):
        paper("a", secret=b"short")


def test_every_item_of_a_line_is_drawn_about_as_often() -> None:
    line = next(each for each in blueprint().lines if each.objective == "data-parallel-mean")
    pool = [each.item.id for each in public().held.values() if line.takes(each)]
    seen = Counter(id for n in range(120) for id in paper(f"try {n}").items if id in pool)
    assert set(seen) == set(pool)
    assert min(seen.values()) >= 0.4 * 120 / len(pool), seen


def test_items_of_earlier_attempts_come_last() -> None:
    first = paper("first")
    second = paper("second", avoid=first.items)
    held = public().held.values()
    repeated = second.items & first.items
    needed = [line for line in blueprint().lines if sum(line.takes(each) for each in held) == line.items]
    assert len(repeated) <= len(needed)


@settings(max_examples=30, deadline=None)
@given(secret=secrets)
def test_overlapping_lines_are_filled_whenever_they_can_be(
    secret: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("bank")
    own = banks([private_bank(folder, [private_item("a"), private_item("b", kind="recall"), private_item("c")])])
    lines = [{"unit": UNIT, "items": 2}, {"unit": UNIT, "items": 1, "kinds": ["recall"]}]
    plan = blueprint(blueprint_file(folder.parent / f"{folder.name}.yaml", lines))
    drawn = draw(plan, own, secret=secret, attempt="x")
    assert drawn.items == {"a", "b", "c"}, "the open line must leave the only recall to the line that needs it"
    assert not drawn.public
    assert not any(held.public for held in own.held.values())


def test_too_few_items_are_said_before_and_at_the_draw(tmp_path: Path) -> None:
    own = banks([private_bank(tmp_path / "bank", [private_item("a"), private_item("b")])])
    lines = [{"unit": UNIT, "items": 1, "objective": "zero-1-bytes"}, {"unit": UNIT, "items": 2}]
    plan = blueprint(blueprint_file(tmp_path / "plan.yaml", lines))
    assert not list(shortages(plan, own)), "each line by itself can be filled"
    with pytest.raises(CourseError, match="too few questions"):
        draw(plan, own, secret=SECRET, attempt="x")
    assert list(shortages(plan, Banks(held={})))


def test_a_measured_share_takes_the_place_of_the_estimate_for_that_version_only() -> None:
    item = items(UNIT)[0]
    assert (item.kind, item.form, expected(item), band(item)) == ("compute", "number", 0.45, "hard")
    assert band(item, {f"{item.id}@{item.version}": 0.9}) == "easy"
    assert band(item, {f"{item.id}@{item.version + 1}": 0.9}) == "hard"
    assert band(item, {f"{item.id}@{item.version}": EASY / 100}) == "easy"
    assert band(item, {f"{item.id}@{item.version}": MEDIUM / 100}) == "medium"


def test_the_practical_part_is_drawn_with_the_paper() -> None:
    practical = exam_policy().practical
    assert practical is not None
    seen = set()
    for n in range(40):
        tasks = paper(f"p{n}", practical=practical).tasks
        assert len({each.exercise for each in tasks}) == practical.tasks
        seen |= {(each.exercise, each.kind) for each in tasks}
    assert {kind for _, kind in seen} == set(practical.kinds)
    assert {exercise for exercise, _ in seen} == set(practical.exercises)
    for task in paper("p0", practical=practical).tasks:
        assert "def " in task.start("ar") or "class " in task.start("ar")


def test_a_paper_survives_its_json_and_no_other_content_is_taken_for_its_own() -> None:
    drawn = paper("kept", practical=exam_policy().practical)
    data, contents = json.loads(json.dumps(drawn.as_json())), json.loads(json.dumps(dict(drawn.contents)))
    again = Paper.of(data, contents)
    assert again == drawn
    assert again.digest == drawn.digest
    digest = data["questions"][0]["digest"]
    contents[digest]["item"]["text"] += "!"
    with pytest.raises(CourseError, match="changed"):
        Paper.of(data, contents)
    del contents[digest]
    with pytest.raises(CourseError, match="missing"):
        Paper.of(data, contents)
