"""The paper of one attempt: its questions and tasks as drawn, with all that marking them needs.

A paper is marked by what it holds and by nothing else: values, right numbers and slips were computed when it was drawn,
and the items stand under the hashes of their content. Whatever is edited afterwards, in a bank, a translation or the
planner, an old paper is marked as it was set.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quiz.exam.banks import Content, Held, digest_of, item_of
from quiz.exam.policy import TaskKind
from quiz.expressions import Value as Drawn
from quiz.items import Item
from quiz.variants import Variant, variant
from translations import CourseError


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One question of a paper. `variant` is frozen.

    Its item's key, slips and ranks are numbers, nothing is computed.
    """

    variant: Variant
    digest: str
    public: bool

    @property
    def item(self) -> Item:
        return self.variant.item


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task of the practical part: an exercise to write from its stub, or to repair from its broken version."""

    exercise: str
    kind: TaskKind
    seed: int

    def start(self, language: str) -> str:
        """The source from which the learner begins."""
        from labs.exercises import exercise

        return exercise(self.exercise, language).code("stub" if self.kind == "write" else "broken")


@dataclass(frozen=True, kw_only=True)
class Paper:
    """What one attempt is asked. `id` is the attempt's own id, handed in by whoever keeps it.

    `blueprint` and `bank` are hashes of what it was drawn from, for the evidence of a certificate. `contents` are the
    items by hash: keep them once for all papers, and a paper's `as_json` beside them.
    """

    id: str
    blueprint: str
    bank: str
    questions: tuple[Asked, ...]
    tasks: tuple[Task, ...]
    contents: Mapping[str, Content]

    @property
    def public(self) -> bool:
        """Whether any question is of the public bank: a certificate must then say so."""
        return any(each.public for each in self.questions)

    @property
    def items(self) -> frozenset[str]:
        """The ids asked, to be avoided in the same learner's next attempt."""
        return frozenset(each.item.id for each in self.questions)

    @property
    def digest(self) -> str:
        """The hash of the whole paper, items included by theirs."""
        text = json.dumps(self.as_json(), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()

    def as_json(self) -> dict[str, Any]:
        """The paper without the items' contents. It holds right numbers: it is for the server alone."""
        return {
            "version": 1,
            "id": self.id,
            "blueprint": self.blueprint,
            "bank": self.bank,
            "questions": [_question(each) for each in self.questions],
            "tasks": [dataclasses.asdict(each) for each in self.tasks],
        }

    @classmethod
    def of(cls, data: Mapping[str, Any], contents: Mapping[str, Content]) -> Paper:
        """The paper of its JSON and the contents of its items.

        Raises CourseError where a content is missing or changed.
        """
        if data["version"] != 1:
            raise CourseError("quiz.exam-paper-newer", found=data["version"])
        wanted = {each["digest"] for each in data["questions"]}
        for digest in sorted(wanted):
            if digest not in contents or digest_of(contents[digest]) != digest:
                raise CourseError("quiz.exam-content-changed", digest=digest)
        return cls(
            id=data["id"],
            blueprint=data["blueprint"],
            bank=data["bank"],
            questions=tuple(_asked(each, contents[each["digest"]]) for each in data["questions"]),
            tasks=tuple(Task(**each) for each in data["tasks"]),
            contents={digest: contents[digest] for digest in wanted},
        )


def ask(held: Held, seed: int) -> Asked:
    """The question that an item is with this seed, frozen."""
    return Asked(variant=_frozen(variant(held.item, seed)), digest=held.digest, public=held.public)


def _frozen(made: Variant) -> Variant:
    item = made.item
    if item.key is not None:
        item = dataclasses.replace(
            item,
            key=made.number(item.key),
            slips=tuple(dataclasses.replace(each, value=made.number(each.value)) for each in item.slips),
            ranks=None if item.ranks is None else made.number(item.ranks),
        )
    return dataclasses.replace(made, item=dataclasses.replace(item, let={}, parameters={}, formula=None))


def _question(asked: Asked) -> dict[str, Any]:
    made = asked.variant
    found: dict[str, Any] = {
        "item": made.id,
        "version": made.version,
        "digest": asked.digest,
        "public": asked.public,
        "seed": made.seed,
        "values": dict(made.values),
        "order": list(made.order),
    }
    if made.item.key is not None:
        found |= {"key": made.item.key, "slips": {each.key: each.value for each in made.item.slips}}
        found |= {"ranks": made.item.ranks}
    return found


def _asked(data: Mapping[str, Any], content: Content) -> Asked:
    item = dataclasses.replace(item_of(content), let={}, parameters={}, formula=None)
    if item.key is not None:
        slips = tuple(dataclasses.replace(each, value=data["slips"][each.key]) for each in item.slips)
        item = dataclasses.replace(item, key=data["key"], slips=slips, ranks=data["ranks"])
    values: dict[str, Drawn] = dict(data["values"])
    made = Variant(item=item, seed=data["seed"], values=values, order=tuple(data["order"]))
    return Asked(variant=made, digest=data["digest"], public=data["public"])
