"""What the author of a private bank does.

Begin one, bring questions in, and see whether an exam can be drawn from it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from translations import CourseError, Translator

if TYPE_CHECKING:
    from quiz import Item
    from quiz.exchange import Imported, Loss


def items_of(bank: str) -> tuple[Item, ...]:
    """The items of a unit of the course, or of a bank's file."""
    from quiz import items
    from quiz.exam import banks
    from shardwise.units import unit

    if bank.endswith((".yaml", ".yml")):
        held = banks([Path(bank).parent]).held.values()
        own = tuple(each.item for each in held if each.item.unit == Path(bank).stem)
        if not own:
            raise CourseError("quiz.exam-no-bank", path=bank)
        return own
    return items(unit(bank).id)


def brought_in(file: Path, *, format: str, unit: str, objective: str | None) -> tuple[Imported, tuple[Loss, ...]]:
    """The questions of another system's file as items of a unit. Raises CourseError for what can't be read so."""
    from quiz import objectives
    from quiz.exchange import format_named, imported, losses_in
    from quiz.exchange.model import LARGEST
    from shardwise.units import unit as find

    chosen, where = format_named(format), find(unit).id
    taught = [each.id for each in objectives(where)]
    if not taught or (objective is not None and objective not in taught):
        raise CourseError("quiz.exam-objective", id=file.name, objective=objective or "–", unit=where)
    try:
        with file.open("rb") as opened:
            data = opened.read(LARGEST + 1)
    except OSError as error:
        raise CourseError("quiz.exam-no-file", path=str(file)) from error
    questions, lost = chosen.read(data)
    made = imported(questions, unit=where, objective=objective)
    return made, losses_in([*lost, *made.losses])


def keep(path: Path, data: bytes) -> None:
    """A file, whole or not at all, and never over another."""
    try:
        scratch = path.with_name(f".{path.name}.{os.getpid()}")
        scratch.write_bytes(data)
        try:
            os.link(scratch, path)
        finally:
            scratch.unlink()
    except FileExistsError as error:
        raise CourseError("shardwise.quiz-file-exists", path=str(path)) from error


def tell(losses: Sequence[Loss], text: Translator) -> None:
    """What was lost, by what it is, with the questions that lost it."""
    if not losses:
        return
    print(text("shardwise.quiz-left-out"))
    by_what: dict[str, list[str]] = {}
    for each in losses:
        by_what.setdefault(each.what, []).append(each.id)
    for what, ids in sorted(by_what.items()):
        print(f"  {text(f'quiz.loss-{what}')} ({', '.join(ids)})")


def template(folder: Path, *, unit: str) -> Path:
    """Begins a private bank: one question of each form, with every text to be written."""
    from quiz import objectives
    from quiz.exchange.bank import Imported, template_items
    from shardwise.units import unit as find

    where = find(unit).id
    taught = objectives(where)
    if not taught:
        raise CourseError("quiz.exam-objective", id="–", objective="–", unit=where)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{where}.yaml"
    keep(path, Imported(unit=where, items=template_items(taught[0].id), losses=()).text().encode())
    return path


def added(folder: Path, made: Imported) -> tuple[Path, int]:
    """Puts items into a private bank's file, under ids that are free there; the file and the count."""
    import yaml

    from quiz.items import validated

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{made.unit}.yaml"
    held: list[dict[str, Any]] = []
    if path.exists():
        try:
            held = validated(path, "bank.schema.json")["items"]
        except (ValueError, yaml.YAMLError) as error:
            raise CourseError("quiz.exam-file-wrong", reason=str(error)[:500]) from error
    taken = {each["id"] for each in held}
    fresh = []
    for item in made.items:
        number, id = 1, item["id"]
        while id in taken:
            number += 1
            id = f"{item['id']}-{number}"
        taken.add(id)
        fresh.append({**item, "id": id})
    whole = type(made)(unit=made.unit, items=(*held, *fresh), losses=())
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    scratch.write_text(whole.text(), encoding="utf-8")
    scratch.replace(path)
    return path, len(fresh)


@dataclass(frozen=True, kw_only=True)
class Checked:
    """Whether an exam can be drawn: how many items there are, and where the blueprint asks for more."""

    title: str
    items: int
    asked: int
    public: bool
    short: tuple[str, ...]
    waiting: tuple[str, ...]

    @property
    def ready(self) -> bool:
        return not self.short

    def as_json(self) -> dict[str, Any]:
        return {
            "ready": self.ready,
            "items": self.items,
            "asked": self.asked,
            "public": self.public,
            "short": list(self.short),
            "waiting": list(self.waiting),
        }

    def lines(self, text: Translator) -> Iterator[str]:
        if self.ready:
            yield text("shardwise.exam-check-good", items=self.items, title=self.title, asked=self.asked)
        yield from (text("shardwise.exam-check-short", line=line) for line in self.short)
        if self.waiting:
            yield text("shardwise.exam-check-waits", units=", ".join(self.waiting))
        if self.public:
            yield text("shardwise.exam-check-public")


def checked(folders: Sequence[Path], *, policy: Path | None) -> Checked:
    """Reads banks and blueprint of a policy (and folders beside it), and draws a paper to see that it can be done."""
    from quiz.exam import banks, blueprint, draw, exam_policy, shortages

    rules = exam_policy(policy)
    plan = blueprint(rules.blueprint)
    held = banks([*rules.banks, *folders], public_bank=rules.public_bank)
    short = list(shortages(plan, held, rules.measured))
    if not short:
        try:
            draw(plan, held, secret=os.urandom(32), attempt="check", practical=rules.practical, measured=rules.measured)
        except CourseError as error:
            short.append(str(error))
    return Checked(
        title=plan.called("en"),
        items=sum(any(line.takes(each) for line in plan.lines) for each in held.held.values()),
        asked=plan.items,
        public=any(each.public for each in held.held.values()),
        short=tuple(short),
        waiting=plan.waiting,
    )
