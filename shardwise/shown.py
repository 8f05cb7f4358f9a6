"""What a lesson shows of the course's own files: sources, objectives, verdicts, certificates."""

from __future__ import annotations

import inspect
import re
import textwrap
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from quiz import rendering
from shardwise import pages, workspace
from translations import Language, Translator, formats
from translations.catalogs import catalog
from translations.source.code import translate_code

if TYPE_CHECKING:
    from labs.exercises import Exercise, Verdict
    from shardwise.diagnosing import Part
    from shardwise.practice import Files, Waiting

MENU = (
    "file", "edit", "view", "run", "kernel", "settings", "help", "save", "cell", "notebook", "run-cell", "run-all",
    "interrupt", "restart", "restart-run-all", "undo", "trusted", "launcher",
)  # fmt: skip


def name(thing: Any) -> str:
    """What a definition is called: `Zero1`, `Unit.update`."""
    return str(getattr(thing, "__qualname__", getattr(thing, "__name__", "")))


def source(thing: Any, language: Language) -> str:
    """A definition's whole source, moved to the left margin, its comments and docstrings in the language;
    a remark to the type checker is left out.
    """
    text = textwrap.dedent(inspect.getsource(thing)).strip("\n")
    text = re.sub(r"  # type: ignore\[[\w, -]+\]$", "", text, flags=re.MULTILINE)
    return translate_code(text, catalog(language, "code"))


def objectives(unit: str, text: Translator) -> str:
    """What the unit teaches, as a list."""
    from quiz import objectives

    taught = "".join(f"<li>{rendering.inline(each.say(text.language))}</li>" for each in objectives(unit))
    return f"<p>{escape(text('shardwise.objectives'))}</p><ul>{taught}</ul>" if taught else ""


def verdict(found: Verdict, text: Translator) -> str:
    """A check's verdict; what it means stands in words first."""
    title = text("shardwise.check-passed" if found.passed else "shardwise.check-failed")
    body = pages.box(found.message, mood="good" if found.passed else "bad", title=title)
    return body + _printed(found, text)


def finding(found: Verdict, text: Translator) -> str:
    """What the check of somebody else's file prints: no points, no word to the learner about them."""
    body = pages.box(found.finding, mood="bad", title=text("shardwise.diagnose-prints"))
    return body + _printed(found, text)


def _printed(found: Verdict, text: Translator) -> str:
    return pages.printed(found.printed, name=text("shardwise.check-printed")) if found.printed else ""


def diagnosis(exercise: Exercise) -> tuple[Part, ...]:
    """The questions on an exercise's broken case."""
    from shardwise.diagnosing import Choice, Part

    asked = exercise.diagnosis
    return tuple(
        Part(
            key=key,
            question=part.question,
            answer=part.answer,
            choices=tuple(Choice(key=each.key, text=each.text, feedback=each.feedback) for each in part.options),
        )
        for key, part in (("rank", asked.rank), ("operation", asked.operation), ("rule", asked.rule))
        if part is not None
    )


def nothing_due(waiting: Waiting, text: Translator) -> str:
    """That no question is due, and when the next will be."""
    if waiting.next is None:
        return text("shardwise.review-nothing-yet")
    return text("shardwise.review-nothing", day=formats.date(waiting.next, text.language))


def result(state: dict[str, Any]) -> str:
    """How a quiz ended, from the state of its widget: what stays when the widget is gone."""
    heads = "".join(
        f'<th scope="col">{escape(state["labels"][each])}</th>'
        for each in ("objective-column", "share-column", "result-column")
    )
    rows = "".join(
        f'<tr><th scope="row">{each["html"]}</th><td>{pages.ltr(each["share"])}</td>'
        f"<td>{escape(each['word'])}</td></tr>"
        for each in state["profile"]
    )
    title = f"<caption>{escape(state['labels']['profile'])}</caption>"
    table = f"<table>{title}<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>" if rows else ""
    notes = "".join(_note(each) for each in state["notes"])
    return f'<div class="kept">{state["ending"]}{table}{notes}</div>'


def _note(note: dict[str, Any]) -> str:
    more = "".join(f"<p>{each}</p>" for each in note["more"])
    link = f'<p><a href="{note["lesson"]}.ipynb">{escape(note["label"])}</a></p>' if note["lesson"] else ""
    return f"<p>{note['html']}</p>{more}{link}"


def certificate(files: Files, text: Translator) -> str:
    """The badge and the files, as links where the notebook's folder can reach them."""
    links = "".join(f"<li>{_link(path, text)}</li>" for path in files.paths)
    said = text("shardwise.certificate-says")
    badge = files.badge[files.badge.index("<svg") :]  # a page has no place for an XML declaration
    return (
        f'<div class="badge">{badge}</div><p>{escape(said)}</p>'
        f"<p>{escape(text('shardwise.certificate-files'))}</p><ul>{links}</ul>"
    )


def _link(path: Path, text: Translator) -> str:
    """A file of the workspace, from a lesson that lies in the language's folder."""
    root = workspace.folder()
    kind = text(f"shardwise.certificate-{path.suffix[1:]}")
    if not path.is_relative_to(root):
        return f"{escape(kind)}: {pages.ltr(str(path))}"
    inside = path.relative_to(root).as_posix()
    return f'<a href="../{quote(inside)}" target="_blank">{escape(kind)}</a> {pages.ltr(inside)}'


def menu_words(text: Translator) -> str:
    """JupyterLab's English menu words and what they mean."""
    from translations import translator

    english = translator("en")
    rows = "".join(
        f'<tr><th scope="row" lang="en">{pages.ltr(english(f"shardwise.menu-{word}"))}</th>'
        f"<td>{escape(text(f'shardwise.menu-{word}'))}</td></tr>"
        for word in MENU
    )
    heads = "".join(f'<th scope="col">{escape(text(f"shardwise.menu-{each}"))}</th>' for each in ("word", "meaning"))
    title = f"<caption>{escape(text('shardwise.menu-title'))}</caption>"
    return f"<table>{title}<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
