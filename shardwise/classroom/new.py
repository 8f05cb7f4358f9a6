"""An nbgrader course folder, made and made again: `shardwise classroom new`.

A second run brings what the course's newer version, or another list of units, students and dates, asks for. What a
teacher changed stays as it is, and the report says so; submissions, grades and feedback are never touched. A file is
the teacher's once it differs from what was last written there, by the hashes in `.shardwise/made.json`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import yaml

from labs.exercises import exercises
from shardwise import units as course_units
from shardwise.classroom import assignments, course
from shardwise.classroom.course import Assignment, Course, Student
from shardwise.classroom.gradebook import DATABASE, opened
from translations import SOURCE, CourseError, Language, Translator, languages, translator

SOURCES, RELEASES, RUBRICS = "source", "release", "rubrics"
SETTINGS = "nbgrader_config.py"
STATE = Path(".shardwise") / "made.json"
BESIDE = Path(".shardwise") / "new"
"""Where a newer version lies of a file that the teacher has changed: a file beside it would be given to students."""
RESIT = "-resit"
_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")

Step = Callable[[str, int, int], None]
"""Told of each assignment as work on it begins: its id, which it is, and of how many."""


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What was asked for on the command line; None is what was not said."""

    languages: tuple[str, ...] | None = None
    units: tuple[str, ...] | None = None
    due: Path | None = None
    students: Path | None = None
    zone: str | None = None
    title: str | None = None
    exchange: str | None = None


@dataclass(kw_only=True)
class Made:
    """What a run did. Paths are from the course folder: `kept` are files that the teacher changed, and where the newer
    version of each lies (None where there is no newer one to look at); `left` are sentences on what was not done.
    """

    folder: Path
    course: Course
    wrote: list[str] = field(default_factory=list)
    kept: list[tuple[str, str | None]] = field(default_factory=list)
    left: list[CourseError] = field(default_factory=list)
    ready: list[str] = field(default_factory=list)
    students: int = 0

    def as_json(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "course": self.course.id,
            "assignments": [each.id for each in self.course.assignments],
            "students": self.students,
            "wrote": self.wrote,
            "kept": [{"file": file, "newer": newer} for file, newer in self.kept],
            "left": [str(each) for each in self.left],
            "ready": self.ready,
        }


def make(folder: Path, wishes: Wishes, *, language: Language | None = None, on_step: Step | None = None) -> Made:
    """The course folder, with every assignment ready to release. Everything that can be wrong with what was asked for
    is found before a file is written. Raises CourseError.
    """
    folder = folder.absolute()
    there = (folder / course.NAME).is_file()
    before = course.read(folder) if there else None
    left: list[CourseError] = []
    after = _wanted(folder, wishes, before, left)
    listed, gone = _students(folder, wishes)
    if gone:
        left.append(CourseError("shardwise.new-students-left", students=", ".join(gone)))
    _needs_nbgrader()
    if unknown := course.strangers(after, listed):
        left.append(CourseError("shardwise.class-strangers", students=", ".join(unknown)))
    made = Made(folder=folder, course=after, left=left, students=len(listed))
    try:
        _write_all(made, before, listed, language, on_step)
    except OSError as error:
        raise CourseError("shardwise.new-refused", path=str(folder), reason=error.strerror or error) from error
    return made


def _write_all(
    made: Made, before: Course | None, listed: Sequence[Student], language: Language | None, on_step: Step | None
) -> None:
    folder, after = made.folder, made.course
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)  # gradebook, hand-ins and rubrics are not for the students of the machine
    state = _State.read(folder)
    _class(made, before, language)
    if listed or (folder / course.STUDENTS).is_file():
        _changed(made, course.STUDENTS, lambda: course.write_students(listed, folder))
    _place(made, state, SETTINGS, _settings(after))
    _register(folder, after, listed)
    for number, each in enumerate(after.assignments, start=1):
        if on_step is not None:
            on_step(each.id, number, len(after.assignments))
        _assignment(made, state, each)
        state.write()
    known = {each.id for each in after.assignments}
    others = sorted(path.name for path in (folder / SOURCES).glob("*") if path.is_dir() and path.name not in known)
    if others:
        made.left.append(CourseError("shardwise.new-others-left", assignments=", ".join(others)))
    state.write()


# --- what is wanted


