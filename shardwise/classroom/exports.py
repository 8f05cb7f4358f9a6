"""The marks as files that other systems read: Moodle, Canvas, Brightspace, a spreadsheet.

Each writes the columns that its system's own grade import asks for. Names come from a list that others filled in, so a
cell that a spreadsheet would take for a formula gets an apostrophe before it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from shardwise.classroom.course import Student
from shardwise.classroom.sheet import Sheet
from translations import Translator

Rows = Iterator[Sequence[object]]
MARK = "mark"
"""The id of the column with the mark of the whole."""


def moodle(sheet: Sheet, _text: Translator) -> Rows:
    """Grades, import, CSV: people are found by ID number or e-mail address; a column is chosen for each item."""
    yield ["ID number", "Email address", *(each.id for each in sheet.columns), f"{sheet.course.id} {MARK}"]
    for student in sheet.students:
        yield [student.lms_user_id or student.id, student.email, *_points(sheet, student), _said(sheet, student)]


def canvas(sheet: Sheet, _text: Translator) -> Rows:
    """Gradebook, import: Canvas finds people by its own ID, or by SIS login where that column is empty."""
    yield ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *(each.id for each in sheet.columns)]
    yield ["    Points Possible", "", "", "", "", *(_number(each.of) for each in sheet.columns)]
    for student in sheet.students:
        name = ", ".join(each for each in (student.last_name, student.first_name) if each)
        yield [_inert(name), student.lms_user_id, "", student.id, "", *_points(sheet, student)]


def brightspace(sheet: Sheet, _text: Translator) -> Rows:
    """Grades, import: an item is made where there is none of that name, with the points of its heading."""
    items = [f"{each.id} Points Grade <Numeric MaxPoints:{_number(each.of)}>" for each in sheet.columns]
    yield ["OrgDefinedId", "Username", *items, "End-of-Line Indicator"]
    for student in sheet.students:
        yield [f"#{student.lms_user_id or student.id}", f"#{student.id}", *_points(sheet, student), "#"]


def table(sheet: Sheet, text: Translator) -> Rows:
    """For people: every column with its points, the share and the mark, in the teacher's language."""
    totals = [text("shardwise.export-share"), text("shardwise.export-mark"), text("shardwise.export-waiting")]
    names = [text(f"shardwise.export-{name}") for name in ("student", "last-name", "first-name", "email")]
    yield [*names, *(f"{each.id} ({_number(each.of)})" for each in sheet.columns), *totals]
    for student in sheet.students:
        share = sheet.share(student.id)
        waits = sum(who == student.id for who, _ in sheet.waiting())
        own = [student.id, *map(_inert, (student.last_name, student.first_name, student.email))]
        yield [
            *own,
            *_points(sheet, student),
            "" if share is None else _number(100 * share, 1),
            _said(sheet, student),
            waits,
        ]


FORMATS: Mapping[str, Callable[[Sheet, Translator], Rows]] = MappingProxyType(
    {"table": table, "moodle": moodle, "canvas": canvas, "brightspace": brightspace}
)


def write(sheet: Sheet, format: str, text: Translator) -> str:
    """The marks as the text of a CSV file."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerows(FORMATS[format](sheet, text))
    return out.getvalue()


def _points(sheet: Sheet, student: Student) -> list[str]:
    """The points in each column; nothing where the column is not for this student."""
    scores = (sheet.scores.get((student.id, column.id)) for column in sheet.columns)
    return ["" if score is None else _number(score.points) for score in scores]


def _said(sheet: Sheet, student: Student) -> str:
    mark = sheet.mark(student.id)
    return "" if mark is None else f"{mark:.{sheet.course.marks.decimals}f}"


def _number(value: float, decimals: int = 2) -> str:
    """With a point in every language: programs read it."""
    return f"{value:.{decimals}f}".rstrip("0").rstrip(".") if value % 1 else f"{value:.0f}"


def _inert(text: str) -> str:
    """A text that no spreadsheet runs: a formula begins with one of these."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
