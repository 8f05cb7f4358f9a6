"""The form of the bank, checked by machine: what gives a key away, what is unexplained, what does not compute.

Every finding is a sentence to the author, with the file and the line of the item.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from quiz import curriculum, grading
from quiz.expressions import ExpressionError, evaluate, names_in
from quiz.items import (
    FOLDER,
    Argument,
    Call,
    Form,
    Item,
    Option,
    Pair,
    Step,
    Value,
    Word,
    misconceptions,
    objectives,
    read,
)
from quiz.items import units as bank_units
from quiz.policy import policy
from quiz.rendering import PLACEHOLDER, formulas, plain
from quiz.session import question
from quiz.variants import Variant, variant
from translations import CourseError, Language, released
from translations.whole import languages_with

APPLIED = ("compute", "predict", "diagnose")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What is wrong, said to the author. `line` is 0 where it is about a file as a whole."""

    file: str
    line: int
    item: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.item + ': ' if self.item else ''}{self.text}"


def check(paths: Iterable[Path] | None = None, *, of: Iterable[Language] | None = None) -> tuple[Finding, ...]:
    """Everything wrong with the bank (or the files given), in the languages given (else each file in those that have it
    whole).
    """
    asked = tuple(of) if of is not None else None
    files = tuple(paths) if paths is not None else tuple(FOLDER / "bank" / f"{unit}.yaml" for unit in bank_units())
    findings: list[Finding] = []
    banks: dict[Path, tuple[Item, ...]] = {}
    for path in files:
        try:
            banks[path] = read(path)
        except ValueError as error:
            where = re.match(r"[^:]+:(\d+): ", str(error))
            said = str(error)[where.end() :] if where else str(error)
            findings.append(Finding(file=path.name, line=int(where[1]) if where else 0, item="", text=said))
    seen: dict[str, Path] = {}
    for path, bank in banks.items():
        chosen = (languages_with({f"bank-{path.stem}"}) if _ours(path) else released()) if asked is None else asked
        sound: list[Item] = []
        for item in bank:
            if item.id in seen:
                findings.append(_finding(path, item, f"the id is taken already, in {seen[item.id].name}"))
            seen[item.id] = path
            faults = [_finding(path, item, text) for text in item_faults(item, chosen)]
            findings += faults
            sound += [] if faults else [item]
        findings += (Finding(file=path.name, line=0, item="", text=text) for text in bank_faults(sound, chosen))
        findings += (Finding(file=path.name, line=0, item="", text=text) for text in size_faults(bank))
        if bank and bank[0].unit != path.stem:
            findings.append(
                Finding(file=path.name, line=1, item="", text=f"the file is of unit {bank[0].unit}; name it so")
            )
    if paths is None and len(banks) == len(files):  # of the whole nothing can be told before every bank can be read
        everything = tuple(item for bank in banks.values() for item in bank)
        findings += (Finding(file="objectives.yaml", line=0, item="", text=t) for t in list_faults(everything))
        findings += (Finding(file=curriculum.FILE.name, line=0, item="", text=t) for t in curriculum.faults())
    return tuple(findings)


def _ours(path: Path) -> bool:
    return path.resolve().parent == FOLDER / "bank"


def item_faults(item: Item, of: Sequence[Language]) -> Iterator[str]:
    """What is wrong with one item by itself."""
    known = {objective.id: objective for objective in objectives()}
    if item.objective not in known:
        yield f"objective '{item.objective}' is not in objectives.yaml"
    elif known[item.objective].unit != item.unit:
        yield f"objective '{item.objective}' belongs to unit {known[item.objective].unit}"
    for named in curriculum.misconceptions_of(item):
        if named not in misconceptions():
            yield f"misconception '{named}' is not in misconceptions.yaml, which is the closed list"
    broken = [*_key_faults(item), *_unit_faults(item)]
    yield from broken
    if broken:
        return
    made: list[Variant] = []
    try:
        made = [variant(item, seed) for seed in range(policy().checked_variants if item.parameters else 3)]
    except (ExpressionError, ImportError, AttributeError, TypeError, KeyError, CourseError) as error:
        yield f"a variant cannot be made: {error}"
    if not made:
        return
    yield from _placeholder_faults(item, made[0], of)
    yield from _formula_faults(item, of)
    if item.form in ("number", "bytes"):
        yield from _number_faults(item, made, of)
    answers = [grading.grade(each, grading.right_answer(each), "en") for each in made[:3]]
    if not all(graded.correct and graded.credit == 1 for graded in answers):
        yield "the right answer is not graded as right"
    for language in of:
        try:
            yield from _equal_faults(made, language)
        except KeyError as error:
            yield f"in {language.code}: {error} is not a parameter of this item"