def _wanted(folder: Path, wishes: Wishes, before: Course | None, left: list[CourseError]) -> Course:
    """The class as it is to be. What it already says is kept where the wishes say nothing."""
    if before is None:
        if not _ID.fullmatch(folder.name):
            raise CourseError("shardwise.new-course-id", given=folder.name)
        missing = [name for name in ("languages", "units") if getattr(wishes, name) is None]
        if missing:
            raise CourseError("shardwise.new-needs", options=", ".join(f"--{name}" for name in missing))
    elif wishes.zone is not None and wishes.zone != before.zone:
        raise CourseError("shardwise.new-other-zone", zone=before.zone)
    chosen = _languages(wishes.languages) if wishes.languages is not None else before.languages if before else ()
    zone = wishes.zone or (before.zone if before else None) or _zone_in(wishes.due) or system_zone()
    course.zone_of(zone)
    units = _units(wishes.units) if wishes.units is not None else before.units if before else ()
    found = {each.id: each for each in before.assignments} if before else {}
    placed = _State.read(folder).hashes if before else {}
    for unit in units:
        taught = course_units.unit(unit)
        own = [each.id for each in exercises() if each.unit == unit]
        if not taught.open(_source()) and not any(id in found for id in own):
            left.append(CourseError("shardwise.new-unit-not-there", unit=unit))
            continue
        # What was made once and is no longer in class.yaml, the teacher took out.
        fresh = [id for id in own if id not in found and f"{SOURCES}/{id}/{id}.ipynb" not in placed]
        found |= {id: Assignment(id=id, exercise=id) for id in fresh}
    if wishes.due is not None:
        found = _dated(wishes.due, zone, found)
    undated = [each.id for each in found.values() if each.due is None]
    if undated:
        left.append(CourseError("shardwise.new-undated", assignments=", ".join(undated)))
    order = {each.id: number for number, each in enumerate(exercises())}
    listed = sorted(found.values(), key=lambda each: (order.get(each.exercise, 0), each.resit_of is not None))
    if before is None:
        return Course(
            id=folder.name,
            title=wishes.title or "",
            languages=chosen,
            units=units,
            zone=zone,
            exchange=wishes.exchange,
            assignments=tuple(listed),
        )
    kept = [found[each.id] for each in before.assignments]
    return replace(
        before,
        title=wishes.title or before.title,
        languages=chosen,
        units=units,
        exchange=wishes.exchange or before.exchange,
        assignments=(*kept, *(each for each in listed if each.id not in {one.id for one in kept})),
    )


def _languages(asked: Iterable[str]) -> tuple[str, ...]:
    known = [each.code for each in languages() if each.released]
    found = tuple(dict.fromkeys(each.strip() for each in asked if each.strip()))
    for each in found:
        if each not in known:
            raise CourseError("shardwise.class-unknown-language", language=each, known=", ".join(known))
    if not found:
        raise CourseError("shardwise.new-needs", options="--languages")
    return found


def _units(asked: Iterable[str]) -> tuple[str, ...]:
    """Ids of units, from ids, numbers, and ranges of numbers."""
    found: dict[str, None] = {}
    for each in (one.strip() for one in asked):
        if between := re.fullmatch(r"(\d{1,2})\s*-\s*(\d{1,2})", each):
            low, high = int(between[1]), int(between[2])
            if low > high:
                raise CourseError("shardwise.new-units-turned", given=each)
            found |= dict.fromkeys(course_units.unit(str(number)).id for number in range(low, high + 1))
        elif each:
            found[course_units.unit(each).id] = None
    if not found:
        raise CourseError("shardwise.new-needs", options="--units")
    return tuple(found)


def _dated(path: Path, zone: str, found: dict[str, Assignment]) -> dict[str, Assignment]:
    """The assignments with the moments of a CSV: `assignment,due`, and `resit` where some may be done again. In the
    first column an assignment, or a unit for all that belongs to it. Raises CourseError naming the line.
    """
    rows = course.csv_rows(_text(path))
    header = [each.strip().lower() for each in next(rows, [])]
    if not {"assignment", "due"} <= {*header}:
        raise CourseError("shardwise.new-due-header", path=str(path))
    unit_of = {each.id: each.unit for each in exercises()}
    dated = dict(found)
    for number, row in enumerate(rows, start=2):
        values = {name: value.strip() for name, value in zip(header, row, strict=False)}
        if not any(values.values()):
            continue
        asked = values["assignment"]
        try:
            chosen = [asked] if asked in found else _of_unit(asked, found, unit_of)
            due = course.moment(values.get("due", ""), zone)
            resit = course.moment(values["resit"], zone) if values.get("resit") else None
        except CourseError as error:
            raise CourseError("shardwise.new-due-line", path=str(path), line=number, reason=error) from None
        for id in chosen:
            dated[id] = replace(dated[id], due=due)
            if resit is not None:
                again = dated.get(f"{id}{RESIT}") or Assignment(
                    id=f"{id}{RESIT}", exercise=dated[id].exercise, resit_of=id
                )
                dated[again.id] = replace(again, due=resit)
    return dated


