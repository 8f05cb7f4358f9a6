"""The items of a bank: read from YAML, checked against the schema, frozen.

A text is found in a learner's language by its context: the item's id and the keys on the way to it, joined by dots
(`zero-1-what-shards.options.gradients.feedback`), in the catalog `bank-<unit>`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import jsonschema
import yaml

from translations import CourseError, Language, formats
from translations import language as find_language
from translations.catalogs import catalog

FOLDER = Path(__file__).parent
BANK = FOLDER / "bank"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Form = Literal["choice", "several", "number", "bytes", "order", "match", "fault"]
Kind = Literal["recall", "compute", "predict", "diagnose", "explain"]


@dataclass(frozen=True, kw_only=True)
class Call:
    """A function of the planner by name, the expressions that it is asked with, and the field taken of its answer."""

    function: str
    arguments: Mapping[str, Argument]
    take: str | None = None


@dataclass(frozen=True, kw_only=True)
class Word:
    """A word handed to a function as it stands ('bf16')."""

    word: str


Value = str | int | float | Call
"""An expression over the parameters, or a call."""
Argument = str | int | float | bool | Word | Call


@dataclass(frozen=True, kw_only=True)
class Option:
    """One thing to choose: an answer of a choice, or a line of code (`line`, from 1)."""

    key: str
    text: str = ""
    feedback: str
    correct: bool = False
    misconception: str | None = None
    line: int = 0


@dataclass(frozen=True, kw_only=True)
class Slip:
    """A wrong number that people reach by a known way."""

    key: str
    value: Value
    feedback: str
    misconception: str | None = None


@dataclass(frozen=True, kw_only=True)
class Inversion:
    """Putting the step `first` before the step `then`, though it comes after it."""

    key: str
    first: str
    then: str
    feedback: str
    misconception: str | None = None


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step to be ordered, or an answer to be matched."""

    key: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Something to be matched, and the key of the answer that fits it."""

    key: str
    text: str
    match: str
    feedback: str
    misconception: str | None = None


@dataclass(frozen=True, kw_only=True)
class Item:
    """One item as its author wrote it. `line` says where in the bank it starts.

    Which of the last fields are filled follows from `form`: options for choice, several and fault; steps and inversions
    for order (steps in the right order); pairs and answers for match; key, slips, answer_unit for number and bytes.
    `asks` names a question that every exam holds in some form.
    """

    id: str
    unit: str
    version: int
    objective: str
    kind: Kind
    form: Form
    text: str
    feedback: str
    line: int
    asks: str = ""
    code: str = ""
    fixed: bool = False
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    let: Mapping[str, Value] = field(default_factory=dict)
    show: Mapping[str, str] = field(default_factory=dict)
    options: tuple[Option, ...] = ()
    steps: tuple[Step, ...] = ()
    inversions: tuple[Inversion, ...] = ()
    pairs: tuple[Pair, ...] = ()
    answers: tuple[Step, ...] = ()
    answer_unit: str = ""
    tolerance: float = 0.01
    key: Value | None = None
    formula: str | int | float | None = None
    ranks: str | int | float | None = None
    slips: tuple[Slip, ...] = ()
    texts: Mapping[str, Mapping[str, str]] | None = None

    def say(self, context: str, english: str, language: Language | str) -> str:
        """A text of this item in a language; the English where it has no translation.

        An item with `texts` brings its own translations (language, then context): of a private bank, or as drawn.
        """
        if self.texts is None:
            return wording(f"bank-{self.unit}", f"{self.id}.{context}", english, language)
        reader = find_language(language)
        return isolated(self.texts.get(reader.code, {}).get(context, ""), english, reader)


@dataclass(frozen=True, kw_only=True)
class Objective:
    """What a unit teaches and its quiz asks."""

    id: str
    unit: str
    text: str

    def say(self, language: Language | str) -> str:
        return wording("objectives", f"{self.id}.text", self.text, language)


@dataclass(frozen=True, kw_only=True)
class Misconception:
    """A wrong idea from the closed list; `text` is the truth that it misses, `unit` where a lab shows it."""

    id: str
    text: str
    unit: str

    def say(self, language: Language | str) -> str:
        return wording("misconceptions", f"{self.id}.text", self.text, language)


def wording(name: str, context: str, english: str, language: Language | str) -> str:
    """A text in a language by catalog and context; in a right-to-left one its Latin runs and code are isolated."""
    found = catalog(language, name)
    return isolated(found.get(context, english.strip()), english, found.language)


def isolated(said: str, english: str, language: Language) -> str:
    """A translation as it is shown (the English where it is empty): Latin runs isolated where reading is from right."""
    said = said or english.strip()
    return formats.isolate_runs(said) if language.direction == "rtl" and said != english.strip() else said


def units() -> tuple[str, ...]:
    """The units that have a bank."""
    return tuple(sorted(path.stem for path in BANK.glob("*.yaml")))


def items(unit: str) -> tuple[Item, ...]:
    """The items of a unit, in the order of its bank. Raises CourseError where the unit has none."""
    path = BANK / f"{unit}.yaml"
    if not path.is_file():
        raise CourseError("quiz.unknown-unit", unit=unit, known=", ".join(units()))
    return read(path)


def item(item_id: str) -> Item:
    """The item with this id, of whatever unit. Raises CourseError where no bank holds it."""
    for unit in units():
        for each in items(unit):
            if each.id == item_id:
                return each
    raise CourseError("quiz.unknown-item", id=item_id)


def objectives(unit: str | None = None) -> tuple[Objective, ...]:
    """The objectives of a unit, or of all, in the order of their file."""
    return tuple(each for each in _objectives() if unit in (None, each.unit))


def misconceptions() -> Mapping[str, Misconception]:
    """The closed list, by id."""
    return {each.id: each for each in _misconceptions()}


def read(path: Path) -> tuple[Item, ...]:
    """The items of a bank file. Raises ValueError that names file, line and what the schema asks."""
    return _read(path, path.stat().st_mtime_ns)


@functools.lru_cache(maxsize=64)
def _read(path: Path, _changed: int) -> tuple[Item, ...]:
    text = path.read_text(encoding="utf-8")
    data = validated(path, "bank.schema.json")
    lines = item_lines(text)
    return tuple(made(fields, unit=data["unit"], line=line) for fields, line in zip(data["items"], lines, strict=True))


def validated(path: Path, schema: str) -> Any:
    """The content of a YAML file that keeps to a schema of ours; else ValueError naming file, line and rule."""
    text = path.read_text(encoding="utf-8")
    data = yaml.load(text, Loader=_LOADER)
    for error in jsonschema.Draft202012Validator(_schema(schema)).iter_errors(data):
        where = ".".join(str(step) for step in error.absolute_path)
        line = line_of(text, list(error.absolute_path))
        raise ValueError(f"{path.name}:{line}: at {where or 'the top'}: {error.message[:300]}")
    return data


def line_of(text: str, path: Sequence[str | int]) -> int:
    """The line (from 1) on which the value at a path of keys and positions stands, as near as the text goes."""
    node: yaml.Node | None = yaml.compose(text, Loader=_LOADER)
    line = 1
    for step in path:
        following: yaml.Node | None = None
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.value == str(step):
                    following, line = value, key.start_mark.line + 1
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            following = node.value[step]
            line = node.value[step].start_mark.line + 1
        if following is None:
            break
        node = following
    return line


def item_lines(text: str) -> list[int]:
    """The line on which each item of a bank starts."""
    return list(_item_lines(yaml.compose(text, Loader=_LOADER)))


def _item_lines(node: yaml.Node | None) -> Iterator[int]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == "items" and isinstance(value, yaml.SequenceNode):
                yield from (each.start_mark.line + 1 for each in value.value)


@functools.cache
def _schema(name: str) -> Any:
    return json.loads((FOLDER / "schema" / name).read_text(encoding="utf-8"))


def made(
    written: Mapping[str, Any], *, unit: str, line: int = 0, texts: Mapping[str, Mapping[str, str]] | None = None
) -> Item:
    """The item of its fields as a bank holds them; they keep to the schema already."""
    fields = dict(written)
    several = {
        "steps": Step,
        "inversions": Inversion,
        "pairs": Pair,
        "answers": Step,
    }
    parts: dict[str, Any] = {
        name: tuple(kind(**each) for each in fields.pop(name, ())) for name, kind in several.items()
    }
    parts["options"] = tuple(Option(**each) for each in fields.pop("options", fields.pop("lines", ())))
    parts["slips"] = tuple(Slip(**{**each, "value": _value(each["value"])}) for each in fields.pop("slips", ()))
    parts["let"] = {name: _value(each) for name, each in fields.pop("let", {}).items()}
    parts["answer_unit"] = fields.pop("unit", "")
    if "key" in fields:
        parts["key"] = _value(fields.pop("key"))
    return Item(**fields, **parts, unit=unit, line=line, texts=texts)


def _value(value: Any) -> Any:
    if isinstance(value, dict) and "call" in value:
        arguments = {name: _value(each) for name, each in value["arguments"].items()}
        return Call(function=value["call"], arguments=arguments, take=value.get("take"))
    if isinstance(value, dict):
        return Word(word=value["word"])
    return value


@functools.cache
def _objectives() -> tuple[Objective, ...]:
    data = validated(FOLDER / "objectives.yaml", "objectives.schema.json")
    return tuple(Objective(**each) for each in data["objectives"])


@functools.cache
def _misconceptions() -> tuple[Misconception, ...]:
    data = validated(FOLDER / "misconceptions.yaml", "misconceptions.schema.json")
    return tuple(Misconception(**each) for each in data["misconceptions"])
