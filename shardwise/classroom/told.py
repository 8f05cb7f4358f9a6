"""What a student is told of their class, in words: the list, what would be handed in, the receipt. Terminal, home page
and hand-in widget say the same.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from html import escape
from os.path import relpath
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from shardwise import pages
from shardwise.classroom.student import Assignment, Class, Look, Receipt
from translations import CourseError, Translator, formats

COLUMNS = ("assignment", "due", "state", "feedback")
SHOWN_HASH = 16
"""Digits of a hash that a person compares."""
SOON = timedelta(days=2)


def title(here: Class, text: Translator) -> str:
    return text("shardwise.hand-in-title", course=(here.course.title if here.course else "") or here.id)


def header(text: Translator) -> list[str]:
    return [text(f"shardwise.hand-in-{each}") for each in COLUMNS]


def name(id: str, text: Translator) -> str:
    """An assignment as its exercise is called, with its id, which stands on files."""
    from labs.exercises import exercise

    try:
        return exercise(id, text.language).title
    except CourseError:
        return id


def due(own: Assignment, text: Translator, *, now: datetime | None = None) -> str:
    """The due moment in the class's zone; how long there is where that is soon; that it is an extension."""
    if own.due is None:
        return text("shardwise.hand-in-no-due")
    said = formats.moment(own.due, text.language)
    if own.extended:
        said = text("shardwise.hand-in-extended", due=said)
    left = own.due - (now or datetime.now(UTC))
    if own.handed_in or left > SOON:
        return said
    how = "left" if left > timedelta() else "over"
    time = formats.duration(abs(left).total_seconds(), text.language)
    return f"{said}: {text(f'shardwise.hand-in-{how}', duration=time)}"


def state(own: Assignment, text: Translator) -> str:
    if own.handed_in:
        at = own.handed_in[-1].at.astimezone(_zone(own.due))
        return text("shardwise.hand-in-state-handed-in", at=formats.moment(at, text.language))
    return text(f"shardwise.hand-in-state-{own.state}")


def rows(assignments: tuple[Assignment, ...], text: Translator) -> list[list[str]]:
    """The list, for a terminal."""
    return [
        [
            f"{each.id}: {name(each.id, text)}",
            due(each, text),
            state(each, text),
            str(each.feedback) if each.feedback is not None else text("shardwise.hand-in-no-feedback"),
        ]
        for each in assignments
    ]


def listed(here: Class, assignments: tuple[Assignment, ...]) -> dict[str, Any]:
    """The list, for a program."""
    return {
        "class": here.id,
        "student": here.student,
        "assignments": [
            {
                "assignment": each.id,
                "state": each.state,
                "due": each.due.isoformat() if each.due is not None else None,
                "extended": each.extended,
                "notebooks": {code: str(path) for code, path in each.notebooks.items()},
                "handed_in": [one.at.isoformat() for one in each.handed_in],
                "feedback": str(each.feedback) if each.feedback is not None else None,
            }
            for each in assignments
        ],
    }


def html(here: Class, assignments: tuple[Assignment, ...], text: Translator, *, beside: Path) -> str:
    """The class on a page of the workspace; links are from the folder `beside`, in which the page lies."""
    heading = f"<h2>{escape(title(here, text))}</h2>"
    if not assignments:
        return f'<section class="class">{heading}<p>{escape(text("shardwise.hand-in-none-yet"))}</p></section>'
    heads = "".join(f'<th scope="col">{escape(each)}</th>' for each in header(text))
    body = "".join(_row(each, text, beside) for each in assignments)
    return (
        f'<section class="class">{heading}<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></section>'
    )


