"""A class as its teacher describes it in `class.yaml`: languages, assignments, due moments, lateness, marks.

The file is the one place for all of it. Nothing that follows from it is stored: who moves a deadline and grades again,
or only imports again, gets the penalties of the new one. Every moment has a zone; one without is refused.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import jsonschema
import yaml

from translations import SOURCE, CourseError, released

NAME = "class.yaml"
STUDENTS = "students.csv"
SCHEMA = Path(__file__).parent / "schema" / "class.schema.json"
EVERY = "*"
"""In a student's extensions: all assignments."""
DAY = timedelta(days=1)
_MOMENT = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2})[T ]\s*(?P<time>\d{1,2}:\d{2}(?::\d{2})?)\s*"
    r"(?P<zone>Z|[+-]\d{2}:?\d{2}|[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*)?"
)
_STUDENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,127}")


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """One column of the gradebook: an exercise with a due moment (with a zone), None where there is none.

    `resit_of` names the assignment that it may replace, `students` those for whom it is (None: everyone).
    """

    id: str
    exercise: str
    due: datetime | None = None
    resit_of: str | None = None
    students: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Late:
    """What lateness costs: `percent_a_day` of what was reached for each 24 hours begun after the due moment, nothing
    within the grace, and never more than leaves `floor` percent. After `closed_after_days` nothing counts.
    """

    percent_a_day: float = 10.0
    grace_minutes: float = 15.0
    floor: float = 50.0
    closed_after_days: float | None = None


@dataclass(frozen=True, kw_only=True)
class Penalty:
    """What one hand-in loses: `percent` of what was reached, for so many days begun. `late` is zero when in time."""

    late: timedelta
    days: int
    percent: float
    closed: bool = False

    @property
    def share(self) -> float:
        """What is left, between 0 and 1: points reached times this is what counts."""
        return 1 - self.percent / 100


@dataclass(frozen=True, kw_only=True)
class Marks:
    """A scale: pairs of percent and mark with straight lines between, from 0 to 100 percent."""

    scale: tuple[tuple[float, float], ...] = ((0.0, 0.0), (100.0, 100.0))
    decimals: int = 1
    passed: float = 55.0

    def mark(self, share: float) -> float:
        """The mark for a share of all points (0 to 1; beyond it the nearest end), rounded half up to `decimals`."""
        percent = min(max(100 * share, self.scale[0][0]), self.scale[-1][0])
        for (low, first), (high, second) in pairwise(self.scale):
            if percent <= high:
                exact = first + (second - first) * (percent - low) / (high - low)
                return _half_up(exact, self.decimals)
        return _half_up(self.scale[-1][1], self.decimals)


@dataclass(frozen=True, kw_only=True)
class Student:
    """One row of `students.csv`. `language` is the one that a student's feedback is written in; "" where unknown."""

    id: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    lms_user_id: str = ""
    language: str = ""


