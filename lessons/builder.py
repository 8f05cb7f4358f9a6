"""Builds ``lessons/<language>/<unit>.ipynb`` from ``lessons/source/<unit>.md`` and the catalogs.

The code of a built lesson is that of its source in every language; only comments, docstrings, ``_("...")`` strings and
prose differ. A text without a current translation stands there in English, and its cell is tagged ``untranslated``.
In a language in preparation a lesson is built where it is whole: with its exercises and the bank of its unit.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from translations import SOURCE, Language, formats, in_preparation, translator
from translations import released as offered
from translations.catalogs import Catalog, catalog
from translations.source import SourceError, code, markdown, notebook
from translations.sources import exercise_catalog
from translations.whole import languages_with, whole

ROOT = Path(__file__).resolve().parent.parent
LEFT_TO_RIGHT = "<!-- left to right -->"
"""The line in a source above a table that keeps its column order in every language."""

_OPEN = re.compile(r'(course\.open\("([^"]*)", language=)"([^"]*)"')


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """A built lesson of one language, as a list of lessons shows it."""

    unit: str
    title: str
    minutes: int
    objectives: tuple[str, ...]
    path: Path


def lessons(language: Language | str) -> tuple[Lesson, ...]:
    """The built lessons of a language in the order of the units."""
    code = language if isinstance(language, str) else language.code
    found: list[Lesson] = []
    for path in sorted((ROOT / "lessons" / code).glob("[0-9]*.ipynb")):
        course = json.loads(path.read_text(encoding="utf-8"))["metadata"]["course"]
        objectives = tuple(course["objectives"])
        found.append(
            Lesson(
                unit=course["unit"], title=course["title"], minutes=course["minutes"], objectives=objectives, path=path
            )
        )
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class Built:
    """The files that building changed, and the lessons that their authors must mend first, by file and line."""

    changed: tuple[Path, ...]
    faults: tuple[str, ...]


def build(*, root: Path = ROOT, to: Path | None = None, into: Sequence[Language] | None = None) -> Built:
    """Builds every lesson into every language that it is written in, or those named. A lesson with a fault is left as
    it is; one that is no longer whole in a language in preparation is taken away there.
    """
    changed: list[Path] = []
    faults: list[str] = []
    for source in sources(root):
        chosen = written_in(source, root=root) if into is None else into
        for path in _left_over(source, root=root, to=to) if into is None else ():
            path.unlink()
            changed.append(path)
        for language in chosen:
            path = (to or root / "lessons") / language.code / f"{source.stem}.ipynb"
            try:
                content = render(source, language, root=root)
            except SourceError as error:
                faults.append(str(error))
                break
            if not path.exists() or path.read_text(encoding="utf-8") != content:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content, encoding="utf-8")
                changed.append(path)
    return Built(changed=tuple(changed), faults=tuple(faults))


def check(*, root: Path = ROOT, to: Path | None = None) -> Iterator[str]:
    """What is wrong with the sources, and which built notebooks are out of step, by file and line."""
    objectives = _objectives(root)
    for source in sources(root):
        name = source.relative_to(root).as_posix()
        try:
            built = {language: render(source, language, root=root) for language in written_in(source, root=root)}
        except SourceError as error:
            yield str(error)
            continue
        lesson = notebook.parse(source.read_text(encoding="utf-8"))
        yield from (f"{name}:{sentence}" for sentence in _faults(lesson, objectives))
        for language, content in built.items():
            path = (to or root / "lessons") / language.code / f"{source.stem}.ipynb"
            if not path.exists() or path.read_text(encoding="utf-8") != content:
                yield f"lessons/{language.code}/{path.name}: out of step; run: python -m lessons build"
        for path in _left_over(source, root=root, to=to):
            yield f"lessons/{path.parent.name}/{path.name}: not all translated any more; run: python -m lessons build"


def sources(root: Path = ROOT) -> tuple[Path, ...]:
    """The lessons' sources in the order of the units."""
    return tuple(sorted((root / "lessons" / "source").glob("*.md")))


