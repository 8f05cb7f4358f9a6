"""formgrader and nbgrader's own feedback without a network, and without trust in what a student wrote.

nbgrader shows a student's Markdown with the HTML in it: a script there would run as the teacher who reads it, and could
give points. `configure`, from a course folder's `nbgrader_config.py`, puts another filter in its place: HTML of a
student is shown and not used, formulas become MathML, which a browser draws by itself. MathJax, which nbgrader loads
from elsewhere, is left out.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

TEMPLATES = Path(__file__).with_name("templates")
FILTER = "shardwise.classroom.offline.shown"
RELEASE = "shardwise.classroom.releasing.Release"
COLLECT = "shardwise.classroom.collecting.Collect"
REFUSED = "shardwise.classroom.refusing.Refused"
_DIRECTION = re.compile(r'<div dir="(?:ltr|rtl)" lang="[a-z]{2,3}">|</div>')
"""How the course's own notebooks say in which direction a text runs: a line of its own, and nothing else of HTML."""


def configure(config: Any) -> None:
    """To be called with nbgrader's configuration. A release, too, is then the course's: it announces due dates. So is
    collecting, which follows no links; and nbgrader's autograde runs no work on the class's assignments.
    """
    config.HTMLExporter.extra_template_basedirs = [str(TEMPLATES), str(_nbgraders())]
    config.HTMLExporter.filters = {"markdown2html": FILTER}
    config.ExchangeFactory.release_assignment = RELEASE
    config.ExchangeFactory.collect = COLLECT
    config.Autograde.sanitize_preprocessors = [REFUSED, *_sanitizing()]


def _sanitizing() -> list[Any]:
    """What nbgrader does to a notebook before it runs it."""
    from nbgrader.converters import Autograde  # type: ignore[import-untyped]

    return list(Autograde.sanitize_preprocessors.default_args[0])


def _nbgraders() -> Path:
    """The folder of nbgrader's templates."""
    found = importlib.util.find_spec("nbgrader")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "server_extensions" / "formgrader" / "templates"


def shown(source: str) -> str:
    """A cell's Markdown as HTML. Of its own HTML only the course's marks of direction are used, where they balance."""
    pieces, waiting = list[str](), list[str]()
    lines = source.split("\n")
    marks = [line.strip() for line in lines if _DIRECTION.fullmatch(line.strip())]
    if not marks or not _balanced(marks):
        return f'<div dir="auto">{_fragment(source)}</div>'
    for line in lines:
        if _DIRECTION.fullmatch(line.strip()):
            pieces.append(_fragment("\n".join(waiting)))
            pieces.append(line.strip())
            waiting.clear()
        else:
            waiting.append(line)
    return "\n".join([*pieces, _fragment("\n".join(waiting))])


def _fragment(source: str) -> str:
    """Markdown as HTML that uses none of its own; code runs from left to right in any text."""
    from shardwise.classroom.mathml import student_text

    return student_text(source).replace("<code>", '<code dir="ltr">')


def _balanced(marks: list[str]) -> bool:
    depth = 0
    for each in marks:
        depth += -1 if each == "</div>" else 1
        if depth < 0:
            return False
    return depth == 0
