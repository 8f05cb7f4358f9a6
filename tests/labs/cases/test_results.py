"""The table of what the cases found is what their runs left, and each of its numbers has a name."""

import importlib

import pytest

from labs.cases import results
from labs.cases.rows import Row
from translations import CourseError
from translations.formats import NARROW_SPACE


def test_the_table_is_in_step_with_what_was_run() -> None:
    assert results.TABLE.read_text(encoding="utf-8") == results.table(results.kept())


def test_every_case_can_be_run_again() -> None:
    for module in results.CASES:
        assert callable(importlib.import_module(module).results)
    assert set(results.kept()) <= set(map(results.short, results.CASES))


def test_numbers_have_their_unit() -> None:
    shown = [
        ("B", 4_096_000, f"4.10{NARROW_SPACE}MB"),
        ("share", 0.125, "12.5%"),
        ("x", 2.5, "2.50 x"),
        ("", 7.21e-7, "7.2e-07"),
    ]
    for unit, amount, text in shown:
        assert results.value(Row(name="any", value=amount, unit=unit)) == text


def test_a_case_whose_stack_is_missing_keeps_its_numbers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = results.kept()

    def missing() -> list[Row]:
        raise CourseError("labs.unknown-choice", name="case", value="x", known="y")

    monkeypatch.setattr("labs.cases.batching.results", missing)
    assert results.main(["batching"]) == 1
    assert results.kept() == before
    assert capsys.readouterr().err.startswith("batching: ")


def test_an_unknown_case_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        results.main(["gpt-5"])
    assert "bloom-training" in capsys.readouterr().err
