"""YAML with texts in it: items, objectives, misconceptions, exercises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from translations import formats
from translations.catalogs import Catalog
from translations.source import code
from translations.source.texts import Say, has_words

KEYS = frozenset(
    {"title", "stem", "text", "feedback", "explanation", "caption", "story", "hint", "hints", "failure", "failures"}
    | {"name", "description", "summary"}
)
"""The keys of texts in a file that has no schema."""

Schema = Mapping[str, Any]


def translate_data(data: Any, catalog: Catalog, schema: Schema | None = None) -> Any:
    """A copy of the data with its texts in the catalog's language; English where a translation is missing or stale."""
    right_to_left = catalog.language.direction == "rtl"
    return rewrite(
        data, lambda context, english, _line: catalog.get(context, english), schema, right_to_left=right_to_left
    )


def rewrite(data: Any, say: Say, schema: Schema | None = None, *, text: str = "", right_to_left: bool = False) -> Any:
    """The data with ``say``'s wording. ``text`` is the YAML it came from, where lines matter.

    A text's context is the id of the innermost thing with an ``id`` and the keys on the way from there, joined by dots;
    a list's member counts as its ``key``, or its number from 1.
    """
    lines = _lines(yaml.compose(text), ()) if text else {}
    return _Walk(say, schema, lines, right_to_left).value(data, [schema] if schema else None, (), "", None)


class _Walk:
    def __init__(
        self, say: Say, root: Schema | None, lines: Mapping[tuple[object, ...], int], right_to_left: bool
    ) -> None:
        self.say, self.root, self.lines, self.right_to_left = say, root, lines, right_to_left

    def value(
        self, data: Any, schemas: list[Schema] | None, path: tuple[object, ...], context: str, marked: object
    ) -> Any:
        """One value. ``schemas`` are all that might describe it; None where there is no schema at all."""
        if schemas is not None:
            schemas = self._expanded(schemas)
            marked = next((each["x-translate"] for each in schemas if "x-translate" in each), marked)
        if isinstance(data, dict):
            context = str(data["id"]) if isinstance(data.get("id"), str) else context
            return {
                key: self.value(
                    each,
                    None if schemas is None else _below(schemas, key),
                    (*path, key),
                    f"{context}.{key}" if context else str(key),
                    (marked or key in KEYS) if schemas is None and key != "id" else marked if key != "id" else None,
                )
                for key, each in data.items()
            }
        if isinstance(data, list):
            return [
                self.value(
                    each,
                    None if schemas is None else _below(schemas, None),
                    (*path, number),
                    f"{context}.{_member(each, number)}",
                    marked,
                )
                for number, each in enumerate(data)
            ]
        if not isinstance(data, str) or not marked:
            return data
        return self._text(data, self.lines.get(path, 0), context, marked)

    def _text(self, data: str, line: int, context: str, marked: object) -> str:
        if marked == "code":
            return code.rewrite(data, self.say, first_line=line + 1, right_to_left=self.right_to_left)
        english = data.strip()
        if not has_words(english):
            return data
        wording = self.say(context, english, line)
        if wording == english:
            return data
        return formats.isolate_runs(wording) if self.right_to_left else wording

    def _expanded(self, schemas: list[Schema]) -> list[Schema]:
        """The schemas and all that they refer to or combine."""
        found: list[Schema] = []
        waiting = list(schemas)
        while waiting:
            each = waiting.pop(0)
            if any(each is known for known in found):
                continue
            found.append(each)
            if "$ref" in each:
                target: Any = self.root
                for step in str(each["$ref"]).removeprefix("#/").split("/"):
                    target = target[step]
                waiting.append(target)
            for name in ("allOf", "anyOf", "oneOf"):
                waiting.extend(each.get(name, ()))
            waiting.extend(each[name] for name in ("then", "else") if name in each)
        return found


def _below(schemas: list[Schema], key: object) -> list[Schema]:
    """What the schemas say of a mapping's key, or (None) of a list's members."""
    if key is None:
        return [each["items"] for each in schemas if isinstance(each.get("items"), Mapping)]
    named = [each["properties"][key] for each in schemas if key in each.get("properties", {})]
    others = [each["additionalProperties"] for each in schemas if isinstance(each.get("additionalProperties"), Mapping)]
    return [each for each in named or others if isinstance(each, Mapping)]


def _member(data: Any, number: int) -> str:
    return str(data["key"]) if isinstance(data, dict) and isinstance(data.get("key"), str) else str(number + 1)


def _lines(node: yaml.Node | None, path: tuple[object, ...]) -> dict[tuple[object, ...], int]:
    """Where each value of a document begins."""
    if node is None:
        return {}
    found: dict[tuple[object, ...], int] = {path: node.start_mark.line + 1}
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            found |= _lines(value, (*path, key.value))
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            found |= _lines(value, (*path, number))
    return found
