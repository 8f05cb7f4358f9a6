"""Feedback for students: one page for each hand-in, in the language that they worked in.

It says what holds and what failed, on which rank, by which rule, and where to look; what a teacher wrote; what lateness
took. It holds no seed, no input that the check made, and nothing of how marks are given by hand. A page needs no
network and no script. It lies where `nbgrader release_feedback` looks for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from html import escape
from pathlib import Path

from labs.exercises.content import exercise
from shardwise import pages
from shardwise.classroom import batch, gradebook
from shardwise.classroom import course as classes
from shardwise.classroom.course import Course
from shardwise.classroom.mathml import course_text, student_text
from shardwise.classroom.result import Part, Result
from shardwise.classroom.submission import CODE, Form, Submission, read
from shardwise.classroom.visible import visible
from translations import CourseError, Translator, formats, translator
from translations import language as find_language

FOLDER = batch.FEEDBACK
CODE_SHOWN = 40_000
"""Characters of a student's own code that a page shows."""
STYLE = Path(__file__).with_suffix(".css")
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


@dataclass(frozen=True, kw_only=True)
class Marks:
    """What a person gave, points and comments by part; and what lateness takes, in points."""

    points: Mapping[str, float] = field(default_factory=dict)
    comments: Mapping[str, str] = field(default_factory=dict)
    penalty: float = 0.0


def write_pages(folder: Path, *, assignment: str | None = None, student: str | None = None) -> tuple[Path, ...]:
    """A page for every result in a course folder whose student handed something in, as they stand now. Raises
    CourseError where there is no class.
    """
    from shardwise.classroom.grading import form

    course = classes.read(folder)
    written = []
    given = _given_marks(folder, course)
    asked = {each.id: each for each in course.assignments}
    forms: dict[str, Form] = {}
    for result in batch.results(folder, assignment=assignment, student=student):
        if result.state == "nothing":
            continue
        name, who = str(result.assignment), str(result.student)
        handed = folder / batch.SUBMITTED / who / name
        if name not in forms:
            forms[name] = form(folder, asked[name])
        work = read(handed, forms[name], language=result.language)
        place = folder / FOLDER / who / name
        place.mkdir(parents=True, exist_ok=True)
        html = page(result, course, work if work.digest == result.digest else None, given.get((who, name)))
        for each in dict.fromkeys((name, *_names(work))):
            gradebook.write(place / f"{each}.html", html)
            written.append(place / f"{each}.html")
        gradebook.companions(handed, place, result)
    return tuple(written)


def _names(work: Submission) -> Sequence[str]:
    """Names under which nbgrader looks for feedback: of each notebook at the top, also a renamed one."""
    return [each for each in work.names if each and visible(each) == each and not each.startswith(".")][:20]


def page(result: Result, course: Course, work: Submission | None = None, marks: Marks | None = None) -> str:
    """The page of one result, whole. `work` adds what the student wrote, `marks` what a person gave."""
    reader = find_language(result.language)
    text = translator(reader)
    own = exercise(result.exercise, reader)
    marks = marks or _by_policy(result, course)
    body = [
        f"<h1>{escape(own.title)}</h1>",
        f'<p class="quiet">{escape(_heading(result, course, text))}</p>',
        *([_box(result.reason, "bad")] if result.reason else []),
        _table(result, marks, text),
        *_lateness(result, course, marks, text),
        *_found(result, text),
    ]
    if result.state == "graded":
        for part in result.parts:
            body += _section(part, result, own.hints, work, marks, text)
    title = escape(f"{own.title} · {course.title or course.id}")
    return (
        f'<!DOCTYPE html>\n<html lang="{reader.code}" dir="{reader.direction}"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{STYLE.read_text(encoding='utf-8')}</style></head>"
        # JupyterLab's viewer leaves out what stands on the html element.
        f'<body lang="{reader.code}" dir="{reader.direction}"><main>{"".join(body)}</main></body></html>\n'
    )


def _heading(result: Result, course: Course, text: Translator) -> str:
    said = [course.title or course.id]
    if result.handed_in:
        at = datetime.fromisoformat(result.handed_in).astimezone(classes.zone_of(course.zone))
        said.append(text("shardwise.feedback-handed-in", at=formats.moment(at, text.language)))
    return " · ".join(said)


def _points(part: Part, marks: Marks) -> float | None:
    """What the part counts for: a person's points before those of grading."""
    return marks.points.get(part.name, part.points)


def _table(result: Result, marks: Marks, text: Translator) -> str:
    def cell(points: float | None) -> str:
        said = text("shardwise.feedback-waits") if points is None else _number(points, text)
        return f'<td class="number">{pages.ltr(said) if points is not None else escape(said)}</td>'

    rows = [
        f'<tr><th scope="row">{escape(_name(part, text))}</th>{cell(_points(part, marks))}{cell(part.of)}</tr>'
        for part in result.parts
    ]
    known = sum(_points(part, marks) or 0.0 for part in result.parts)
    if marks.penalty:
        name = escape(text("shardwise.feedback-late"))
        minus = f'<td class="number">{pages.ltr("−" + _number(marks.penalty, text))}</td>'
        rows.append(f'<tr><th scope="row">{name}</th>{minus}<td></td></tr>')
    total = escape(text("shardwise.feedback-total"))
    heads = "".join(
        f'<th scope="col"{" class=number" if at else ""}>{escape(text(f"shardwise.feedback-{name}"))}</th>'
        for at, name in enumerate(("part", "points", "of"))
    )
    return (
        f"<table><caption>{escape(text('shardwise.feedback-caption'))}</caption><thead><tr>{heads}</tr></thead>"
        f'<tbody>{"".join(rows)}</tbody><tfoot><tr><th scope="row">{total}</th>{cell(max(0.0, known - marks.penalty))}'
        f"{cell(result.of)}</tr></tfoot></table>"
    )


