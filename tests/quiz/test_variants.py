import json
import subprocess
import sys
from dataclasses import replace

import pytest

from quiz import item, seed_of, variant
from quiz.expressions import ExpressionError
from quiz.items import Call, units
from quiz.items import items as items_of
from quiz.variants import compute


def test_the_same_learner_attempt_and_item_give_the_same_variant_in_a_fresh_process() -> None:
    code = (
        "import json; from quiz import item, seed_of, variant\n"
        "v = variant(item('zero-1-state-bytes'), seed_of(learner='ada', attempt=2, item='zero-1-state-bytes'))\n"
        "w = variant(item('zero-1-what-for'), 7)\n"
        "print(json.dumps([v.seed, dict(v.values), w.order]))"
    )
    environment = {"PYTHONHASHSEED": "123", "PATH": "/usr/bin:/bin"}
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True, env=environment
    ).stdout
    seed, values, order = json.loads(printed)
    here = variant(item("zero-1-state-bytes"), seed_of(learner="ada", attempt=2, item="zero-1-state-bytes"))
    assert (seed, values) == (here.seed, dict(here.values))
    assert tuple(order) == variant(item("zero-1-what-for"), 7).order


def test_seeds_are_stored_exactly_by_json() -> None:
    for learner in ("ada", "زينب", ""):
        seed = seed_of(learner=learner, attempt=1, item="x")
        assert json.loads(json.dumps(float(seed))) == seed < 2**53


def test_another_attempt_gives_other_numbers_sooner_or_later() -> None:
    drawn = {
        variant(item("zero-1-state-bytes"), seed_of(learner="ada", attempt=n, item="zero-1-state-bytes")).values["N"]
        for n in range(20)
    }
    assert drawn == {4, 8, 16, 32}


def test_a_parameter_added_later_moves_no_other() -> None:
    original = item("zero-1-traffic")
    more = replace(original, parameters={"extra": {"choose": [1, 2]}, **original.parameters})
    for seed in range(20):
        before, after = variant(original, seed).values, variant(more, seed).values
        assert {name: after[name] for name in before} == dict(before)


def test_only_functions_of_the_planner_are_called() -> None:
    for function in ("os:system", "labs.plannerx:f", "quiz.items:units"):
        with pytest.raises(ExpressionError):
            compute(Call(function=function, arguments={}), {})


def test_options_stand_in_every_place_over_seeds() -> None:
    original = item("zero-1-what-for")
    places = [variant(original, seed).order.index("redundancy") for seed in range(400)]
    assert all(70 < places.count(place) < 130 for place in range(4))


def test_an_order_is_never_shown_solved() -> None:
    for unit in units():
        for each in items_of(unit):
            if each.form == "order":
                right = tuple(step.key for step in each.steps)
                assert all(variant(each, seed).order != right for seed in range(800))