@dataclass(frozen=True, kw_only=True)
class Course:
    """A class. `extensions[student][assignment]` is that student's own due moment; `*` stands for every assignment."""

    id: str
    languages: tuple[str, ...]
    zone: str
    assignments: tuple[Assignment, ...]
    title: str = ""
    units: tuple[str, ...] = ()
    exchange: str | None = None
    extensions: Mapping[str, Mapping[str, datetime]] = field(default_factory=dict)
    late: Late = field(default_factory=Late)
    resits: Literal["best", "latest"] = "best"
    marks: Marks = field(default_factory=Marks)
    published_solution: Literal["report", "no-marks"] = "report"

    @property
    def language(self) -> str:
        """The language of the notebook that nbgrader counts: English where it is one of the class's."""
        return SOURCE if SOURCE in self.languages else self.languages[0]

    def assignment(self, id: str) -> Assignment:
        """Raises CourseError naming those there are."""
        for each in self.assignments:
            if each.id == id:
                return each
        known = ", ".join(each.id for each in self.assignments)
        raise CourseError("shardwise.class-no-assignment", assignment=id, known=known)

    def due(self, student: str, assignment: str) -> datetime | None:
        """When this student's work is due: the extension where there is one, even one that lies earlier."""
        own = self.extensions.get(student, {})
        return own.get(assignment) or own.get(EVERY) or self.assignment(assignment).due

    def penalty(self, student: str, assignment: str, handed_in: datetime | None) -> Penalty:
        """What a hand-in at this moment loses, by the due moment as it stands now. Without a moment, or due moment,
        nothing. Raises ValueError for a moment without a zone.
        """
        due = self.due(student, assignment)
        nothing = Penalty(late=timedelta(), days=0, percent=0.0)
        if due is None or handed_in is None:
            return nothing
        if handed_in.tzinfo is None:
            raise ValueError(f"the moment {handed_in} has no zone")
        late = handed_in.astimezone(UTC) - due.astimezone(UTC)
        if late <= timedelta(minutes=self.late.grace_minutes):
            return nothing
        days = math.ceil(late / DAY)
        if self.late.closed_after_days is not None and late > timedelta(days=self.late.closed_after_days):
            return Penalty(late=late, days=days, percent=100.0, closed=True)
        percent = min(self.late.percent_a_day * days, 100 - self.late.floor)
        return Penalty(late=late, days=days, percent=percent)

    def is_for(self, student: str, assignment: str) -> bool:
        """Whether a student is to do this assignment."""
        chosen = self.assignment(assignment).students
        return chosen is None or student in chosen

    def resits_of(self, assignment: str) -> tuple[Assignment, ...]:
        """The assignments that may replace this one."""
        return tuple(each for each in self.assignments if each.resit_of == assignment)

    def as_data(self) -> dict[str, Any]:
        """What `class.yaml` holds."""
        found: dict[str, Any] = {"version": 1, "id": self.id}
        if self.title:
            found["title"] = self.title
        found["languages"] = list(self.languages)
        if self.units:
            found["units"] = list(self.units)
        found["zone"] = self.zone
        if self.exchange:
            found["exchange"] = self.exchange
        found["assignments"] = [assignment_data(each) for each in self.assignments]
        late: dict[str, Any] = {
            "percent_a_day": self.late.percent_a_day,
            "grace_minutes": self.late.grace_minutes,
            "floor": self.late.floor,
        }
        if self.late.closed_after_days is not None:
            late["closed_after_days"] = self.late.closed_after_days
        found["late"] = late
        found["extensions"] = {
            student: {assignment: said(due) for assignment, due in own.items()}
            for student, own in self.extensions.items()
        }
        found["resits"] = self.resits
        found["marks"] = {
            "scale": [list(pair) for pair in self.marks.scale],
            "decimals": self.marks.decimals,
            "pass": self.marks.passed,
        }
        found["published_solution"] = self.published_solution
        return found


# --- reading and writing


