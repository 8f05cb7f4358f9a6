"""The figures and controls of the planner: they say its numbers, in every language, and refuse with its sentences."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labs.planner import links, throughput
from labs.planner.configuration import STACKS, Configuration
from labs.planner.hardware import accelerator, accelerators
from labs.planner.memory import memory, rank_bars
from labs.planner.models import model
from labs.planner.search import search
from labs.telemetry.drawing import SAVING
from lessons import figures
from lessons.controls import PlannerControl
from lessons.controls.planner import TOPICS, configuration, fields
from lessons.figures.layouts import layouts
from lessons.figures.planned import BARS, SPENT, spent
from lessons.figures.published import chosen
from lessons.figures.roofline import points, rates
from translations import CourseError, language, languages, translator
from translations.formats import bytes_, duration, percent

CODES = [each.code for each in languages() if each.released]
A100 = accelerator("a100-80")
BLOOM = Configuration(
    model=model("bloom"), dp=8, tp=4, pp=12, zero=1, micro_batch=2, micro_batches=128, recompute="full",
    stack=STACKS["megatron"],
)  # fmt: skip
ALONE = Configuration(model=model("gpt-1.7b"), micro_batch=2)
SPREAD = Configuration(model=model("gpt-7.5b"), dp=64, zero=3, micro_batch=1)


def every_figure() -> dict[str, figures.Figure]:
    return {
        "memory": figures.memory_of(BLOOM, gpu=A100),
        "memory of one": figures.memory_of(ALONE),
        "memory of many": figures.memory_of(replace(BLOOM, pp=70, micro_batches=256)),
        "too much": figures.memory_of(replace(BLOOM, recompute="none", micro_batch=4), gpu=A100),
        "links": figures.links_of(BLOOM, gpu=A100),
        "full links": figures.links_of(replace(SPREAD, micro_batches=8), gpu=accelerator("v100")),
        "no links": figures.roofline(ALONE, gpu=A100),
        "roofline": figures.roofline(BLOOM, gpu=A100),
        "under the roof": figures.roofline(SPREAD, gpu=accelerator("v100")),
        "step": figures.step_of(BLOOM, gpu=A100, tokens=366e9, price=2.0),
        "map": figures.map_of_layouts(model("gpt-7.5b"), gpus=16, gpu=A100, batch=64),
        "steps": figures.steps_side_by_side(
            {"as trained": BLOOM, "selective": replace(BLOOM, recompute="selective")}, gpu=A100, title="Two layouts"
        ),
        "compiling": figures.compiling_pays(first=60, eager=0.6, times=1.25, title="Paid after {steps} steps"),
        "chain": figures.from_layout_to_cost(),
    }


@pytest.mark.parametrize("code", CODES)
def test_every_figure_stays_on_its_sheet_and_has_a_table(code: str) -> None:
    for name, figure in every_figure().items():
        drawn = figure(language(code))
        root = ElementTree.fromstring(drawn.document)
        width, height = (float(part) for part in str(root.get("viewBox")).split()[2:])
        for text in root.iter("{http://www.w3.org/2000/svg}text"):
            assert 0 <= float(text.get("x", "-1")) <= width, (name, text.text)
            assert 0 <= float(text.get("y", "-1")) <= height, (name, text.text)
        assert ElementTree.fromstring(f"<div>{drawn.html}</div>").find("figure") is not None
        assert bool(drawn.table) == (name not in ("no links", "chain")), name
        assert drawn.alt, name
        assert "{" not in drawn.alt, name


def test_the_memory_figure_says_the_planners_bytes_for_every_stage() -> None:
    drawn = figures.memory_of(BLOOM, gpu=A100)(language("en"))
    found = memory(BLOOM, gpu=A100)
    assert bytes_(found.total, "en") in drawn.alt
    rows = re.findall(r"<tr>(.*?)</tr>", drawn.table)[1:]
    assert len(rows) == BLOOM.pp
    for stage, row in enumerate(rows):
        bars = rank_bars(BLOOM, stage=stage)
        cells = re.findall(r"<bdi>(.*?)</bdi>", row)
        assert cells == [str(stage), *(bytes_(bars.as_dict()[name], "en") for name in BARS), bytes_(bars.total, "en")]
    assert set(BARS) == set(found.bars.as_dict())
    over = replace(BLOOM, recompute="none", micro_batch=4)
    missing = memory(over, gpu=A100).total - A100.memory
    assert bytes_(missing, "en") in figures.memory_of(over, gpu=A100)(language("en")).alt


@pytest.mark.parametrize("plan", [BLOOM, SPREAD, ALONE, replace(BLOOM, pp=8, recompute="none")])
def test_what_a_step_is_spent_on_adds_up_to_the_step(plan: Configuration) -> None:
    parts = spent(plan, gpu=A100)
    assert set(parts) == set(SPENT)
    assert min(parts.values()) >= 0
    assert sum(parts.values()) == pytest.approx(throughput.seconds(plan, gpu=A100))
    assert parts["bubble"] == pytest.approx(0, abs=1e-9) or plan.pp > 1
    assert (parts["recomputing"] > 0) == (plan.recompute == "full")


def test_two_steps_side_by_side_say_the_planners_seconds() -> None:
    other = replace(BLOOM, recompute="selective")
    drawn = figures.steps_side_by_side({"old": BLOOM, "new": other}, gpu=A100, title="Two layouts")(language("en"))
    for name, plan in (("old", BLOOM), ("new", other)):
        row = next(each for each in re.findall(r"<tr>(.*?)</tr>", drawn.table) if name in each)
        assert duration(throughput.seconds(plan, gpu=A100), language("en")) in row
        assert percent(throughput.throughput(plan, gpu=A100).mfu, language("en")) in row


def test_compiling_has_paid_where_the_lines_meet() -> None:
    drawn = figures.compiling_pays(first=60, eager=0.6, times=1.25, title="Paid after {steps} steps")(language("en"))
    assert "Paid after 496 steps" in drawn.alt


def test_a_point_of_the_roofline_lies_on_the_roof_of_its_link() -> None:
    for plan, gpu in ((BLOOM, A100), (SPREAD, accelerator("v100"))):
        rate, sent = rates(gpu), {axis.name: axis for axis in links.axes(plan, gpu=gpu)}
        assert list(rate.values()) == sorted(rate.values(), reverse=True)
        for point in points(plan, gpu=gpu):
            assert point.reached == pytest.approx(min(gpu.peak, point.intensity * rate[point.link]))
            busy = sent[point.axis].bytes / rate[point.link]
            at_peak = throughput.step_flops(plan) / plan.gpus / gpu.peak
            assert point.keeps_up == (busy <= at_peak)
    assert "data" in figures.roofline(SPREAD, gpu=accelerator("v100"))(language("en")).alt
    for each in accelerators().values():
        figures.roofline(SPREAD, gpu=each)(language("en"))
        if each.network or each.node >= SPREAD.gpus:
            figures.links_of(SPREAD, gpu=each)(language("en"))
    with pytest.raises(CourseError) as refused:
        figures.links_of(SPREAD, gpu=replace(A100, network=0.0))
    assert refused.value.id == "labs.plan-no-network"


def test_the_map_has_every_layout_once_and_marks_the_papers() -> None:
    every = layouts(BLOOM.model, gpus=384, gpu=A100, batch=2048)
    found = search(BLOOM.model, gpus=384, gpu=A100, batch=2048, most=1000)
    assert [each.plan for each in every.found] == [each.plan for each in found]
    assert sum(cell is not None for cell in every.cells.values()) == len(found)
    for (tp, pp), cell in every.cells.items():
        assert 384 % (tp * pp) == 0
        assert BLOOM.model.heads % tp == 0
        assert 2048 % (384 // tp // pp) == 0
        assert cell is None or (cell.plan.tp, cell.plan.pp) == (tp, pp)
    [paper] = every.chosen
    assert (paper.dp, paper.tp, paper.pp) == (8, 4, 12)
    drawn = figures.map_of_layouts(BLOOM.model, gpus=384, gpu=A100, batch=2048)(language("en"))
    assert "BLOOM 2022 trained with dp 8 × tp 4 × pp 12" in drawn.alt


def test_the_papers_layouts_are_read_from_their_tables() -> None:
    known = [("gpt-1t", 3072, (6, 8, 64)), ("mt-nlg", 2240, (8, 8, 35)), ("gpt-310b", 1920, (15, 8, 16))]
    for name, gpus, layout in known:
        assert [(each.dp, each.tp, each.pp) for each in chosen(model(name), gpus=gpus)] == [layout]
    assert chosen(model("llama-405b"), gpus=384) == ()


# --- controls


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("topic", TOPICS)
def test_every_control_begins_with_a_figure_and_speaks_the_language(topic: str, code: str) -> None:
    control = PlannerControl(topic, language=language(code))
    assert control.shown["refused"] == ""
    assert control.html == control.shown["html"] != ""
    assert control.setup["dir"] == language(code).direction
    labels = [each["label"] for each in control.setup["fields"]]
    assert len(set(labels)) == len(labels)
    assert all(set(each["among"][0]) == {"value", "label"} for each in control.setup["fields"] if each["among"])


def test_the_first_values_are_those_that_are_given() -> None:
    control = PlannerControl("memory", language=language("en"), model="gpt-7.5b", dp=64, pp=1, tp=1, batch=512, zero=3,
                             sequence_parallel=False, sequence=None)  # fmt: skip
    plan = configuration(control.choice)
    assert (plan.model.name, plan.dp, plan.zero, plan.sequence_parallel) == ("gpt-7.5b", 64, 3, False)
    assert plan.micro_batches * plan.micro_batch * plan.dp == 512
    assert control.html == figures.memory_of(plan, gpu=A100)(language("en")).html


@pytest.mark.parametrize(
    ("topic", "changes", "id"),
    [
        ("memory", {"tp": "5"}, "labs.plan-heads"),
        ("memory", {"dp": "many"}, "lessons.control-whole"),
        ("memory", {"dp": ""}, "lessons.control-whole"),
        ("memory", {"dp": "-3"}, "lessons.control-whole"),
        ("memory", {"dp": "9" * 40}, "lessons.control-whole"),
        ("memory", {"dp": "3"}, "lessons.control-batch"),
        ("memory", {"model": "gpt-9"}, "labs.unknown-model"),
        ("memory", {"gpu": "abacus"}, "labs.unknown-accelerator"),
        ("memory", {"stack": "of cards"}, "labs.unknown-choice"),
        ("traffic", {"zero": "7"}, "labs.unknown-choice"),
        ("throughput", {"tokens": "-1"}, "lessons.control-number"),
        ("throughput", {"price": "much"}, "lessons.control-number"),
        (
            "throughput",
            {"gpu": "tpu-v4", "dp": "64", "tp": "16", "pp": "32", "model": "gpt-18b"},
            "labs.plan-no-network",
        ),
        ("plan", {"gpus": "100000"}, "lessons.control-most"),
        ("plan", {"gpus": "8", "model": "gpt-1t", "batch": "8"}, "labs.plan-none-fits"),
        ("timetable", {"micro_batches": "2"}, "lessons.control-fill"),
        ("timetable", {"chunks": "2"}, "lessons.control-chunks"),
        ("timetable", {"schedule": "interleaved", "micro_batches": "10"}, "lessons.control-interleaved"),
        ("timetable", {"stages": "17"}, "lessons.control-most"),
    ],
)
def test_what_cannot_run_is_told_and_nothing_is_lost(topic: str, changes: dict[str, str], id: str) -> None:
    control = PlannerControl(topic, language=language("en"))
    before, first = control.html, dict(control.choice)
    with pytest.raises(CourseError) as refused:
        TOPICS[topic].figures(first | changes)
    assert refused.value.id == id
    control.choose(first | changes, turn=3)
    assert control.shown["refused"]
    assert control.shown["turn"] == 3
    assert control.choice == first | {name: value[:40] for name, value in changes.items()}
    assert control.html == before
    control.choose(first, turn=4)
    assert control.shown == {"turn": 4, "html": before, "refused": ""}


@st.composite
def choices(draw: st.DrawFn, topic: str) -> dict[str, str]:
    """What may stand in the fields: values of the lists and sliders, other numbers, and anything else."""
    chosen = {}
    for name in TOPICS[topic].fields:
        among = [str(each) for each in fields()[name].among]
        whole = st.integers(0, 10**10 if topic != "plan" else 300).map(str)
        usual = st.sampled_from(among) if among else whole
        chosen[name] = draw(
            usual if fields()[name].kind == "list" else st.one_of(usual, usual, whole, st.text(max_size=5))
        )
    return chosen


@pytest.mark.parametrize("topic", TOPICS)
@given(st.data())
@settings(max_examples=30, deadline=None)
def test_whatever_stands_in_the_fields_is_drawn_or_refused(topic: str, data: st.DataObject) -> None:
    chosen = data.draw(choices(topic))
    if topic == "plan":
        chosen |= {"gpus": str(min(int(chosen["gpus"]), 16))} if chosen["gpus"].isdecimal() else {}
    try:
        drawn = [figure(language("ar")) for figure in TOPICS[topic].figures(chosen)]
    except CourseError as error:
        error.in_language(translator("ar"))
        return
    for figure in drawn:
        root = ElementTree.fromstring(figure.document)
        width, height = (float(part) for part in str(root.get("viewBox")).split()[2:])
        for text in root.iter("{http://www.w3.org/2000/svg}text"):
            assert 0 <= float(text.get("x", "-1")) <= width, text.text
            assert 0 <= float(text.get("y", "-1")) <= height, text.text
        assert not re.search(r"\b(nan|inf)\b", figure.markup)


@pytest.mark.parametrize(("wrong", "id"), [({}, "control-unknown"), ({"speed": 3}, "control-no-field")])
def test_controls_that_there_are_not(wrong: dict[str, Any], id: str) -> None:
    with pytest.raises(CourseError) as refused:
        PlannerControl("memory" if wrong else "weather", language=language("en"), **wrong)
    assert refused.value.id == f"lessons.{id}"


def test_a_message_of_the_page_can_ask_for_anything() -> None:
    kept: list[str] = []
    control = PlannerControl("timetable", language=language("en"), settled=kept.append)
    control._received(control, {"do": "choose", "choice": {"stages": None, "other": "7"}, "turn": 1}, [])
    assert control.shown["refused"]
    for message in (None, {}, {"do": "choose"}, {"do": "choose", "choice": [], "turn": 2}, {"do": "fly"}):
        control._received(control, message, [])
    control._received(control, {"do": "settle"}, [])
    assert kept == [control.html]


def test_every_value_of_a_list_can_be_chosen() -> None:
    for name, field in fields().items():
        assert field.value in {str(each) for each in field.among} or field.kind != "list", name
        if field.kind == "whole":
            assert list(field.among) == sorted(set(field.among)), name
    for schedule in fields()["schedule"].among:
        control = PlannerControl("timetable", language=language("en"), schedule=schedule)
        assert control.shown["refused"] == ""


def test_every_page_saves_figures_by_the_same_script() -> None:
    copies = [
        Path("shardwise/jupyter/labextensions/shardwise-direction/static/saving.js"),
        Path("shardwise/jupyter/nbconvert/templates/shardwise/static/saving.js"),
    ]
    for each in copies:
        assert each.read_bytes() == SAVING.read_bytes(), f"copy {SAVING} to {each}"