def _of_unit(asked: str, found: Mapping[str, Assignment], unit_of: Mapping[str, str]) -> list[str]:
    try:
        unit = course_units.unit(asked).id
    except CourseError:
        raise CourseError("shardwise.class-no-assignment", assignment=asked, known=", ".join(found)) from None
    own = [id for id, each in found.items() if unit_of.get(each.exercise) == unit and each.resit_of is None]
    if not own:
        raise CourseError("shardwise.new-unit-empty", unit=unit)
    return own


def _zone_in(path: Path | None) -> str | None:
    """The first zone that a file of due dates names."""
    if path is None:
        return None
    for row in course.csv_rows(_text(path)):
        for value in row:
            try:
                found = course.moment(value, "UTC").tzinfo
            except CourseError:
                continue
            if isinstance(found, ZoneInfo):
                return found.key
    return None


def system_zone() -> str:
    """This machine's time zone by name; UTC where it does not say."""
    named = [os.environ.get("TZ", "").lstrip(":")]
    place = Path("/etc/localtime")
    if place.is_symlink():
        named.append(str(place.readlink()).rpartition("zoneinfo/")[2])
    for each in filter(None, named):
        try:
            return course.zone_of(each).key
        except CourseError:
            continue
    return "UTC"


def _students(folder: Path, wishes: Wishes) -> tuple[tuple[Student, ...], tuple[str, ...]]:
    """All students, those of the new list with what it says of them; and who is no longer on it."""
    before = {each.id: each for each in course.students(folder)}
    if wishes.students is None:
        return tuple(before.values()), ()
    listed = {each.id: each for each in course.read_students(wishes.students)}
    merged = {id: _merged(before[id], each) if id in before else each for id, each in listed.items()}
    gone = tuple(id for id in before if id not in listed)
    return (*merged.values(), *(before[id] for id in gone)), gone


def _merged(before: Student, now: Student) -> Student:
    said = {name: value for name, value in vars(now).items() if value}
    return replace(before, **said)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise CourseError("shardwise.class-unreadable", path=str(path), reason=reason or error) from None


def _source() -> Language:
    return next(each for each in languages() if each.code == SOURCE)


# --- files


@dataclass
class _State:
    """What was written last in each place, by hash."""

    path: Path
    hashes: dict[str, str]

    @classmethod
    def read(cls, folder: Path) -> _State:
        path = folder / STATE
        try:
            told = json.loads(path.read_text(encoding="utf-8"))["files"]
            return cls(path, {str(name): str(each) for name, each in dict(told).items()})
        except (OSError, ValueError, LookupError, TypeError):
            return cls(path, {})

    def write(self) -> None:
        _put(self.path, json.dumps({"version": 1, "files": self.hashes}, indent=1, sort_keys=True) + "\n")


def _place(made: Made, state: _State, name: str, text: str) -> bool:
    """Puts a file in its place, unless the teacher's is there. Whether it was written."""
    path, now = made.folder / name, assignments.digest(text)
    beside = made.folder / BESIDE / name
    there = _digest(path)
    if there == now:
        state.hashes[name] = now
        beside.unlink(missing_ok=True)
        return False
    if there is None or there == state.hashes.get(name):
        _put(path, text)
        state.hashes[name] = now
        beside.unlink(missing_ok=True)
        made.wrote.append(name)
        return True
    if now == state.hashes.get(name):
        made.kept.append((name, None))
        return False
    _put(beside, text)
    made.kept.append((name, (BESIDE / name).as_posix()))
    return False


