"""What lessons show, piece by piece: tables, code, differences, comparisons, exercises as files, the small widgets."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from labs.exercises import exercises as all_exercises
from labs.strategies import data_parallel, zero_1
from labs.strategies.units import Unit
from shardwise import comparing, exercises, home, pages, shown
from shardwise.asking import Asking
from shardwise.comparing import Comparison
from shardwise.diagnosing import Diagnosis
from shardwise.record import Predicted, Record
from shardwise.record.tables import now
from shardwise.units import LESSONS, units
from translations import CourseError, Language, language, languages, translator

ENGLISH, ARABIC = language("en"), language("ar")
RELEASED = [each for each in languages() if each.released]
VOID = {"br", "input", "meta", "hr"}


class Balanced(HTMLParser):
    """Fails on a tag that isn't closed where it should be; keeps the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def text_of(html: str) -> str:
    return Balanced(html).text


# --- tables


def test_what_is_not_in_the_readers_script_keeps_its_order_in_a_table() -> None:
    rows = [["طبقة", "4 x 1 x 16"], ["طبقتان", "نعم"]]
    shown = pages.table(rows, header=["", ""], language=language("ar"))
    assert '<bdi dir="ltr">4 x 1 x 16</bdi>' in shown
    assert "<td>نعم</td>" in shown
    assert "<td>4 x 1 x 16</td>" in pages.table(rows, header=["", ""], language=language("nl"))


def test_a_table_writes_numbers_as_its_columns_ask() -> None:
    html = pages.table(
        [["a<b", 1_500_000, 0.25, 12, None]],
        header=["", "Size", "Share", "Steps", "?"],
        units=["", "B", "%"],
        language=ENGLISH,
    )
    shown = text_of(html).replace("\N{NARROW NO-BREAK SPACE}", " ")
    assert "a<b" in shown
    assert "1.50 MB25.0%12–" in shown
    assert html.count('scope="col"') == 5
    assert html.count('scope="row"') == 1


@pytest.mark.parametrize("each", RELEASED, ids=lambda each: str(each.code))
def test_a_page_has_its_languages_direction(each: Language) -> None:
    html = pages.page("<p>x</p>", each)
    assert f'dir="{each.direction}" lang="{each.code}"' in html


def test_messages_are_escaped_and_their_code_shown_as_code() -> None:
    html = pages.box("<script>alert(1)</script> `unit.update`", mood="bad", title="<b>")
    assert "<script>" not in html
    assert "<b>" not in html
    assert '<code dir="ltr">unit.update</code>' in html


# --- code


def test_a_source_is_shown_whole_with_nothing_but_comments_changed() -> None:
    english = shown.source(zero_1.Zero1, ENGLISH)
    assert text_of(pages.code(english, name="Zero1")) == english
    assert english.startswith("class Zero1")
    arabic = shown.source(zero_1.Zero1, ARABIC)
    strip = re.compile(r'#.*|"""(.|\n)*?"""')
    assert [line.rstrip() for line in strip.sub("", arabic).splitlines()] == [
        line.rstrip() for line in strip.sub("", english).splitlines()
    ]
    assert 'dir="ltr"' in pages.code(arabic, name="Zero1")


def test_a_method_is_moved_to_the_margin() -> None:
    assert shown.source(Unit.update, ENGLISH).startswith("def update")
    assert shown.name(Unit.update) == "Unit.update"


def test_a_difference_marks_every_changed_line_by_a_sign() -> None:
    before, after = (shown.source(each, ENGLISH) for each in (data_parallel.DataParallel, zero_1.Zero1))
    text = translator("en")
    html = pages.difference(before, after, name="x", text=text, around=10_000)
    added, removed = html.count("<ins "), html.count("<del ")
    assert text("shardwise.lines-changed", added=added, removed=removed) in text_of(html)
    assert html.count('<span class="mark">+</span>') == added
    assert html.count('<span class="mark">−</span>') == removed
    assert len(before.splitlines()) - removed + added == len(after.splitlines())
    Balanced(html)


def test_equal_sources_differ_in_nothing() -> None:
    html = pages.difference("a\nb", "a\nb", name="x", text=translator("en"))
    assert "<ins" not in html
    assert "<del" not in html


# --- comparing


@pytest.mark.parametrize(
    ("ratio", "id"),
    [
        (1, "shardwise.prediction-right"),
        (1.01, "shardwise.prediction-right"),
        (4, "quiz.times-ranks"),
        (0.25, "quiz.over-ranks"),
        (2, "quiz.twice"),
        (0.5, "quiz.half"),
        (8, "quiz.bits-for-bytes"),
        (1 / 8, "quiz.bytes-over-eight"),
        (1.024**2, "quiz.decimal-for-binary"),
        (1.024**-2, "quiz.binary-for-decimal"),
        (1000, "quiz.prefix-too-large"),
        (0.001, "quiz.prefix-too-small"),
        (1.3, "quiz.too-high"),
        (0.8, "quiz.too-low"),
        (0, "quiz.too-low"),
        (-1, "quiz.too-low"),
    ],
)
def test_a_wrong_prediction_is_told_what_it_would_mean(ratio: float, id: str) -> None:
    assert comparing.meaning(13_182_976 * ratio, 13_182_976, ranks=4, of_bytes=True) == id


def test_bits_and_binary_units_are_said_of_bytes_only() -> None:
    assert comparing.meaning(8, 1, ranks=None, of_bytes=False) == "quiz.too-high"


