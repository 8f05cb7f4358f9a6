"""The exercise on judging and choosing layouts: the solution is the planner, and every wrong answer is told apart."""

import pytest

from labs.exercises import check, exercise
from labs.exercises.pick_layout import check as checker
from labs.exercises.pick_layout.solution import judge, pick
from labs.planner.hardware import accelerator
from labs.planner.memory import memory
from labs.planner.models import model
from labs.planner.search import ranking
from labs.planner.throughput import seconds

INSIDE = "(computing + tensor) / (1 - idle / (slots + idle))"
LAST = 'return held, inside + (1 - layout["hidden"]) * data'
CONDITION = 'if held <= machine["memory"] and (best is None or seconds < best[0]):'
CHOICE = "return None if best is None else best[1]"
WRONG = [
    (LAST, LAST.replace("held, ", "", 1), "shape/not-a-pair", "two numbers"),
    ("    held += layout[\"other\"]\n", "", "memory/no-other", "beside the model states"),
    ("shard = -(-whole // layout[\"dp\"])", "shard = whole", "memory/nothing-sharded", "model states whole"),
    (
        "whole = layout[\"parameters\"]\n    shard = -(-whole // layout[\"dp\"])",
        "whole = shard = -(-layout[\"parameters\"] // layout[\"dp\"])",
        "memory/all-sharded",
        "sharded all model states",
    ),
    ("held += 4 *", "held += 2 *", "memory/sixteen-bytes", "fp32"),
    ("held += 12 *", "held += 8 *", "memory/bytes", "2, 4 and 12"),
    (INSIDE, "computing + tensor", "time/no-bubble", "never waits"),
    (INSIDE, "(computing + tensor) * (1 + idle / (slots + idle))", "time/bubble-of-computing", "share of the whole"),
    ("layout[\"chunks\"] * layout", "layout", "time/no-chunks", "chunks out"),
    (
        LAST,
        "data *= 1 - layout['hidden']\n    return held, inside + data / (1 - idle / (slots + idle))",
        "time/data-in-the-slots",
        "once a step",
    ),
    (INSIDE, "computing / (1 - idle / (slots + idle)) + tensor", "time/tensor-after", "Each slot"),
    ("layout[\"tp\"] * layout[\"dp\"] <=", "layout[\"dp\"] <=", "time/data-near", "tp ranks apart"),
    ('if near else machine["network"]', 'if False else machine["network"] or 1.0', "time/data-always-far", "one node"),
    ("(1 - layout[\"hidden\"]) * data", "data", "time/not-hidden", "only the rest"),
    ("/ machine[\"rate\"]", "/ machine[\"rate\"] * 1.3", "time/seconds", "one minus the bubble"),
    (CHOICE, "return best", "choice/no-place", "counted from 0"),
    (CHOICE, "return 0 if best is None else best[1]", "choice/none-fits", "none of them fits"),
    (CHOICE, "return None", "choice/some-fit", "though some fit"),
    (CONDITION, CONDITION.replace('held <= machine["memory"]', "held"), "choice/too-large", "comes before speed"),
    (CONDITION, CONDITION.replace("<= machine", "<= 0.6 * machine"), "choice/slower", "fits as well"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "at", "says"), WRONG, ids=[each[2] for each in WRONG])
def test_wrong_answers(old: str, new: str, at: str, says: str) -> None:
    code = exercise("pick-layout").code("solution")
    assert old in code
    verdict = check("pick-layout", code.replace(old, new), "en")
    assert verdict.failed_at == at, verdict.message
    assert says in verdict.message


@pytest.mark.parametrize(("name", "card", "gpus", "batch"), [*checker.CLUSTERS[:2], ("gpt-18b", "a100-80", 32, 64)])
def test_the_solution_is_the_planner_for_every_layout(name: str, card: str, gpus: int, batch: int) -> None:
    gpu, plans = accelerator(card), checker.plans(name, card, gpus, batch)
    layouts = [checker.layout_of(plan, gpu) for plan in plans]
    machine = checker.machine_of(gpu)
    assert len(plans) > 300
    for plan, layout in zip(plans, layouts, strict=True):
        held, took = judge(layout, machine)
        assert held == memory(plan).total
        assert took == pytest.approx(seconds(plan, gpu=gpu), rel=1e-9)
    first = ranking(model(name), gpus=gpus, gpu=gpu, batch=batch)[0]
    chosen = pick(layouts, machine)
    assert chosen is not None
    assert seconds(plans[chosen], gpu=gpu) == first.seconds


def test_nothing_fits_on_the_last_cluster() -> None:
    gpu = accelerator(checker.CLUSTERS[-1][1])
    assert (
        pick([checker.layout_of(plan, gpu) for plan in checker.plans(*checker.CLUSTERS[-1])], checker.machine_of(gpu))
        is None
    )