def bank_faults(bank: Sequence[Item], of: Sequence[Language]) -> Iterator[str]:
    """What is wrong with a bank as a whole: the mix of kinds, and what its form gives away."""
    kinds = Counter(item.kind for item in bank)
    if kinds["recall"] > policy().recall_at_most * len(bank):
        yield f"{kinds['recall']} of {len(bank)} items ask for recall; at most {policy().recall_at_most:.0%} may"
    applied = sum(count for kind, count in kinds.items() if kind in APPLIED)
    if applied < policy().applied_at_least * len(bank):
        yield f"{applied} of {len(bank)} items compute, predict or diagnose; {policy().applied_at_least:.0%} must"
    choices = [item for item in bank if item.form == "choice"]
    for language in of:
        longest = [item for item in choices if key_is_longest(item, language)]
        allowed = math.ceil(sum(1 / len(item.options) for item in choices))
        if len(longest) > allowed:
            names = ", ".join(item.id for item in longest)
            yield (
                f"in {language.code} the key is the longest option in {len(longest)} of {len(choices)} choices, "
                f"more often than chance ({allowed}): {names}. Shorten the keys or say more in a wrong option"
            )
    yield from _position_faults(choices)


def size_faults(bank: Sequence[Item]) -> Iterator[str]:
    """What a bank whose lesson is there must have: enough items, most of them computed or drawn anew, in every form."""
    if bank and bank[0].unit in policy().begun:
        return
    if len(bank) < policy().items_at_least:
        yield f"the bank has {len(bank)} items; a unit has {policy().items_at_least} or more"
    anew = [item for item in bank if item.parameters or item.form in ("number", "bytes")]
    if len(anew) < policy().anew_at_least * len(bank):
        yield (
            f"{len(anew)} of {len(bank)} items have seeded variants or a computed key; "
            f"{policy().anew_at_least:.0%} must"
        )
    if missing := [form for form in get_args(Form) if form not in {item.form for item in bank}]:
        yield f"no item has the form {', '.join(missing)}; a learner meets every form in every unit"


def list_faults(items: Sequence[Item]) -> Iterator[str]:
    """What is wrong with the lists of objectives against all items."""
    counted = Counter(item.objective for item in items)
    with_bank = {item.unit for item in items}
    for objective in objectives():
        if objective.unit in with_bank and not counted[objective.id]:
            yield f"objective '{objective.id}' has no item"
        elif objective.unit in with_bank and counted[objective.id] < policy().per_objective:
            few, asked = counted[objective.id], policy().per_objective
            yield f"objective '{objective.id}' has {few} items; a quiz asks {asked} of each"


def key_is_longest(item: Item, language: Language) -> bool:
    """Whether the right option, as a learner sees it, is longer than every other."""
    asked = question(variant(item, 0), language)
    right = {option.key for option in item.options if option.correct}
    lengths = {shown.key: len(plain(shown.text, "en")) for shown in asked.offered}
    return min(lengths[key] for key in right) > max(n for key, n in lengths.items() if key not in right)