def _lateness(result: Result, course: Course, marks: Marks, text: Translator) -> list[str]:
    if not marks.penalty or not result.handed_in or result.student is None or result.assignment is None:
        return []
    found = course.penalty(result.student, result.assignment, datetime.fromisoformat(result.handed_in))
    due = course.due(result.student, result.assignment)
    if due is None or not found.percent:
        return []
    share = formats.percent(found.percent / 100, text.language)
    said = text("shardwise.feedback-why-late", due=formats.moment(due, text.language), count=found.days, share=share)
    return [_box(said, "note")]


def _found(result: Result, text: Translator) -> list[str]:
    if not result.findings:
        return []
    items = "".join(f"<li>{escape(visible(each.text))}</li>" for each in result.findings)
    return [f"<h2>{escape(text('shardwise.feedback-found'))}</h2><ul>{items}</ul>"]


def _section(
    part: Part, result: Result, hints: Sequence[str], work: Submission | None, marks: Marks, text: Translator
) -> list[str]:
    points = _points(part, marks)
    full = points is not None and points >= part.of
    said = [f"<h2>{escape(_name(part, text))}</h2>"]
    if part.by_hand and points is not None:
        said.append(_box(text("shardwise.feedback-by-hand"), "note"))
    else:
        said.append(_box(part.message, "note" if points is None else "good" if full else "bad"))
    if part.name == CODE and not result.verdict.passed:
        if part.rank is not None:
            said.append(f"<p>{escape(text('shardwise.feedback-rank', rank=part.rank))}</p>")
        inside = "".join(f"<li>{course_text(each)}</li>" for each in hints[:2])
        said.append(
            f"<details><summary>{escape(text('shardwise.feedback-hints'))}</summary><ol>{inside}</ol></details>"
        )
        if result.verdict.printed:
            said.append(_folded(text("shardwise.check-printed"), result.verdict.printed))
    if comment := marks.comments.get(part.name):
        heading = escape(text("shardwise.feedback-comment"))
        said.append(f'<div class="box note"><p><strong>{heading}</strong></p>{student_text(visible(comment))}</div>')
    if work is not None and (own := work.answers.get(part.name, "").strip()):
        if part.name in work.untouched:
            return said
        title = text("shardwise.feedback-own")
        if part.name == "explain":
            inside = student_text(visible(own))
            said.append(f"<details><summary>{escape(title)}</summary>{inside}</details>")
        else:
            said.append(_folded(title, own))
    return said


def _folded(title: str, code: str) -> str:
    shown = escape(visible(code, longest=CODE_SHOWN))
    return f"<details><summary>{escape(title)}</summary><pre><code>{shown}</code></pre></details>"


def _box(message: str, mood: str) -> str:
    return f'<div class="box {mood}">{course_text(visible(message))}</div>'


def _name(part: Part, text: Translator) -> str:
    return text(f"shardwise.feedback-part-{part.name}")


def _number(points: float, text: Translator) -> str:
    """To hundredths, without zeros at the end."""
    rounded = round(float(points), 2)
    if rounded.is_integer():
        return formats.number(int(rounded), text.language)
    return re.sub(r"0+$", "", formats.number(rounded, text.language, digits=len(str(int(rounded))) + 2))


# --- what a person gave


def _by_policy(result: Result, course: Course) -> Marks:
    """Without a gradebook: only lateness, as the class has it."""
    if result.student is None or result.assignment is None or result.handed_in is None:
        return Marks()
    found = course.penalty(result.student, result.assignment, datetime.fromisoformat(result.handed_in))
    return Marks(penalty=round(result.points * found.percent / 100, 2))


def _given_marks(folder: Path, course: Course) -> Mapping[tuple[str, str], Marks]:
    """What stands in the gradebook, by student and assignment; nothing where there is none."""
    if not (folder / gradebook.DATABASE).is_file():
        return {}
    try:
        with gradebook.opened(folder / gradebook.DATABASE, course) as book:
            return {
                (row.student.id, row.name): _marks(row)
                for each in book.assignments
                for row in each.submissions
                if any(own.id == each.name for own in course.assignments)
            }
    except CourseError:
        return {}


def _marks(row: object) -> Marks:
    points: dict[str, float] = {}
    comments: dict[str, str] = {}
    penalty = 0.0
    for notebook in row.notebooks:  # type: ignore[attr-defined]
        penalty += notebook.late_submission_penalty or 0.0
        for grade in notebook.grades:
            if grade.manual_score is not None:
                points[grade.name] = grade.manual_score + (grade.extra_credit or 0.0)
        for comment in notebook.comments:
            if comment.manual_comment:
                comments[comment.name.removesuffix("-answer")] = comment.manual_comment
    return Marks(points=points, comments=comments, penalty=penalty)
