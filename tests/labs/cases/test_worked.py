"""The worked cases: what the planner computes of BLOOM-176B and MT-NLG 530B, beside what was printed of them."""

import html
import json
import re

import pytest

from labs.cases import worked, worked_shown
from labs.planner.hardware import accelerator
from labs.planner.memory import memory
from shardwise import cli
from translations import CourseError, translator
from translations import language as find_language

NAMES = tuple(worked.CASES)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_off_has_a_reason_and_what_is_not_has_none_to_show(name: str) -> None:
    for row in worked.case(name).rows:
        if row.off is not None and abs(row.off) > 0.005:
            assert row.why, row.quantity


def test_blooms_layout_is_the_published_one() -> None:
    case = worked.case("bloom-176b")
    assert (case.plan.gpus, case.plan.global_batch, case.plan.micro_batches) == (384, 2048, 128)
    assert case.plan.layers == (5, *(6,) * 10, 5)
    assert case.plan.model.parameters == 176_247_271_424


def test_rates_of_measured_steps_come_out_as_printed() -> None:
    assert worked.case("bloom-176b").row("tflops-measured").off == 0
    for quantity in ("tflops-measured", "tflops-measured-more", "parameters"):
        assert worked.case("mt-nlg-530b").row(quantity).off == 0


def test_predicted_steps_are_near_the_measured_ones() -> None:
    assert abs(worked.case("bloom-176b").row("seconds").off or 0) < 0.15
    for quantity in ("seconds", "seconds-more"):
        assert abs(worked.case("mt-nlg-530b").row(quantity).off or 0) < 0.03


def test_checkpoints_weigh_what_du_rounds_up() -> None:
    case = worked.case("bloom-176b")
    for quantity, unit in (("weights", 2**30), ("checkpoint", 2**40 / 10)):
        row = case.row(quantity)
        assert row.published is not None
        printed = round(sum(row.published) / 2 / unit)
        assert -(-row.computed // unit) == printed


def test_embedding_counted_as_a_layer_takes_bytes_off_the_first_stage() -> None:
    case = worked.case("bloom-176b")
    saved = case.row("memory-uneven").computed - case.row("memory").computed
    layer = case.plan.model.layer // case.plan.tp
    assert saved > 6 * layer
    assert memory(case.plan, gpu=case.gpu).fits


def test_a_replica_of_mt_nlg_needs_cards_of_80_gb() -> None:
    case = worked.case("mt-nlg-530b")
    assert case.plan.tp * case.plan.pp == 280
    assert case.row("fits-40").computed > 1
    assert memory(case.plan, gpu=accelerator("a100-40")).fits is False
    assert memory(case.plan, gpu=accelerator("a100-80")).fits is True


def test_saving_every_100_steps_costs_hardly_more_than_the_best() -> None:
    case = worked.case("bloom-176b")
    often, seldom = (case.row(f"lost-share-{every}").computed for every in (100, 250))
    assert often < 0.013 < 0.023 < seldom


@pytest.mark.parametrize("language", ["en", "nl", "ar"])
@pytest.mark.parametrize("name", NAMES)
def test_the_figure_says_all_its_numbers(name: str, language: str) -> None:
    case, text = worked.case(name), translator(language)
    table = html.unescape(worked_shown.figure(case, language).table)
    for row in case.rows:
        if row.published is not None:
            assert worked_shown.name(row, text) in table
            assert worked_shown.value(row, row.computed, language) in table


@pytest.mark.parametrize("code", ["en", "nl", "ar"])
@pytest.mark.parametrize("name", NAMES)
def test_the_tables_have_every_row_with_its_reason_and_what_was_solved(name: str, code: str) -> None:
    case, text, chosen = worked.case(name), translator(code), find_language(code)
    compared, solved = worked_shown.compared(case)(chosen), worked_shown.solved(case)(chosen)
    assert [row[0] for row in compared.rows] == [worked_shown.name(row, text) for row in case.rows]
    assert [bool(row[3]) for row in compared.rows] == [bool(row.why and row.off) for row in case.rows]
    assert [row[1] for row in solved.rows] == list(case.solved.values())


def test_the_command_shows_reasons_and_what_was_solved(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["case", "bloom-176b"]) == 0
    shown = capsys.readouterr().out
    assert "du, rounds up" in shown
    assert shown.count("\n- ") == len(worked.case("bloom-176b").solved)
    for name in NAMES:
        assert cli.run(["case", name, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["case"] == name
        assert {row["quantity"] for row in found["rows"]} == {row.quantity for row in worked.case(name).rows}


def test_another_name_is_told_which_there_are() -> None:
    with pytest.raises(CourseError, match="bloom-176b, mt-nlg-530b"):
        worked.case("gpt-5")


def test_ticks_of_the_figure_stand_where_their_labels_say() -> None:
    """The label of every line, read back, is the ratio that the line stands for: evenly spaced around 1."""
    markup = worked_shown.figure(worked.case("bloom-176b"), "en").markup
    lines = re.findall(r'<line x1="([\d.]+)" y1="[\d.]+" x2="\1"', markup)
    labels = [float(each) for each in re.findall(r'text-anchor="middle"[^>]*>([\d.]+)<', markup)]
    places = sorted({float(each) for each in lines})
    assert len(labels) == len(places) == 5
    scale = (places[-1] - places[0]) / (labels[-1] - labels[0])
    for place, label in zip(places, labels, strict=True):
        assert place == pytest.approx(places[0] + (label - labels[0]) * scale, abs=0.2)