def _position_faults(choices: Sequence[Item]) -> Iterator[str]:
    """As written and as shown: no place may hold more keys than chance would put there once in a hundred banks."""
    written: dict[int, list[Item]] = defaultdict(list)
    shown: Counter[int] = Counter()
    seeds = range(40)
    for item in choices:
        right = next(option.key for option in item.options if option.correct)
        written[[option.key for option in item.options].index(right)].append(item)
        shown.update(variant(item, seed).order.index(right) for seed in seeds)
    for place in range(4):
        chance = [1 / len(item.options) for item in choices if len(item.options) > place]
        for label, count, times in (("written", len(written[place]), 1), ("shown", shown[place], len(seeds))):
            mean = sum(chance) * times
            spread = math.sqrt(sum(p * (1 - p) for p in chance) * times)
            if count > max(math.ceil(mean), mean + 2.33 * spread):
                yield (
                    f"as {label}, the key stands in place {place + 1} {count} times where chance gives {mean:.1f}; "
                    "move some keys, or leave out 'fixed'"
                )


def _key_faults(item: Item) -> Iterator[str]:
    right = [option for option in item.options if option.correct]
    if item.form in ("choice", "fault") and len(right) != 1:
        yield f"{len(right)} options are marked correct; a {item.form} has exactly one"
    if item.form == "several" and not 1 < len(right) < len(item.options):
        yield "'several' needs at least two right options and one wrong"
    parts: tuple[Option | Step | Pair, ...] = (*item.options, *item.steps, *item.pairs)
    keys = [each.key for each in parts]
    for repeated in {key for key in keys if keys.count(key) > 1}:
        yield f"the key '{repeated}' occurs twice"
    for option in item.options:
        if option.misconception and option.correct and item.form != "several":
            yield f"option '{option.key}' is right and names a misconception"
        if not option.misconception and not option.correct:
            yield f"option '{option.key}' is wrong and names no misconception; every wrong option stands for one"
        if item.form == "fault" and not 1 <= option.line <= len(item.code.splitlines()):
            yield f"option '{option.key}' names line {option.line}; the code has {len(item.code.splitlines())}"
    order = [step.key for step in item.steps]
    for inversion in item.inversions:
        if {inversion.first, inversion.then} - set(order):
            yield f"inversion '{inversion.key}' names a step that there is not"
        elif order.index(inversion.first) < order.index(inversion.then):
            yield f"inversion '{inversion.key}' is the right order; name the steps as a wrong answer puts them"
    answers = {answer.key for answer in item.answers}
    for pair in item.pairs:
        if pair.match not in answers:
            yield f"pair '{pair.key}' is matched with '{pair.match}', which is not among the answers"


def _unit_faults(item: Item) -> Iterator[str]:
    if item.form in ("number", "bytes"):
        try:
            grading.answer_unit(item)
        except ValueError as error:
            yield str(error)


def _number_faults(item: Item, made: Sequence[Variant], of: Sequence[Language]) -> Iterator[str]:
    """The key against the author's formula, and slips that would collide with it, over the seeded variants."""
    if not (isinstance(item.key, Call) or _reads(item.key)):
        yield "the key is a bare number; let a function of the planner or an expression over the parameters compute it"
    if _computed(item) and item.formula is None:
        yield "the key comes from code; give the 'formula' you expect, so that the two are compared"
    for each in made:
        try:
            key = grading.key_of(each)
            if not math.isfinite(key) or key <= 0:
                yield f"the key is {key} with seed {each.seed}; it must be positive"
                return
            if item.formula is not None:
                formula = evaluate(item.formula, each.values)
                if isinstance(formula, str) or abs(formula - key) > 1e-6 * abs(key):
                    yield f"the formula gives {formula} and the code {key} with {dict(each.values)}"
                    return
            clashing = [slip.key for slip in item.slips if _clash(each, slip.value, key)]
            if len(clashing) == len(item.slips) and clashing:
                yield f"every slip equals the key with {dict(each.values)}"
                return
        except ExpressionError as error:
            yield str(error)
            return
    for slip in item.slips:
        if all(_clash(each, slip.value, grading.key_of(each)) for each in made):
            yield f"slip '{slip.key}' is the right answer in every variant"
    for language in of:
        for each in made[:6]:
            shown = grading.quantity(grading.key_of(each), item, language)
            try:
                accepted = grading.grade(each, shown, language).correct
            except CourseError:
                accepted = False
            if not accepted:
                yield f"in {language.code} the key written as '{shown}' is not accepted with {dict(each.values)}"
                return


