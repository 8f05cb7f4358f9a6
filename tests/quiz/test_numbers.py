import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiz.numbers import parse
from translations import CourseError, formats, languages


@pytest.mark.parametrize(
    ("text", "readings", "unit"),
    [
        ("3.5", (3.5,), None),
        ("3,5 GB", (3.5,), "GB"),
        ("٣٫٥ غيغابايت", (3.5,), "GB"),
        ("۳٫۵", (3.5,), None),
        ("1,234", (1.234, 1234), None),
        ("1.234.567", (1234567,), None),
        ("1,234.5 MB", (1234.5,), "MB"),
        ("1.234,5 MB", (1234.5,), "MB"),
        ("1 234,5", (1234.5,), None),
        ("1\u202f234 kB", (1234,), "kB"),
        ("٬١٢٣"[1:], (123,), None),
        ("2e9 bytes", (2e9,), "B"),
        ("2.5 × 10^9 B", (2.5e9,), "B"),
        ("2,5·10^9", (2.5e9,), None),
        ("≈ 28 Gbit", (28,), "Gbit"),
        ("28 Gb", (28,), "Gbit"),
        ("28 gb", (28,), "GB"),
        ("\u20673.5\u2069 GiB", (3.5,), "GiB"),
        ("-4", (-4,), None),
        ("12 jaar", (12,), "years"),
        ("١٢ سنةً", (12,), "years"),
        ("25%", (25,), "%"),
        ("25 ٪", (25,), "%"),
        ("4×", (4,), "times"),
        ("7 billion parameters", (7,), "billion"),
        ("0,5", (0.5,), None),
        (".5", (0.5,), None),
    ],
)
def test_what_people_write(text: str, readings: tuple[float, ...], unit: str | None) -> None:
    found = parse(text)
    assert found.readings == pytest.approx(readings)
    assert (found.unit.name if found.unit else None) == unit


@pytest.mark.parametrize("text", ["", "  ", "many", "GB", "3.5.6,7.1", "1,2,3", "--4", "1e999", "9" * 100, "nan", "½"])
def test_what_is_no_number_is_said_and_not_graded(text: str) -> None:
    with pytest.raises(CourseError) as refused:
        parse(text)
    assert refused.value.id == "quiz.not-a-number"


def test_an_unknown_unit_is_named() -> None:
    with pytest.raises(CourseError) as refused:
        parse("3 parsec")
    assert "parsec" in str(refused.value)


@given(st.floats(min_value=1e-6, max_value=1e15))
def test_a_number_shown_in_any_language_is_read_back(value: float) -> None:
    for language in languages():
        readings = parse(formats.number(value, language)).readings
        assert any(reading == pytest.approx(value, rel=6e-3) for reading in readings), language.code


@given(st.text(max_size=30))
def test_no_text_breaks_it(text: str) -> None:
    with contextlib.suppress(CourseError):
        assert parse(text).readings
