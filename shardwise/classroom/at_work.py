"""A student at work on an assignment: who it is, what is their own, and how it is shown in the notebook.

Who it is, nbgrader decides where it is set up, since it files the work under that name; on a Hub that is the Hub's
user. Elsewhere the student says it once, and it is kept in the workspace.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from dataclasses import dataclass
from html import escape
from pathlib import Path

from quiz import rendering
from shardwise import pages, workspace
from shardwise.classroom import own as ours
from shardwise.classroom import student
from shardwise.classroom.course import Assignment, Course
from shardwise.classroom.own import Own
from shardwise.classroom.parts import QUESTIONS
from translations import CourseError, Language, Translator, formats, translator

VARIABLE = "SHARDWISE_STUDENT"
HUB = "JUPYTERHUB_USER"
ANYBODY = "jovyan"
"""The user that containers of a Hub run everyone as."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,127}")


def who() -> str | None:
    """The student's id, as the class will file the work under it; None where nobody has said it yet."""
    if given := os.environ.get(VARIABLE):
        return given
    if HUB in os.environ or student.configured() is not None:
        return _user()
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        kept = json.loads(_file().read_text(encoding="utf-8"))["student"]
        return kept if isinstance(kept, str) and _ID.fullmatch(kept) else None
    return None


def remember(given: str) -> str:
    """Keeps the id that a student gave. Raises CourseError where it can be none."""
    id = given.strip()
    if not _ID.fullmatch(id):
        raise CourseError("shardwise.assignment-id-wrong", given=given.strip()[:60])
    path = _file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"student": id}) + "\n", encoding="utf-8")
    return id


@dataclass(kw_only=True)
class Sitting:
    """The assignment that a notebook is of. `answers` are the cells `%%answer` as they were run last."""

    course: str
    assignment: Assignment
    language: Language
    answers: dict[str, str]

    @property
    def text(self) -> Translator:
        return translator(self.language)

    def own(self) -> Own | None:
        """What is the student's own; None while nobody has said who it is."""
        student = who()
        return None if student is None else Own(course=self.course, assignment=self.assignment, student=student)

    # --- what is shown, as HTML

    def opened(self) -> str:
        """Whose work it is, and until when, as the class says it at this moment where it can be asked."""
        student = who()
        said = (
            [] if student is None else [self.text("shardwise.assignment-work-of", student=student, course=self.course)]
        )
        told = announced(self.course, student) if student is not None else None
        if told is not None and any(each.id == self.assignment.id for each in told.assignments):
            due = told.due(student or "", self.assignment.id)
            extended = due != told.assignment(self.assignment.id).due
            if due is not None:
                id = "shardwise.assignment-due-extended" if extended else "shardwise.assignment-due-now"
                said.append(self.text(id, moment=formats.moment(due, self.language)))
        return pages.box("\n\n".join(said), mood="note") if said else ""

    def fault(self, own: Own) -> str:
        """The student's own program, its lines numbered, and the rules to choose from."""
        from labs.exercises.faults import task

        title = self.text("shardwise.assignment-fault-of", student=own.student)
        rules = task(self.assignment.exercise, self.language).rules
        header = [self.text("shardwise.assignment-fault-rule"), self.text("shardwise.assignment-fault-says")]
        rows = "".join(
            f'<tr><td><code dir="ltr">{escape(key)}</code></td><td>{rendering.inline(rule)}</td></tr>'
            for key, rule in rules.items()
        )
        heads = "".join(f'<th scope="col">{escape(each)}</th>' for each in header)
        table = f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
        said = escape(self.text("shardwise.assignment-fault-rules"))
        shown = pages.numbered(own.fault.program.rstrip("\n"), name=title)
        return f"<p><strong>{escape(title)}</strong></p>{shown}<p>{said}</p>{table}"

    def numbers(self, own: Own) -> str:
        """The student's own questions."""
        shown = [f"<p><strong>{escape(self.text('shardwise.assignment-numbers-of', student=own.student))}</strong></p>"]
        for number, (key, asked) in enumerate(own.questions(self.language).items(), start=1):
            head = self.text("shardwise.assignment-question", number=number, key=key)
            shown.append(f"<p><strong>{escape(head)}</strong></p>{rendering.html(asked.text)}")
            if asked.code:
                shown.append(pages.printed(asked.code.rstrip("\n"), name=head))
            if asked.unit:
                shown.append(f"<p>{escape(self.text('shardwise.assignment-unit', unit=asked.unit))}</p>")
        return "".join(shown)

    # --- what was answered

    def keep(self, part: str, cell: str) -> None:
        """The text of a cell `%%answer`. Raises CourseError for a part that is answered otherwise."""
        if part not in ("fault", "numbers"):
            raise CourseError("shardwise.answer-which", given=part[:40])
        self.answers[part] = cell

    def told(self, part: str, own: Own) -> tuple[str, bool]:
        """What grading will read in the answer, and whether all of it is there. Raises CourseError as grading would.
        Whether it is right is not said.
        """
        if part not in ("fault", "numbers"):
            raise CourseError("shardwise.answer-which", given=part[:40])
        if part not in self.answers:
            raise CourseError("shardwise.answer-not-run")
        if part == "fault":
            line, rule = ours.fault_answer(self.answers[part], own)
            if not line and not rule:
                return self.text("shardwise.answer-kept-open"), False
            if not line or not rule:
                return self.text("shardwise.answer-kept-fault-half"), False
            return self.text("shardwise.answer-kept-fault", line=line, rule=rule), True
        given = ours.number_answers(self.answers[part])
        if not any(given.values()):
            return self.text("shardwise.answer-kept-open"), False
        for asked, answer in zip(own.numbers, given.values(), strict=True):
            if answer:
                ours.read_number(asked, answer, self.language)
        listed = self.text("shardwise.answer-kept-numbers", answers=", ".join(each for each in given.values() if each))
        if all(given[key] for key in QUESTIONS):
            return listed, True
        return f"{listed} {self.text('shardwise.answer-kept-numbers-half')}", False


def announced(course: str, student_id: str) -> Course | None:
    """The class as its teacher announced it, where this machine has an exchange with it; None elsewhere."""
    if student.configured() is None:
        return None
    with contextlib.suppress(Exception):  # what can't be asked is told by the course's home page, with its reason
        return student.announced(course, student_id)
    return None


def _user() -> str:
    """The name that nbgrader files work under: the system's user, in a Hub's containers the Hub's."""
    name = ""
    with contextlib.suppress(ImportError, LookupError, OSError):
        import pwd

        name = pwd.getpwuid(os.getuid()).pw_name
    return os.environ.get(HUB, name or ANYBODY) if name in ("", ANYBODY) else name


def _file() -> Path:
    return workspace.folder() / ".shardwise" / "student.json"
