"""`class.yaml`: what it says is what is read, every moment has a zone, and a penalty follows from the date as it is."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from shardwise.classroom import course as classes
from shardwise.classroom.course import Assignment, Course, Late, Marks, Student
from translations import CourseError, languages, translator

ZONE = "Europe/Amsterdam"
DUE = datetime(2026, 10, 1, 23, 59, tzinfo=ZoneInfo(ZONE))
TEXT = """
version: 1
id: ds
languages: [nl, en]
zone: Europe/Amsterdam
assignments:
  - {id: zero-1, due: 2026-10-01 23:59 Europe/Amsterdam}
  - {id: zero-1-resit, exercise: zero-1, due: 2026-11-01T12:00+01:00, resit_of: zero-1, students: [maria]}
extensions:
  maria: {zero-1: 2026-10-03 23:59 Africa/Cairo}
  ali: {"*": 2026-10-10 12:00 UTC}
"""
MOMENTS = st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC)).map(
    lambda at: at.replace(microsecond=0)
)


def made(**more: object) -> Course:
    fields: dict[str, object] = {
        "id": "ds",
        "languages": ("en",),
        "zone": ZONE,
        "assignments": (Assignment(id="zero-1", exercise="zero-1", due=DUE),),
    }
    return Course(**{**fields, **more})  # type: ignore[arg-type]


def test_a_class_reads_as_it_was_written(tmp_path: Path) -> None:
    read = classes.parse(TEXT)
    assert read.assignments[0].due == DUE
    assert read.assignments[1] == Assignment(
        id="zero-1-resit",
        exercise="zero-1",
        due=datetime(2026, 11, 1, 11, tzinfo=UTC),
        resit_of="zero-1",
        students=("maria",),
    )
    assert read.language == "en"
    assert replace(read, languages=("nl", "ar")).language == "nl"
    classes.write(read, tmp_path)
    assert classes.read(tmp_path) == read


@given(
    due=MOMENTS,
    percent=st.floats(0, 100, allow_nan=False),
    floor=st.floats(0, 100, allow_nan=False),
    closed=st.none() | st.integers(0, 30),
    title=st.text(max_size=20).map(lambda text: text.strip()).filter(str.isprintable),
)
def test_whatever_a_class_is_it_reads_as_it_was_written(
    due: datetime, percent: float, floor: float, closed: int | None, title: str
) -> None:
    course = made(
        title=title,
        assignments=(Assignment(id="zero-1", exercise="zero-1", due=due),),
        late=Late(percent_a_day=percent, floor=floor, closed_after_days=closed),
        extensions={"maria": {"zero-1": due + timedelta(seconds=1)}},
    )
    assert classes.parse(yaml.safe_dump(course.as_data(), allow_unicode=True)) == course


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("23:59 Europe/Amsterdam}", "23:59}", "Write it with one: 2026-10-01 23:59 Europe/Amsterdam"),
        ("due: 2026-10-01 23:59 Europe/Amsterdam", "due: 2026-10-01", "is not a due date"),
        ("due: 2026-10-01 23:59 Europe/Amsterdam", "due: 2026-10-01T23:59:00", "has no time zone"),
        ("2026-10-01 23:59 E", "2026-03-29 02:30 E", "the clock is put forward"),
        ("2026-10-01 23:59", "2026-13-01 23:59", "no such time"),
        ("23:59 Europe/Amsterdam}", "23:59 Mars/Olympus}", "no time zone Mars/Olympus"),
        ("zone: Europe/Amsterdam", "zone: Amsterdam", "no time zone Amsterdam"),
        ("[nl, en]", "[nl, tlh]", "no language tlh"),
        ("resit_of: zero-1", "resit_of: zero-9", "no assignment zero-9"),
        ("{id: zero-1,", "{id: zero-9,", "no exercise named zero-9"),
        ("maria: {zero-1:", "maria: {zero-9:", "no assignment zero-9"),
        ("{id: zero-1-resit,", "{id: zero-1,", "listed twice"),
        ("version: 1", "version: 2", "at version"),
        ("id: ds", "id: DS 1", "at id"),
        ("zone:", "late: {floor: 120}\nzone:", "at late.floor"),
        ("zone:", "latte: 3\nzone:", "latte"),
        ("zone:", "marks: {scale: [[0, 1], [50, 5]]}\nzone:", "from 0 to 100 percent"),
        ("assignments:", "assignments: [", "can't be read"),
    ],
)
def test_what_is_wrong_is_named(old: str, new: str, says: str) -> None:
    assert old in TEXT
    with pytest.raises(CourseError) as raised:
        classes.parse(TEXT.replace(old, new, 1))
    assert says in str(raised.value)
    for each in languages():
        assert raised.value.in_language(translator(each))


def test_a_due_date_is_a_moment_wherever_the_reader_is() -> None:
    course = classes.parse(TEXT)
    assert course.due("bob", "zero-1") == datetime(2026, 10, 1, 21, 59, tzinfo=UTC)
    assert course.due("maria", "zero-1") == datetime(2026, 10, 3, 20, 59, tzinfo=UTC)
    assert course.due("ali", "zero-1") == course.due("ali", "zero-1-resit") == datetime(2026, 10, 10, 12, tzinfo=UTC)
    assert course.is_for("maria", "zero-1-resit")
    assert not course.is_for("bob", "zero-1-resit")
    assert [each.id for each in course.resits_of("zero-1")] == ["zero-1-resit"]


@pytest.mark.parametrize(
    ("late", "percent", "days"),
    [
        (timedelta(hours=-3), 0, 0),
        (timedelta(0), 0, 0),
        (timedelta(minutes=15), 0, 0),
        (timedelta(minutes=16), 10, 1),
        (timedelta(hours=24), 10, 1),
        (timedelta(hours=24, seconds=1), 20, 2),
        (timedelta(days=4, hours=1), 50, 5),
        (timedelta(days=40), 50, 40),
    ],
)
def test_lateness(late: timedelta, percent: float, days: int) -> None:
    found = made().penalty("bob", "zero-1", DUE.astimezone(UTC) + late)
    assert (found.percent, found.days, found.closed) == (percent, days, False)
    assert found.share == pytest.approx(1 - percent / 100)


def test_a_penalty_goes_with_the_deadline_that_moves() -> None:
    handed_in = datetime(2026, 10, 3, 12, tzinfo=UTC)
    course = made()
    assert course.penalty("bob", "zero-1", handed_in).percent == 20
    moved = replace(course, assignments=(replace(course.assignments[0], due=handed_in),))
    assert moved.penalty("bob", "zero-1", handed_in).percent == 0
    extended = replace(course, extensions={"bob": {"zero-1": handed_in}})
    assert extended.penalty("bob", "zero-1", handed_in).percent == 0
    assert extended.penalty("eve", "zero-1", handed_in).percent == 20
    earlier = replace(course, extensions={"bob": {"zero-1": handed_in - timedelta(days=9)}})
    assert earlier.penalty("bob", "zero-1", handed_in).percent == 50


def test_a_day_has_24_hours_in_the_night_when_the_clock_goes_back() -> None:
    due = datetime(2026, 10, 24, 23, 59, tzinfo=ZoneInfo(ZONE))
    course = made(assignments=(Assignment(id="zero-1", exercise="zero-1", due=due),))
    assert course.penalty("bob", "zero-1", due.astimezone(UTC) + timedelta(hours=24)).days == 1
    same_clock = datetime(2026, 10, 25, 23, 59, tzinfo=ZoneInfo(ZONE))
    assert course.penalty("bob", "zero-1", same_clock).days == 2


def test_after_the_door_is_closed_nothing_counts() -> None:
    course = made(late=Late(closed_after_days=7))
    assert course.penalty("bob", "zero-1", DUE + timedelta(days=7)).percent == 50
    found = course.penalty("bob", "zero-1", DUE + timedelta(days=7, seconds=1))
    assert (found.share, found.closed) == (0, True)


def test_without_a_moment_there_is_no_penalty_and_one_without_a_zone_is_an_error() -> None:
    assert made().penalty("bob", "zero-1", None).percent == 0
    undated = made(assignments=(Assignment(id="zero-1", exercise="zero-1"),))
    assert undated.penalty("bob", "zero-1", DUE).percent == 0
    with pytest.raises(ValueError, match="no zone"):
        made().penalty("bob", "zero-1", datetime(2026, 10, 3))
    with pytest.raises(CourseError, match="zero-9"):
        made().due("bob", "zero-9")


@given(first=MOMENTS, later=st.timedeltas(timedelta(0), timedelta(days=60)), floor=st.integers(0, 100))
def test_handing_in_later_never_costs_less_nor_more_than_the_floor_leaves(
    first: datetime, later: timedelta, floor: int
) -> None:
    course = made(late=Late(floor=floor))
    one, two = (course.penalty("bob", "zero-1", at) for at in (first, first + later))
    assert 0 <= one.percent <= two.percent <= 100 - floor


@pytest.mark.parametrize(
    ("share", "mark"), [(0, 1), (0.275, 3.3), (0.55, 5.5), (0.5499, 5.5), (0.5, 5.1), (0.775, 7.8), (1, 10), (1.2, 10)]
)
def test_the_scale_of_marks(share: float, mark: float) -> None:
    assert Marks(scale=((0, 1), (55, 5.5), (100, 10)), decimals=1, passed=5.5).mark(share) == mark


def test_students_from_a_spreadsheet(tmp_path: Path) -> None:
    path = tmp_path / "list.csv"
    path.write_text("\ufeffid;First_Name;language;room\nmaria;María José;nl;B1\n\nali.h@uni.example;;ar;\n", "utf-8")
    found = classes.read_students(path)
    assert found == (
        Student(id="maria", first_name="María José", language="nl"),
        Student(id="ali.h@uni.example", language="ar"),
    )
    classes.write_students(found, tmp_path)
    assert classes.students(tmp_path) == found


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("name,mail\nMaria,x\n", "no column id"),
        ("id\nmaria\nmaria\n", "line 3: the student maria is listed twice"),
        ("id\n../../etc\n", "line 2: “../../etc” can't be"),
        ("id\n-rf\n", "can't be a student's id"),
        ("id,language\nmaria,tlh\n", "no language tlh"),
        ("", "no column id"),
    ],
)
def test_a_wrong_list_of_students_names_the_line(tmp_path: Path, rows: str, says: str) -> None:
    path = tmp_path / "list.csv"
    path.write_text(rows, encoding="utf-8")
    with pytest.raises(CourseError) as raised:
        classes.read_students(path)
    assert says in str(raised.value)
