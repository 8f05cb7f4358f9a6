"""A lesson's source: a text notebook of Markdown and ``{code-cell}`` fences under a frontmatter."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import yaml

from translations.source import code, markdown
from translations.source.texts import Say, SourceError, digest

INCLUDE = re.compile(r"#\s*include:\s*exercise\s+([a-z0-9-]+)\s+(stub|faded|solution|broken)\s*")
FRONTMATTER = {"unit": str, "title": str, "minutes": int, "objectives": list}

_OPEN = re.compile(r"(`{3,})\{code-cell\}[ \t]*\w*[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_OPTION = re.compile(r":([a-z]+):[ \t]*(.*)$")
_BREAK = re.compile(r"\+\+\+[ \t]*$")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A cell of the source; ``line`` is where its text begins. Its id does not depend on where it stands."""

    kind: str
    text: str
    line: int
    id: str
    tags: tuple[str, ...] = ()

    @property
    def include(self) -> tuple[str, str] | None:
        """Exercise and file that stand here instead of the cell."""
        match = INCLUDE.fullmatch(self.text.strip()) if self.kind == "code" else None
        return (match[1], match[2]) if match else None


@dataclass(frozen=True, kw_only=True)
class Notebook:
    """A lesson as written. ``title_line`` is where its title stands."""

    unit: str
    title: str
    title_line: int
    minutes: int
    objectives: tuple[str, ...]
    cells: tuple[Cell, ...]


def parse(text: str) -> Notebook:
    """Reads a lesson's source. Raises SourceError, beginning with the line, where it is not one."""
    lines = text.split("\n")
    if lines[0].strip() != "---" or "---" not in lines[1:]:
        raise SourceError("1: a lesson begins with a frontmatter between two lines ---")
    end = lines.index("---", 1)
    front = _frontmatter(lines[1:end])
    title_line = next(number for number, line in enumerate(lines[:end], 1) if line.startswith("title:"))
    return Notebook(
        unit=front["unit"],
        title=front["title"],
        title_line=title_line,
        minutes=front["minutes"],
        objectives=tuple(front["objectives"]),
        cells=_named(_cells(lines, end + 1)),
    )


def rewrite(notebook: Notebook, say: Say, *, right_to_left: bool = False) -> Notebook:
    """The notebook with ``say``'s wording. Cells that include an exercise are left for the builder."""
    return replace(
        notebook,
        title=say("title", notebook.title, notebook.title_line),
        cells=tuple(rewrite_cell(cell, say, right_to_left=right_to_left) for cell in notebook.cells),
    )


def rewrite_cell(cell: Cell, say: Say, *, right_to_left: bool = False) -> Cell:
    """One cell with ``say``'s wording."""
    if cell.include:
        return cell
    if cell.kind == "markdown":
        return replace(cell, text=markdown.rewrite(cell.text, say, first_line=cell.line))
    return replace(cell, text=code.rewrite(cell.text, say, first_line=cell.line, right_to_left=right_to_left))


def _frontmatter(lines: list[str]) -> dict[str, Any]:
    try:
        front = yaml.safe_load("\n".join(lines))
    except yaml.YAMLError as error:
        raise SourceError(f"2: the frontmatter is not YAML: {error}") from None
    if not isinstance(front, dict) or set(front) != set(FRONTMATTER):
        raise SourceError(f"2: a lesson's frontmatter has {', '.join(FRONTMATTER)} and nothing else")
    for name, kind in FRONTMATTER.items():
        if not isinstance(front[name], kind):
            raise SourceError(f"2: {name} is {kind.__name__}")
    return front


def _cells(lines: list[str], start: int) -> list[Cell]:
    cells: list[Cell] = []
    prose: list[str] = []
    fence = ""
    number = first = start

    def close() -> None:
        text = "\n".join(prose)
        if text.strip():
            skipped = len(text) - len(text.lstrip("\n"))
            cells.append(Cell(kind="markdown", text=text.strip("\n"), line=first + 1 + skipped, id=""))
        prose.clear()

    while number < len(lines):
        line = lines[number]
        opening = None if fence else _OPEN.match(line)
        if opening:
            close()
            end = _end_of_fence(lines, number, opening[1])
            cells.append(_code_cell(lines[number + 1 : end], number + 2))
            number = first = end + 1
            continue
        if not fence and _BREAK.match(line):
            close()
            number = first = number + 1
            continue
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif fence and line.strip().startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""
        prose.append(line)
        number += 1
    close()
    return cells


def _end_of_fence(lines: list[str], start: int, fence: str) -> int:
    for number in range(start + 1, len(lines)):
        if lines[number].rstrip() == fence:
            return number
    raise SourceError(f"{start + 1}: this code cell has no end")


def _code_cell(lines: list[str], line: int) -> Cell:
    options: dict[str, Any] = {}
    while lines and (option := _OPTION.match(lines[0])):
        if option[1] not in ("tags", "id"):
            raise SourceError(f"{line}: a code cell has no option {option[1]}; there are tags and id")
        options[option[1]] = yaml.safe_load(option[2])
        lines, line = lines[1:], line + 1
    while lines and not lines[0].strip():
        lines, line = lines[1:], line + 1
    text = "\n".join(lines).rstrip()
    return Cell(kind="code", text=text, line=line, id=options.get("id", ""), tags=tuple(options.get("tags", ())))


def _named(cells: list[Cell]) -> tuple[Cell, ...]:
    """Gives each cell an id of its own: the one that its author gave, else one from its text."""
    used: dict[str, int] = {}
    named: list[Cell] = []
    for cell in cells:
        own = "-".join(("exercise", *cell.include)) if cell.include else f"{cell.kind}-{digest(cell.text)}"
        name = cell.id or own
        if cell.id and name in used:
            raise SourceError(f"{cell.line}: two cells have the id {name}")
        used[name] = used.get(name, 0) + 1
        named.append(replace(cell, id=name if used[name] == 1 else f"{name}-{used[name]}"))
    return tuple(named)