def _digest(path: Path) -> str | None:
    try:
        return assignments.digest(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        return hashlib.sha256(path.read_bytes()).hexdigest()


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def _changed(made: Made, name: str, write: Callable[[], object]) -> None:
    path = made.folder / name
    before = path.read_bytes() if path.is_file() else None
    write()
    if path.read_bytes() != before:
        made.wrote.append(name)


def _assignment(made: Made, state: _State, each: Assignment) -> None:
    """Source notebooks in every language, the rubric, and from them what students get."""
    after = made.course
    changed = False
    for code, name in assignments.names(each, after).items():
        changed |= _place(made, state, f"{SOURCES}/{each.id}/{name}", assignments.notebook(each, after, code))
        _place(made, state, f"{RUBRICS}/{each.id}.{code}.md", assignments.rubric(each, code))
    release = made.folder / RELEASES / each.id / f"{each.id}.ipynb"
    if changed or not release.is_file() or _newer(made.folder / SOURCES / each.id, release):
        generate(made.folder, each.id)
        made.ready.append(each.id)


def _newer(folder: Path, than: Path) -> bool:
    return any(path.stat().st_mtime > than.stat().st_mtime for path in folder.rglob("*.ipynb") if path.is_file())


def _settings(after: Course) -> str:
    """`nbgrader_config.py`."""
    lines = [
        '"""nbgrader\'s settings for this class. Settings of your own go below."""',
        "",
        "from pathlib import Path",
        "",
        "from shardwise.classroom.offline import configure",
        "from shardwise.classroom.stubs import preprocessors",
        "",
        "c = get_config()  # noqa: F821",
        "c.CourseDirectory.root = str(Path(__file__).absolute().parent)",
        f"c.CourseDirectory.course_id = {after.id!r}",
        f"c.NbGraderAPI.timezone = {after.zone!r}",
    ]
    if after.exchange:
        lines.append(f"c.Exchange.root = {after.exchange!r}")
    lines += ["# Pages without a network; a release tells students their due dates.", "configure(c)"]
    lines += ["# The notebooks hold no solutions: what stands in a cell is what students get.", ""]
    return "\n".join([*lines[:-1], "c.GenerateAssignment.preprocessors = preprocessors()", ""])


# --- class.yaml, which is the teacher's


def _class(made: Made, before: Course | None, language: Language | None) -> None:
    """`class.yaml`. Where there is one, only what has to change in it is changed, in place: comments stay."""
    path, after = made.folder / course.NAME, made.course
    if before == after:
        return
    if before is None:
        head = "".join(f"# {line}\n" for line in _comment(after, translator(language or SOURCE)))
        course.write(after, made.folder)
        _put(path, head + path.read_text(encoding="utf-8"))
    else:
        text = path.read_text(encoding="utf-8-sig")
        changed = edited(text, before, after)
        if changed is None:
            kept = path.with_name(f"{course.NAME}.before")
            _put(kept, text)
            course.write(after, made.folder)
            made.left.append(CourseError("shardwise.new-class-rewritten", kept=kept.name))
        else:
            _put(path, changed)
    made.wrote.append(course.NAME)


def _comment(after: Course, text: Translator) -> Iterator[str]:
    """What stands above the class: what a teacher may change, in their language."""
    for id in ("class-comment", "class-comment-extensions", "class-comment-late", "class-comment-marks"):
        yield from textwrap.wrap(text(f"shardwise.{id}"), 118)
        if id == "class-comment-extensions":
            first = after.assignments[0].id if after.assignments else "zero-1"
            yield f"  maria: {{{first}: 2026-10-08 23:59 {after.zone}}}"


def edited(text: str, before: Course, after: Course) -> str | None:
    """The text of a `class.yaml` with only those places changed that make it say `after`; None where that can't be."""
    tree = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(tree, yaml.MappingNode):
        return None
    changes: list[tuple[int, int, str]] = []
    top = {key.value: value for key, value in tree.value}
    for name in ("languages", "units"):
        if getattr(before, name) != getattr(after, name):
            listed = getattr(after, name)
            if name not in top:
                changes.append((0, 0, f"{name}: [{', '.join(listed)}]\n"))
            elif (end := _end(top[name])) is not None:
                start = top[name].start_mark
                flow = getattr(top[name], "flow_style", True)
                between = "\n" + " " * start.column + "- "
                put = f"[{', '.join(listed)}]" if flow else between.join(listed).join(("- ", ""))
                changes.append((start.index, end, put))
    for name in ("title", "exchange"):
        if getattr(before, name) != getattr(after, name):
            said = json.dumps(getattr(after, name), ensure_ascii=False)
            if name in top:
                changes.append((top[name].start_mark.index, top[name].end_mark.index, said))
            else:
                changes.append((0, 0, f"{name}: {said}\n"))
    changes += _assignments_edited(text, top.get("assignments"), before, after)
    changed = text
    for start, end, put in sorted(changes, reverse=True):
        changed = changed[:start] + put + changed[end:]
    try:
        return changed if course.parse(changed) == after else None
    except CourseError:
        return None


def _assignments_edited(text: str, node: yaml.Node | None, before: Course, after: Course) -> list[tuple[int, int, str]]:
    if not isinstance(node, yaml.SequenceNode):
        return []
    changes: list[tuple[int, int, str]] = []
    known = {each.id: each for each in before.assignments}
    items = {
        next((value.value for key, value in each.value if key.value == "id"), ""): each
        for each in node.value
        if isinstance(each, yaml.MappingNode)
    }
    for each in after.assignments:
        if each.id in known and each.due is not None and each.due != known[each.id].due and each.id in items:
            fields = {key.value: (key, value) for key, value in items[each.id].value}
            said = course.said(each.due)
            if "due" in fields:
                _, value = fields["due"]
                changes.append((value.start_mark.index, value.end_mark.index, said))
            else:
                key, value = fields["id"]
                between = ", " if items[each.id].flow_style else "\n" + " " * key.start_mark.column
                changes.append((value.end_mark.index, value.end_mark.index, f"{between}due: {said}"))
    fresh = [each for each in after.assignments if each.id not in known]
    end = _end(node)
    if fresh and end is not None and node.value and not node.flow_style:
        indent = " " * node.start_mark.column
        rest = text.find("\n", end)
        at = len(text) if rest < 0 else rest
        lines = []
        for each in fresh:
            fields_of = [f"{name}: {_scalar(value)}" for name, value in course.assignment_data(each).items()]
            lines.append(f"\n{indent}- " + f"\n{indent}  ".join(fields_of))
        changes.append((at, at, "".join(lines)))
    return changes


def _scalar(value: Any) -> str:
    return f"[{', '.join(value)}]" if isinstance(value, list) else str(value)


def _end(node: yaml.Node) -> int | None:
    """Where the last thing of a node ends: a block's own end lies behind what follows it."""
    if isinstance(node, yaml.ScalarNode) or getattr(node, "flow_style", False):
        return int(node.end_mark.index)
    values = [each[1] for each in node.value] if isinstance(node, yaml.MappingNode) else node.value
    return _end(values[-1]) if values else None


# --- nbgrader


def _needs_nbgrader() -> None:
    try:
        import nbgrader  # type: ignore[import-untyped]  # noqa: F401
    except ImportError:
        raise CourseError("shardwise.classroom-needs-nbgrader") from None


def _register(folder: Path, after: Course, listed: Sequence[Student]) -> None:
    """Students and due dates in nbgrader's gradebook, where formgrader shows them. Nothing is taken out of it."""
    with opened(folder / DATABASE, after) as book:
        for each in listed:
            names = ("first_name", "last_name", "email", "lms_user_id")
            book.update_or_create_student(each.id, **{name: getattr(each, name) or None for name in names})
        for one in after.assignments:
            due = one.due.astimezone(UTC).replace(tzinfo=None) if one.due is not None else None
            book.update_or_create_assignment(one.id, duedate=due)


def generate(folder: Path, assignment: str) -> None:
    """nbgrader's `generate_assignment`: what students get, in `release/`. Raises CourseError with what it said."""
    from nbgrader.apps import NbGraderAPI  # type: ignore[import-untyped]
    from traitlets.config import Config
    from traitlets.config.loader import PyFileConfigLoader

    try:
        settings = PyFileConfigLoader(SETTINGS, path=str(folder)).load_config()
    except Exception as error:  # a teacher's own file: whatever is wrong with it is told
        raise CourseError("shardwise.new-bad-settings", path=str(folder / SETTINGS), reason=error) from error
    config = Config()
    config.merge(settings)
    config.CourseDirectory.root = str(folder)
    api = NbGraderAPI(config=config)
    told = api.generate_assignment(assignment)
    if not told["success"]:
        log = [line for line in str(told.get("log") or told.get("error") or "").splitlines() if line.strip()]
        raise CourseError("shardwise.new-not-generated", assignment=assignment, reason=" / ".join(log[-3:])[:600])
