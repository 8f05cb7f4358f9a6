"""Which files hold English texts, which catalog each belongs to, and the texts in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from translations.source import code, data, notebook
from translations.source.texts import Say, SourceError, Text
from translations.wording import ROOT, messages

_SCHEMAS: dict[Path, Any] = {}


@dataclass(frozen=True, kw_only=True)
class Source:
    """One file with texts. ``kind`` says how it is read; several files may share a catalog."""

    catalog: str
    path: Path
    kind: str
    root: Path

    @property
    def name(self) -> str:
        """The path as a reader names it."""
        return self.path.relative_to(self.root).as_posix()


SHOWN = (
    "labs/strategies/[!_]*.py",
    "labs/model.py",
    "labs/data.py",
    "labs/stacks/what_ran.py",
    "labs/stacks/megatron_here.py",
    "labs/cases/group_relative.py",
    "labs/cases/serving.py",
    "labs/cases/quantization.py",
    "labs/planner/allocator.py",
    "labs/planner/realistic.py",
    "labs/planner/throughput.py",
    "labs/telemetry/profiling.py",
    "labs/telemetry/trace.py",
)
"""Code of which lessons show definitions, beside the exercises'."""


def sources(root: Path = ROOT) -> tuple[Source, ...]:
    """Every file with texts, in an order that does not change by itself."""

    def found(pattern: str, kind: str, catalog: Callable[[Path], str]) -> Iterator[Source]:
        for path in sorted(root.glob(pattern)):
            yield Source(catalog=catalog(path), path=path, kind=kind, root=root)

    return (
        *found("*/messages.yaml", "messages", lambda path: path.parent.name),
        *found("lessons/source/*.md", "lesson", lambda path: f"lesson-{path.stem}"),
        *found("quiz/bank/*.yaml", "data", lambda path: f"bank-{path.stem}"),
        *found("quiz/objectives.yaml", "data", lambda path: path.stem),
        *found("quiz/misconceptions.yaml", "data", lambda path: path.stem),
        *found("labs/exercises/*/exercise.yaml", "data", exercise_catalog),
        *found("labs/exercises/*/assignment.yaml", "data", exercise_catalog),
        *(
            source
            for name in ("stub", "faded", "solution", "broken")
            for source in found(f"labs/exercises/*/{name}.py", "code", exercise_catalog)
        ),
        *(source for shown in SHOWN for source in found(shown, "code", lambda _: "code")),
    )


def exercise_catalog(path: Path) -> str:
    """The catalog of an exercise's folder: ``labs/exercises/zero_1/stub.py`` is in ``exercise-zero-1``."""
    return f"exercise-{path.parent.name.replace('_', '-')}"


def texts(source: Source) -> tuple[Text, ...]:
    """The file's texts in reading order, each context once. Raises SourceError naming file and line."""
    found: dict[str, Text] = {}

    def remember(context: str, english: str, line: int) -> str:
        known = found.get(context)
        if known and known.english != english:
            raise SourceError(f"{line}: two texts are called {context}")
        found.setdefault(context, Text(context=context, english=english, path=source.name, line=line))
        return english

    content = source.path.read_text(encoding="utf-8")
    try:
        _read(source, content, remember)
    except SourceError as error:
        raise SourceError(f"{source.name}:{error}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise SourceError(f"{source.name}:{mark.line + 1 if mark else 1}: {error}") from None
    if source.kind == "messages":
        plurals = {
            id: forms["other"] for id, forms in messages(source.path.parent).items() if not isinstance(forms, str)
        }
        return tuple(replace(text, plural=plurals.get(text.context, "")) for text in found.values())
    return tuple(sorted(found.values(), key=lambda text: text.line))


def schema(path: Path, root: Path) -> Mapping[str, Any] | None:
    """The JSON Schema of a file, named after it or its folder: beside it, in a folder ``schema``, or further up."""
    for folder in (path.parent, path.parent.parent, path.parent.parent.parent):
        for name in (path.stem, path.parent.name):
            for candidate in (folder / "schema" / f"{name}.schema.json", folder / f"{name}.schema.json"):
                if candidate.is_relative_to(root) and candidate.exists():
                    if candidate not in _SCHEMAS:
                        _SCHEMAS[candidate] = json.loads(candidate.read_text(encoding="utf-8"))
                    loaded: Mapping[str, Any] = _SCHEMAS[candidate]
                    return loaded
    return None


def _read(source: Source, content: str, say: Say) -> None:
    match source.kind:
        case "messages":
            _messages(content, say)
        case "data":
            data.rewrite(yaml.safe_load(content), say, schema(source.path, source.root), text=content)
        case "code":
            code.rewrite(content, say)
        case "lesson":
            lesson = notebook.parse(content)
            if lesson.unit != source.path.stem:
                raise SourceError(f"2: the unit of this file is {source.path.stem}")
            notebook.rewrite(lesson, say)


def _messages(content: str, say: Say) -> None:
    loaded = yaml.safe_load(content) or {}
    if not isinstance(loaded, dict):
        raise SourceError("1: messages are a mapping of id to text")
    tree = yaml.compose(content)
    for key, value in tree.value if isinstance(tree, yaml.MappingNode) else ():
        line = key.start_mark.line + 1
        message = loaded[key.value]
        if isinstance(message, dict) and set(message) == {"one", "other"} and "{count}" in message["other"]:
            say(key.value, message["one"], line)
        elif isinstance(message, str) and isinstance(value, yaml.ScalarNode):
            say(key.value, message, line)
        else:
            raise SourceError(f"{line}: {key.value} is a text, or {{one: ..., other: ... {{count}} ...}}")