def released() -> tuple[Language, ...]:
    """The languages that every lesson is built into."""
    return offered()


def written_in(source: Path, *, root: Path = ROOT) -> tuple[Language, ...]:
    """The languages that a lesson is built into: those released, and those in preparation in which it is whole."""
    return languages_with(_needed(source, root), root=root)


def _needed(source: Path, root: Path) -> set[str]:
    """The catalogs that a lesson is told by: its own, those of its exercises, and that of its unit's bank."""
    cells = notebook.parse(source.read_text(encoding="utf-8")).cells
    bank = root / "quiz" / "bank" / f"{source.stem}.yaml"
    own = {f"lesson-{source.stem}", *({f"bank-{source.stem}"} if bank.exists() else ())}
    return own | {f"exercise-{cell.include[0]}" for cell in cells if cell.include}


def render(source: Path, language: Language, *, root: Path = ROOT) -> str:
    """One lesson in one language, as the text of an ``.ipynb`` file: no outputs, cell ids from the source."""
    name = source.relative_to(root).as_posix()
    try:
        lesson = notebook.parse(source.read_text(encoding="utf-8"))
        words = _Wording(catalog(language, f"lesson-{source.stem}"))
        title = words("title", lesson.title, lesson.title_line)
        cells = [_title(lesson, title, language, words), *(_cell(cell, language, words, root) for cell in lesson.cells)]
    except SourceError as error:
        raise SourceError(f"{name}:{error}") from None
    course = {
        "dir": language.direction,
        "lang": language.code,
        "minutes": lesson.minutes,
        "objectives": list(lesson.objectives),
        "title": title,
        "unit": lesson.unit,
    }
    built = {
        "cells": cells,
        "metadata": {
            "course": course,
            "kernelspec": {"display_name": "Shardwise", "language": "python", "name": "shardwise"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(built, ensure_ascii=False, indent=1) + "\n"


def _left_over(source: Path, *, root: Path, to: Path | None) -> Iterator[Path]:
    """Built notebooks of a lesson in languages in preparation in which it is not whole."""
    for language in in_preparation():
        path = (to or root / "lessons") / language.code / f"{source.stem}.ipynb"
        if path.exists() and not whole(language, _needed(source, root), root=root):
            yield path


class _Wording:
    """A catalog as ``say``, which remembers whether a text had no current translation."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.complete = True

    def __call__(self, context: str, english: str, _line: int) -> str:
        self.complete &= self.catalog.current(context, english)
        wording = self.catalog.get(context, english)
        prose = context.partition("-")[0] not in ("comment", "string")
        return formats.isolate_runs(wording) if prose and self.catalog.language.direction == "rtl" else wording


def _title(lesson: notebook.Notebook, title: str, language: Language, words: _Wording) -> dict[str, Any]:
    minutes = translator(language)("lessons.reading-time", count=lesson.minutes)
    cell = notebook.Cell(kind="markdown", text=f"# {title}\n\n{minutes}", line=1, id="title")
    return _as_json(cell, directed(cell.text, language), words)


def _cell(cell: notebook.Cell, language: Language, words: _Wording, root: Path) -> dict[str, Any]:
    words.complete = True
    right_to_left = language.direction == "rtl"
    if cell.include:
        return _included(cell, language, root)
    rewritten = notebook.rewrite_cell(cell, words, right_to_left=right_to_left)
    if cell.kind == "markdown":
        return _as_json(cell, directed(rewritten.text, language), words)
    return _as_json(cell, _OPEN.sub(rf'\1"{language.code}"', rewritten.text), words)


def _included(cell: notebook.Cell, language: Language, root: Path) -> dict[str, Any]:
    assert cell.include is not None
    exercise, name = cell.include
    path = root / "labs" / "exercises" / exercise.replace("-", "_") / f"{name}.py"
    if not path.exists():
        raise SourceError(f"{cell.line}: exercise {exercise} has no {name}.py")
    words = _Wording(catalog(language, exercise_catalog(path)))
    text = code.rewrite(path.read_text(encoding="utf-8"), words, right_to_left=language.direction == "rtl").strip("\n")
    header = f"%%exercise {exercise}\n" if name in ("stub", "faded") else ""
    return _as_json(cell, header + text, words)


def _as_json(cell: notebook.Cell, text: str, words: _Wording) -> dict[str, Any]:
    tags = [*cell.tags, *(() if words.complete else ("untranslated",))]
    common = {
        "cell_type": cell.kind,
        "id": cell.id,
        "metadata": {"tags": tags} if tags else {},
        "source": text.splitlines(keepends=True),
    }
    return common if cell.kind == "markdown" else common | {"execution_count": None, "outputs": []}


def directed(text: str, language: Language) -> str:
    """Markdown with the direction that its language needs. Fences and marked tables run left to right everywhere."""
    pieces = _pieces(text)
    if language.direction == "ltr":
        return "\n\n".join(piece for _, piece in pieces)
    directed: list[str] = []
    for kind, piece in pieces:
        if kind == "fence":
            directed.append(piece)
        else:
            direction = "ltr" if kind == "table" else "rtl"
            directed.append(f'<div dir="{direction}" lang="{language.code}">\n\n{piece}\n\n</div>')
    return "\n\n".join(directed)


def _pieces(text: str) -> list[tuple[str, str]]:
    """Top-level fences and marked tables (without their mark), and the prose between them."""
    lines = text.split("\n")
    found: list[tuple[str, int, int, int]] = []
    marked = -1
    for token in markdown.parse(text):
        if token.level or not token.map:
            continue
        start, end = token.map
        if token.type == "html_block" and token.content.strip() == LEFT_TO_RIGHT:
            marked = start
        elif token.type in ("fence", "code_block"):
            found.append(("fence", start, start, end))
        elif token.type == "table_open" and marked >= 0:
            found.append(("table", marked, start, end))
        if token.type != "html_block":
            marked = -1
    pieces: list[tuple[str, str]] = []
    at = 0
    for kind, begin, start, end in [*found, ("", len(lines), len(lines), len(lines))]:
        if prose := "\n".join(lines[at:begin]).strip("\n"):
            pieces.append(("prose", prose))
        if kind:
            pieces.append((kind, "\n".join(lines[start:end]).strip("\n")))
        at = end
    return pieces


def _faults(lesson: notebook.Notebook, objectives: frozenset[str] | None) -> Iterator[str]:
    """What a lesson's author must mend though it can be built."""
    for objective in lesson.objectives if objectives is not None else ():
        if objective not in (objectives or ()):
            yield f"2: there is no objective {objective}"
    first = next((cell for cell in lesson.cells if cell.kind == "code"), None)
    opening = _OPEN.search(first.text) if first else None
    if first is None or opening is None or opening.groups()[1:] != (lesson.unit, SOURCE):
        line = first.line if first else 1
        yield f'{line}: the first code cell calls course.open("{lesson.unit}", language="{SOURCE}")'
    for cell in lesson.cells:
        if cell.kind == "markdown":
            for level, line in markdown.headings(cell.text):
                if level == 1:
                    yield f"{cell.line + line}: the title comes from the frontmatter; begin headings at ##"
        elif not cell.include:
            try:
                ast.parse(code.without_magic(cell.text))
            except SyntaxError as error:
                yield f"{cell.line + (error.lineno or 1) - 1}: {error.msg}"


def _objectives(root: Path) -> frozenset[str] | None:
    path = root / "quiz" / "objectives.yaml"
    if not path.exists():
        return None
    return frozenset(each["id"] for each in yaml.safe_load(path.read_text(encoding="utf-8"))["objectives"])