def read(folder: Path) -> Course:
    """The class of a course folder. Raises CourseError that names the place in the file and what is expected there."""
    path = folder / NAME
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise CourseError("shardwise.class-no-file", folder=str(folder)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise CourseError("shardwise.class-unreadable", path=str(path), reason=str(error)) from None
    return parse(text, name=str(path))


def parse(text: str, *, name: str = NAME) -> Course:
    """The class that a `class.yaml` describes."""
    try:
        data = yaml.load(text, Loader=_Loader)  # a SafeLoader
    except yaml.YAMLError as error:
        raise CourseError("shardwise.class-unreadable", path=name, reason=" ".join(str(error).split())) from None
    for problem in sorted(jsonschema.Draft202012Validator(schema()).iter_errors(data), key=str):
        place = ".".join(str(part) for part in problem.absolute_path) or NAME
        raise CourseError("shardwise.class-wrong", path=name, place=place, reason=problem.message[:300])
    try:
        return _course(data)
    except CourseError as error:
        raise CourseError("shardwise.class-told", path=name, reason=error) from None


def write(course: Course, folder: Path) -> Path:
    """`class.yaml` of a class, in one piece. What it then holds reads as the same class."""
    text = yaml.safe_dump(course.as_data(), allow_unicode=True, sort_keys=False, width=100)
    path = folder / NAME
    part = path.with_name(f".{NAME}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
    return path


@cache
def schema() -> Mapping[str, Any]:
    """The JSON Schema of `class.yaml`."""
    loaded: Mapping[str, Any] = json.loads(SCHEMA.read_text(encoding="utf-8"))
    return loaded


def moment(text: str, zone: str) -> datetime:
    """A due moment. Raises CourseError where it has no zone (suggesting the class's), or is no time at all."""
    found = _MOMENT.fullmatch(text.strip())
    if found is None:
        raise CourseError("shardwise.class-no-moment", given=text, example=f"2026-10-01 23:59 {zone}")
    if found["zone"] is None:
        raise CourseError("shardwise.class-no-zone", given=text, suggested=f"{text.strip()} {zone}")
    try:
        if re.match(r"Z|[+-]", found["zone"]) and found["zone"] not in _names():
            return datetime.fromisoformat(f"{found['date']}T{found['time']:0>5}{found['zone']}")
        plain = datetime.fromisoformat(f"{found['date']}T{found['time']:0>5}")
    except ValueError as error:
        raise CourseError("shardwise.class-no-such-time", given=text, reason=str(error)) from None
    made = plain.replace(tzinfo=zone_of(found["zone"]))
    if made.astimezone(UTC).astimezone(made.tzinfo).replace(tzinfo=None) != plain:
        raise CourseError("shardwise.class-clock-skips", given=text)
    return made


def said(due: datetime) -> str:
    """A moment as `moment` reads it: with the zone's name where it has one, else with its offset."""
    if isinstance(due.tzinfo, ZoneInfo):
        seconds = f"{due:%Y-%m-%d %H:%M:%S}"
        return f"{seconds.removesuffix(':00') if due.second == 0 else seconds} {due.tzinfo.key}"
    return due.isoformat(timespec="minutes" if due.second == 0 else "seconds")


def zone_of(name: str) -> ZoneInfo:
    """A time zone by name. Raises CourseError where there is none."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise CourseError("shardwise.class-unknown-zone", zone=name) from None


# --- students


def students(folder: Path) -> tuple[Student, ...]:
    """The students of a course folder; none where it has no list."""
    path = folder / STUDENTS
    return read_students(path) if path.is_file() else ()


def is_student(id: str) -> bool:
    """Whether a student can be called so: an id is the name of folders and files, too."""
    return _STUDENT.fullmatch(id) is not None


def read_students(path: Path) -> tuple[Student, ...]:
    """Students from a CSV with a column `id`, and what else there is of first_name, last_name, email, lms_user_id and
    language. Comma or semicolon. Raises CourseError naming the line.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise CourseError("shardwise.class-unreadable", path=str(path), reason=str(error)) from None
    rows = csv_rows(text)
    header = [each.strip().lower() for each in next(rows, [])]
    if "id" not in header:
        raise CourseError("shardwise.class-students-header", path=str(path), expected="id,first_name,last_name,email")
    known, found = [each.code for each in released()], dict[str, Student]()
    for number, row in enumerate(rows, start=2):
        values = {name: value.strip() for name, value in zip(header, row, strict=False) if name in _FIELDS}
        if not any(values.values()):
            continue
        id = values.get("id", "")
        if not is_student(id):
            raise CourseError("shardwise.class-student-id", path=str(path), line=number, given=id)
        if id in found:
            raise CourseError("shardwise.class-student-twice", path=str(path), line=number, student=id)
        if values.get("language") and values["language"] not in known:
            raise CourseError("shardwise.class-unknown-language", language=values["language"], known=", ".join(known))
        found[id] = Student(**values)
    return tuple(found.values())


def strangers(course: Course, listed: Sequence[Student]) -> tuple[str, ...]:
    """Whom `class.yaml` names, for an extension or an assignment of their own, without their being on the list: an id
    that was misspelt changes nothing for anyone.
    """
    known = {each.id for each in listed}
    named = {*course.extensions, *(id for each in course.assignments for id in each.students or ())}
    return tuple(sorted(named - known))


def write_students(listed: Sequence[Student], folder: Path) -> Path:
    """`students.csv` of a course folder."""
    path = folder / STUDENTS
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_FIELDS)
    writer.writerows([getattr(each, name) for name in _FIELDS] for each in listed)
    part = path.with_name(f".{STUDENTS}.part")
    part.write_text(out.getvalue(), encoding="utf-8")
    part.replace(path)
    return path


def csv_rows(text: str) -> Iterator[list[str]]:
    """The rows of a CSV with commas or, as spreadsheets of many countries write it, semicolons."""
    first = text.partition("\n")[0]
    return csv.reader(io.StringIO(text), delimiter=";" if first.count(";") > first.count(",") else ",")


# --- inside

_FIELDS = ("id", "first_name", "last_name", "email", "lms_user_id", "language")


class _Loader(yaml.SafeLoader):
    """YAML in which a date stays the text that was written: YAML's own would lose that a zone is missing."""


_Loader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
    for letter, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


@cache
def _names() -> frozenset[str]:
    return frozenset({"UTC", "GMT"})


def _course(data: Mapping[str, Any]) -> Course:
    zone = data["zone"]
    zone_of(zone)
    known = [each.code for each in released()]
    for code in data["languages"]:
        if code not in known:
            raise CourseError("shardwise.class-unknown-language", language=code, known=", ".join(known))
    assignments = tuple(_assignment(each, zone) for each in data["assignments"])
    ids = [each.id for each in assignments]
    if twice := [id for id in ids if ids.count(id) > 1]:
        raise CourseError("shardwise.class-assignment-twice", assignment=twice[0])
    for each in assignments:
        if each.resit_of is not None and each.resit_of not in ids:
            raise CourseError("shardwise.class-no-assignment", assignment=each.resit_of, known=", ".join(ids))
    extensions = {
        student: {assignment: moment(due, zone) for assignment, due in own.items()}
        for student, own in (data.get("extensions") or {}).items()
    }
    for own in extensions.values():
        for assignment in own:
            if assignment not in (*ids, EVERY):
                raise CourseError("shardwise.class-no-assignment", assignment=assignment, known=", ".join(ids))
    return Course(
        id=data["id"],
        title=data.get("title", ""),
        languages=tuple(data["languages"]),
        units=tuple(data.get("units", ())),
        zone=zone,
        exchange=data.get("exchange"),
        assignments=assignments,
        extensions=extensions,
        late=Late(**data.get("late", {})),
        resits=data.get("resits", "best"),
        marks=_marks(data.get("marks", {})),
        published_solution=data.get("published_solution", "report"),
    )


def _assignment(data: Mapping[str, Any], zone: str) -> Assignment:
    from labs.exercises import exercise

    name = data.get("exercise", data["id"])
    exercise(name)
    return Assignment(
        id=data["id"],
        exercise=name,
        due=moment(data["due"], zone) if "due" in data else None,
        resit_of=data.get("resit_of"),
        students=tuple(data["students"]) if "students" in data else None,
    )


def _marks(data: Mapping[str, Any]) -> Marks:
    made = Marks()
    scale = tuple((float(low), float(mark)) for low, mark in data.get("scale", made.scale))
    percents = [percent for percent, _ in scale]
    if percents != sorted(set(percents)) or percents[0] != 0 or percents[-1] != 100:
        raise CourseError("shardwise.class-scale", given=", ".join(f"{each:g}" for each in percents))
    return Marks(scale=scale, decimals=data.get("decimals", made.decimals), passed=data.get("pass", made.passed))


def assignment_data(assignment: Assignment) -> dict[str, Any]:
    """One assignment as `class.yaml` lists it."""
    found: dict[str, Any] = {"id": assignment.id}
    if assignment.exercise != assignment.id:
        found["exercise"] = assignment.exercise
    if assignment.due is not None:
        found["due"] = said(assignment.due)
    if assignment.resit_of is not None:
        found["resit_of"] = assignment.resit_of
    if assignment.students is not None:
        found["students"] = list(assignment.students)
    return found


def _half_up(value: float, decimals: int) -> float:
    """Rounded as people round: 5.45 is 5.5. What binary numbers blur below 1e-9 does not decide."""
    scale = 10.0**decimals
    return math.floor(value * scale + 0.5 + 1e-9) / scale