def test_a_comparison_shows_all_three_exactly() -> None:
    comparison = Comparison(predicted=26_365_952, formula=13_182_976, measured=13_182_976, ranks=4, unit="B")
    for each in RELEASED:
        said = text_of(comparing.html(comparison, translator(each)))
        assert re.search(r"13.182.976", said)
        assert translator(each)("quiz.twice") in said
        assert translator(each)("shardwise.exactly-the-formula") in said


def test_a_comparison_without_a_prediction_says_so() -> None:
    comparison = Comparison(predicted=None, formula=4.0, measured=4.1, ranks=None, unit="")
    said = text_of(comparing.html(comparison, translator("en")))
    assert "2.5%" in said
    assert translator("en")("shardwise.nothing-predicted") in said


@pytest.mark.parametrize(
    ("value", "measure", "base"), [(3.5, "MB", (3.5e6, "B")), (2, "GiB", (2**31, "B")), (4, "", (4, ""))]
)
def test_predictions_are_compared_in_the_smallest_unit(value: float, measure: str, base: tuple[float, str]) -> None:
    predicted = Predicted(unit="04-zero-1", question="q", value=value, measure=measure, made=now())
    assert comparing.base_value(predicted) == base


# --- exercises as files


@pytest.mark.usefixtures("learner")
def test_an_exercise_keeps_the_version_before(learner: Path) -> None:
    with pytest.raises(CourseError) as caught:
        exercises.source("zero-1")
    assert caught.value.id == "shardwise.exercise-not-kept"
    with pytest.raises(CourseError):
        exercises.undo("zero-1")
    exercises.save("zero-1", "first")
    exercises.save("zero-1", "second")
    exercises.save("zero-1", "second")
    assert exercises.source("zero-1") == "second"
    assert exercises.undo("zero-1") == "first"
    assert exercises.undo("zero-1") == "second"
    assert {each.name for each in (learner / "exercises").iterdir()} == {"zero-1.py", "zero-1.previous.py"}


@pytest.mark.usefixtures("learner")
def test_an_exercise_that_cannot_be_written_is_told(learner: Path) -> None:
    learner.mkdir()
    (learner / "exercises").write_text("in the way")
    with pytest.raises(CourseError) as caught:
        exercises.save("zero-1", "x")
    assert caught.value.id == "shardwise.record-refused"


# --- widgets


def test_a_field_tells_what_its_answer_led_to_or_what_is_wrong_with_it() -> None:
    def judge(given: str) -> str:
        if given == "bad":
            raise CourseError("shardwise.no-file", path=given)
        return f"kept {given}"

    field = Asking(label="Name", button="Go", language=ENGLISH, on_answer=judge)
    field._received(field, {"do": "answer", "answer": "good"}, [])
    assert (field.state["said"], field.state["wrong"]) == ("kept good", False)
    field._received(field, {"do": "answer", "answer": "bad"}, [])
    assert field.state["wrong"]
    assert "bad" in field.state["said"]
    for nonsense in ("text", {"do": "answer"}, {"do": "answer", "answer": 3}, None):
        field._received(field, nonsense, [])
    assert field.state["value"] == "bad"


def test_a_diagnosis_tells_nothing_before_it_is_answered() -> None:
    found = next(each for each in all_exercises() if each.id == "zero-1")
    told: list[tuple[str, str, bool]] = []
    widget = Diagnosis(
        shown.diagnosis(found),
        language=ENGLISH,
        on_answer=lambda part, choice, right: told.append((part, choice, right)),
    )
    page = str(widget.state)
    for part in shown.diagnosis(found):
        assert all(choice.feedback not in page for choice in part.choices)
    widget._received(widget, {"do": "answer", "chosen": {"rank": "no-such", "nothing": "x"}}, [])
    assert told == []
    wrong = {part.key: next(c.key for c in part.choices if c.key != part.answer) for part in shown.diagnosis(found)}
    widget._received(widget, {"do": "answer", "chosen": wrong}, [])
    assert not widget.solved
    assert all(part["feedback"] and not part["right"] for part in widget.state["parts"])
    widget._received(widget, {"do": "answer", "chosen": {part.key: part.answer for part in shown.diagnosis(found)}}, [])
    assert widget.solved
    assert widget.state["ending"]


# --- the home page


@pytest.mark.parametrize("each", RELEASED, ids=lambda each: str(each.code))
def test_the_home_page_shows_every_unit_and_links_those_that_are_open(each: Language, record: Record) -> None:
    html = home.html(record, each)
    said = text_of(html)
    for unit in units():
        assert unit.title(translator(each)) in said
        assert (f'href="{unit.id}.ipynb"' in html) == unit.open(each)
    assert re.search(r"80.?%", said)


def test_the_map_gives_each_lesson_the_time_that_it_says_itself() -> None:
    for unit in units():
        source = LESSONS / "source" / f"{unit.id}.md"
        if source.exists():
            assert f"\nminutes: {unit.minutes}\n" in source.read_text(encoding="utf-8"), unit.id


@pytest.mark.parametrize("each", RELEASED, ids=lambda each: str(each.code))
def test_menu_words_stand_beside_jupyterlabs_own(each: Language) -> None:
    said = text_of(shown.menu_words(translator(each)))
    assert "Restart Kernel and Run All Cells…" in said
    assert translator(each)("shardwise.menu-run-all") in said