def _names_of(item: Item) -> set[str]:
    """The parameters that the item's expressions and calls read."""
    waiting: list[Argument] = [*item.let.values(), *(slip.value for slip in item.slips)]
    waiting += [each for each in (item.key, item.formula, item.ranks) if each is not None]
    found: set[str] = set()
    while waiting:
        value = waiting.pop()
        if isinstance(value, Call):
            waiting += value.arguments.values()
        elif not isinstance(value, bool | Word):
            found |= names_in(value)
    return found


def _computed(item: Item) -> bool:
    """Whether a function of the planner takes part in the item's numbers."""
    return any(isinstance(value, Call) for value in (*item.let.values(), item.key))


def _clash(made: Variant, value: Value, key: float) -> bool:
    return abs(made.number(value) - key) <= made.item.tolerance * abs(key)


def _reads(value: Value | None) -> bool:
    return isinstance(value, str) and bool(names_in(value))


def _placeholder_faults(item: Item, made: Variant, of: Sequence[Language]) -> Iterator[str]:
    """Names that have no value, in English and in the translations, and values that nothing reads."""
    read_names = set(PLACEHOLDER.findall(item.code)) | _names_of(item)
    for context, english in texts(item):
        used = Counter(PLACEHOLDER.findall(english))
        for name in used:
            if name not in made.values:
                yield f"{context} names {{{name}}}, which is not a parameter of this item"
        for language in of:
            said = item.say(context, english, language)
            if said != english and set(PLACEHOLDER.findall(said)) != set(used):
                yield f"in {language.code}, {context} has other placeholders than the English"
    for _, english in texts(item):
        read_names |= set(PLACEHOLDER.findall(english))
    for name in made.values:
        if name not in read_names:
            yield f"'{name}' is drawn or computed, but nothing reads it"
    for name in item.show:
        if name not in made.values:
            yield f"'show' names {name}, which is not a parameter of this item"


def _formula_faults(item: Item, of: Sequence[Language]) -> Iterator[str]:
    """Commands of TeX in a formula: a question would show them as they are written."""
    for context, english in texts(item):
        for language in of:
            for formula in formulas(item.say(context, english, language)):
                if "\\" in formula:
                    yield f"in {language.code}, {context} has a command of TeX in ${formula}$: write the sign itself"


def _equal_faults(made: Sequence[Variant], language: Language) -> Iterator[str]:
    for each in made:
        asked = question(each, language)
        for offered in (asked.offered, asked.answers):
            texts_of = [" ".join(plain(shown.text, "en").split()).casefold() for shown in offered]
            if len(set(texts_of)) < len(texts_of):
                repeated = next(text for text in texts_of if texts_of.count(text) > 1)
                yield f"in {language.code} two options read '{repeated}' with {dict(each.values)}"
                return


def texts(item: Item) -> Iterator[tuple[str, str]]:
    """Every text of an item with the context under which a catalog holds it."""
    yield "text", item.text
    yield "feedback", item.feedback
    options = "lines" if item.form == "fault" else "options"
    for option in item.options:
        if option.text:
            yield f"{options}.{option.key}.text", option.text
        yield f"{options}.{option.key}.feedback", option.feedback
    for name, parts in (("slips", item.slips), ("inversions", item.inversions)):
        for part in parts:
            yield f"{name}.{part.key}.feedback", part.feedback
    for pair in item.pairs:
        yield f"pairs.{pair.key}.text", pair.text
        yield f"pairs.{pair.key}.feedback", pair.feedback
    for name, steps in (("steps", item.steps), ("answers", item.answers)):
        for step in steps:
            yield f"{name}.{step.key}.text", step.text


def _finding(path: Path, item: Item, text: str) -> Finding:
    return Finding(file=f"quiz/bank/{path.name}", line=item.line, item=item.id, text=text)
