"""Variants: an item with its parameters drawn and its options shuffled, by a seed.

Equal item version and seed give the equal variant, on every machine and in every language: draws come from a hash, each
parameter's from its own name, so that a parameter added later moves no other.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quiz.expressions import ExpressionError, Number, evaluate
from quiz.expressions import Value as Drawn
from quiz.items import Argument, Call, Item, Value, Word

ALLOWED = "labs.planner."
"""Only functions of these modules compute keys."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """An item as one learner meets it. `values` holds its parameters, `order` the keys of what is shown, as shown.

    `order` is of options for choice and several, of steps for order, of answers for match, and empty else.
    """

    item: Item
    seed: int
    values: Mapping[str, Drawn]
    order: tuple[str, ...]

    @property
    def id(self) -> str:
        return self.item.id

    @property
    def version(self) -> int:
        return self.item.version

    def number(self, value: Value) -> float:
        """What an expression or call comes to in this variant."""
        found = compute(value, self.values)
        if isinstance(found, str):
            raise ExpressionError(f"'{value}' is the word '{found}', not a number")
        return found


def seed_of(*, learner: str, attempt: int, item: str) -> int:
    """The seed of a learner's attempt at an item: the same for the same three, 53 bits, so that JSON keeps it."""
    return _hash(f"{learner}\n{attempt}\n{item}") >> 11


def variant(item: Item, seed: int) -> Variant:
    """The variant of an item that a seed gives. Raises ExpressionError on an expression that cannot be computed."""
    values: dict[str, Drawn] = {name: _draw(how, f"{seed}\n{name}") for name, how in item.parameters.items()}
    for name, value in item.let.items():
        values[name] = compute(value, values)
    return Variant(item=item, seed=seed, values=values, order=_order(item, seed))


def compute(value: Value, values: Mapping[str, Drawn]) -> Drawn:
    """An expression's value, or what the named function of the planner returns."""
    if isinstance(value, Call):
        return _call(value, values)
    return evaluate(value, values)


def _call(call: Call, values: Mapping[str, Drawn]) -> Number:
    found = _result(call, values)
    for step in (call.take or "").split("."):
        if step:
            found = found[step] if isinstance(found, Mapping) else getattr(found, step)
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise ExpressionError(f"{call.function} gave {type(found).__name__}, not a number; 'take' picks a field of it")
    return found


def _result(call: Call, values: Mapping[str, Drawn]) -> Any:
    module, _, function = call.function.partition(":")
    if not module.startswith(ALLOWED):
        raise ExpressionError(f"{call.function} is outside {ALLOWED}")
    return getattr(importlib.import_module(module), function)(
        **{name: _argument(each, values) for name, each in call.arguments.items()}
    )


def _argument(argument: Argument, values: Mapping[str, Drawn]) -> Any:
    if isinstance(argument, bool):
        return argument
    if isinstance(argument, Word):
        return argument.word
    if isinstance(argument, Call):
        return _result(argument, values) if argument.take is None else _call(argument, values)
    found = evaluate(argument, values)
    return int(found) if isinstance(found, float) and found.is_integer() else found


def _draw(how: Mapping[str, Any], name: str) -> Drawn:
    choices = how.get("choose") or range(how["from"], how["to"] + 1, how.get("by", 1))
    drawn: Drawn = choices[_hash(name) % len(choices)]
    return drawn


def _order(item: Item, seed: int) -> tuple[str, ...]:
    keys: tuple[str, ...] = ()
    if item.form in ("choice", "several"):
        keys = tuple(option.key for option in item.options)
    elif item.form == "order":
        keys = tuple(step.key for step in item.steps)
    elif item.form == "match":
        keys = tuple(answer.key for answer in item.answers)
    if item.fixed:
        return keys
    shuffled = tuple(sorted(keys, key=lambda key: _hash(f"{seed}\n{item.id}\n{key}")))
    return shuffled[1:] + shuffled[:1] if item.form == "order" and shuffled == keys else shuffled


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