def _row(own: Assignment, text: Translator, beside: Path) -> str:
    work, feedback = own.notebook(text.language), own.feedback
    shown = escape(name(own.id, text))
    if work is not None:
        shown = f'<a href="{_href(work, beside)}">{shown}</a>'
    read = escape(text("shardwise.hand-in-no-feedback"))
    if feedback is not None:
        read = f'<a href="{_href(feedback, beside)}">{escape(text("shardwise.hand-in-read-feedback"))}</a>'
    over = own.due is not None and not own.handed_in and own.due < datetime.now(UTC)
    said = escape(due(own, text))
    said = f"<strong>{said}</strong>" if over else said
    return f'<tr><th scope="row">{shown}</th><td>{said}</td><td>{escape(state(own, text))}</td><td>{read}</td></tr>'


def _href(path: Path, beside: Path) -> str:
    from urllib.parse import quote

    return escape(quote(Path(relpath(path, beside)).as_posix()))


def look(found: Look, own: Assignment, text: Translator) -> list[str]:
    """What would be handed in, and what that would mean: before it is done."""
    zone = _zone(found.due)
    saved = formats.moment(found.saved.astimezone(zone), text.language)
    lines = [
        text("shardwise.hand-in-look", assignment=name(found.assignment, text)),
        text("shardwise.hand-in-notebook", notebook=found.notebook.name, at=saved),
    ]
    if not found.changed:
        lines.append(text("shardwise.hand-in-untouched"))
    if found.others:
        lines.append(text("shardwise.hand-in-others", notebooks=", ".join(each.name for each in found.others)))
    if found.due is not None and found.penalty is not None:
        lines.append(_lateness(found, text))
    if own.handed_in:
        at = formats.moment(own.handed_in[-1].at.astimezone(zone), text.language)
        lines.append(text("shardwise.hand-in-again", at=at))
    return lines


def _lateness(found: Look, text: Translator) -> str:
    assert found.due is not None
    assert found.penalty is not None
    left = (found.due - found.at).total_seconds()
    values = {
        "due": formats.moment(found.due, text.language),
        "duration": formats.duration(abs(left), text.language),
    }
    if left >= 0:
        return text("shardwise.hand-in-in-time", **values)
    if found.penalty.closed:
        return text("shardwise.hand-in-closed", due=values["due"])
    if not found.penalty.late:
        return text("shardwise.hand-in-in-grace", due=values["due"])
    lost = formats.percent(found.penalty.percent / 100, text.language, digits=2)
    return text("shardwise.hand-in-late", percent=lost, **values)


def is_late(found: Look) -> bool:
    return found.penalty is not None and bool(found.penalty.late)


def receipt(given: Receipt, here: Class, text: Translator) -> list[str]:
    """What was handed in, when, and the number by which both sides know it again."""
    zone: tzinfo = UTC
    if here.course is not None:
        zone = ZoneInfo(here.course.zone)
    at = datetime.fromisoformat(given.at).astimezone(zone)
    lines = [
        text("shardwise.hand-in-done", assignment=name(given.assignment, text)),
        text("shardwise.hand-in-done-at", at=formats.moment(at, text.language)),
        text("shardwise.hand-in-done-notebook", notebook=given.notebook),
        text("shardwise.hand-in-done-files", files=", ".join(given.files)),
        text("shardwise.hand-in-done-digest", digest=_grouped(given.digest)),
    ]
    if given.late_seconds:
        late = formats.duration(given.late_seconds, text.language)
        lines.insert(2, text("shardwise.hand-in-done-late", duration=late))
    return lines


def _grouped(digest: str) -> str:
    """The digits that are compared by eye, four at a time."""
    head = digest[:SHOWN_HASH]
    return "-".join(head[at : at + 4] for at in range(0, SHOWN_HASH, 4))


def _zone(moment: datetime | None) -> tzinfo:
    return moment.tzinfo if moment is not None and moment.tzinfo is not None else UTC


def page(here: Class, assignments: tuple[Assignment, ...], text: Translator, *, beside: Path) -> str:
    """`html`, with the course's look."""
    return pages.page(html(here, assignments, text, beside=beside), text.language)
