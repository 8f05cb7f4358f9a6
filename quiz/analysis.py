"""How questions did: difficulty, discrimination, wrong answers, and gaps between languages, from answers alone.

Of each learner and question (id and version: an edited one begins anew) the first answer counts. Then

- *difficulty* is the mean credit, 0 to 1; the name is custom's, a high one means easy;
- *discrimination* is the point-biserial correlation of right or wrong with the mean credit of the learner's other
  questions, this one left out (corrected): learners may have been asked different ones;
- a *wrong answer's* share is of all learners, and its own correlation with the rest tells whether the strong choose it;
- the *gap between languages* is the difference in difficulty between two languages, as it is and as it stays once
  learners who did alike on the rest are compared (standardised over strata of the rest, weighted by the smaller group).

The rule of 30: what rests on fewer than `LEAST` learners is withheld, for it says nothing about a question and may say
something about a person. A withheld value is None.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from quiz.items import Item

LEAST = 30
STRATA = 8
"""Strata of the rest's score in which languages are compared."""
EASY, HARD, FLAT, RARE, GAP = 0.95, 0.2, 0.1, 0.02, 0.1
"""What is worth an author's look: easier, harder, less discriminating, chosen less, a larger gap."""


@dataclass(frozen=True, kw_only=True)
class Response:
    """One answer of one learner. `given` is the answer in the item's keys; `order` tells which came first."""

    learner: str
    item: str
    version: int
    language: str
    form: str
    correct: bool
    credit: float
    given: Any = None
    misconception: str | None = None
    order: str | float = ""


@dataclass(frozen=True, kw_only=True)
class Wrong:
    """A wrong answer: an option's or line's key, a row with what it was given, a misconception, or `other`."""

    key: str
    share: float
    discrimination: float | None


@dataclass(frozen=True, kw_only=True)
class InLanguage:
    """A question in one language; `difficulty` None where it is withheld."""

    language: str
    learners: int | None
    difficulty: float | None


@dataclass(frozen=True, kw_only=True)
class Gap:
    """The difference in difficulty between two languages (first minus second), plain and for learners who did alike.

    `surprising`: among those who did alike it is larger than chance would often make it (three standard errors, for
    many questions are looked at) and than `GAP`. A group that is stronger in everything makes no question surprising.
    """

    first: str
    second: str
    difference: float
    alike: float | None
    surprising: bool


@dataclass(frozen=True, kw_only=True)
class Analysed:
    """A question's figures. All but `learners` are None or empty where fewer than `LEAST` learners answered it."""

    item: str
    version: int
    form: str
    learners: int | None
    difficulty: float | None
    right: float | None
    discrimination: float | None
    wrong: tuple[Wrong, ...]
    languages: tuple[InLanguage, ...]
    gaps: tuple[Gap, ...]
    remarks: tuple[str, ...]

    @property
    def withheld(self) -> bool:
        return self.difficulty is None


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """All questions, in the order of their ids and versions."""

    items: tuple[Analysed, ...]
    answers: int
    learners: int | None

    @property
    def shown(self) -> tuple[Analysed, ...]:
        return tuple(each for each in self.items if not each.withheld)

    def measured(self) -> dict[str, float]:
        """The measured share of credit by `id@version`: what `quiz.exam` takes in place of its estimates."""
        return {f"{each.item}@{each.version}": each.difficulty for each in self.items if each.difficulty is not None}

    def as_json(self) -> dict[str, Any]:
        return {"version": 1, "least": LEAST, **asdict(self)}

    def rows(self) -> list[dict[str, Any]]:
        """A flat row for each question, for a table or a CSV file."""
        return [
            {
                "item": each.item,
                "version": each.version,
                "form": each.form,
                "learners": each.learners,
                "difficulty": _short(each.difficulty),
                "right": _short(each.right),
                "discrimination": _short(each.discrimination),
                "wrong": "; ".join(f"{one.key} {one.share:.2f}" for one in each.wrong),
                "languages": "; ".join(
                    f"{one.language} {one.difficulty:.2f}" for one in each.languages if one.difficulty is not None
                ),
                "gap": max((_short(abs(one.difference)) or 0.0 for one in each.gaps), default=None),
                "remarks": " ".join(each.remarks),
            }
            for each in self.items
        ]


@dataclass(frozen=True, kw_only=True)
class Known:
    """What a question offers, as its bank has it: the answers that are right, and those that are wrong."""

    right: frozenset[str]
    wrong: frozenset[str]


def known(items: Iterable[Item]) -> dict[tuple[str, int], Known]:
    """What questions offer, by id and version, for the forms in which something is chosen."""
    found = {}
    for item in items:
        right = {option.key for option in item.options if option.correct}
        wrong = {option.key for option in item.options if not option.correct}
        for pair in item.pairs:
            right.add(f"{pair.key}={pair.match}")
            wrong |= {f"{pair.key}={answer.key}" for answer in item.answers if answer.key != pair.match}
        if right:
            found[item.id, item.version] = Known(right=frozenset(right), wrong=frozenset(wrong))
    return found


def analyse(responses: Iterable[Response], *, known: Mapping[tuple[str, int], Known] | None = None) -> Analysis:
    """The analysis of all responses. Their order, and the learners' names, change nothing.

    `known` says what a question offers, so that a wrong answer that nobody chose is seen too.
    """
    offered = known or {}
    first: dict[tuple[str, str, int], Response] = {}
    for each in sorted(responses, key=lambda one: (str(type(one.order)), one.order, one.learner, one.item)):
        first.setdefault((each.learner, each.item, each.version), each)
    kept = sorted(first.values(), key=lambda one: (one.learner, one.item, one.version))
    by_learner: dict[str, list[Response]] = defaultdict(list)
    by_item: dict[tuple[str, int], list[Response]] = defaultdict(list)
    for each in kept:
        by_learner[each.learner].append(each)
        by_item[each.item, each.version].append(each)
    sums = {learner: (math.fsum(r.credit for r in of), len(of)) for learner, of in by_learner.items()}

    def rest(response: Response) -> float | None:
        total, count = sums[response.learner]
        return (total - response.credit) / (count - 1) if count > 1 else None

    analysed = (_item(of, [rest(each) for each in of], offered.get(key)) for key, of in sorted(by_item.items()))
    learners = len(by_learner)
    return Analysis(items=tuple(analysed), answers=len(kept), learners=learners if learners >= LEAST else None)


def correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Pearson's; with one of them 0 and 1 it is the point-biserial.

    None where one does not vary, or there are too few.
    """
    if len(first) < LEAST:
        return None
    a, b = fmean(first), fmean(second)
    over = math.fsum((x - a) * (y - b) for x, y in zip(first, second, strict=True))
    under = math.sqrt(math.fsum((x - a) ** 2 for x in first) * math.fsum((y - b) ** 2 for y in second))
    return max(-1.0, min(1.0, over / under)) if under > 1e-12 else None


def _item(of: Sequence[Response], rests: Sequence[float | None], offered: Known | None) -> Analysed:
    one, enough = of[0], len(of) >= LEAST
    known = [(response, rest) for response, rest in zip(of, rests, strict=True) if rest is not None]
    discrimination = correlation([float(r.correct) for r, _ in known], [rest for _, rest in known])
    languages = _languages(of)
    found = Analysed(
        item=one.item,
        version=one.version,
        form=one.form,
        learners=len(of) if enough else None,
        difficulty=fmean(each.credit for each in of) if enough else None,
        right=fmean(each.correct for each in of) if enough else None,
        discrimination=discrimination if enough else None,
        wrong=_wrong(of, known, offered) if enough else (),
        languages=languages if enough else (),
        gaps=_gaps(of, rests) if enough else (),
        remarks=(),
    )
    return Analysed(**{**_fields(found), "remarks": tuple(_remarks(found))})


def _fields(of: Analysed) -> dict[str, Any]:
    return {name: getattr(of, name) for name in of.__dataclass_fields__}


def answers_of(response: Response) -> frozenset[str]:
    """What a response is counted under.

    The options chosen, the wrong rows, or what a wrong number or order stands for.
    """
    given = response.given
    match response.form:
        case "choice" | "fault":
            return frozenset({str(given)})
        case "several" if isinstance(given, list | tuple):
            return frozenset(map(str, given))
        case "match" if isinstance(given, Mapping):
            return frozenset(f"{row}={fit}" for row, fit in given.items())
    return frozenset() if response.correct else frozenset({response.misconception or "other"})


def _wrong(of: Sequence[Response], known: Sequence[tuple[Response, float]], offered: Known | None) -> tuple[Wrong, ...]:
    """The wrong answers, the most chosen first: those offered, else those that are no part of a right response."""
    chosen = frozenset[str]().union(*(answers_of(each) for each in of))
    right = frozenset[str]().union(*(answers_of(each) for each in of if each.correct))
    wrong = offered.wrong if offered is not None else chosen - right
    if offered is not None and of[0].form == "match":
        wrong &= chosen  # rows times answers are many; those that nobody gave say nothing
    found = [
        Wrong(
            key=key,
            share=fmean(key in answers_of(each) for each in of),
            discrimination=correlation(
                [float(key in answers_of(each)) for each, _ in known], [rest for _, rest in known]
            ),
        )
        for key in sorted(wrong)
    ]
    return tuple(sorted(found, key=lambda each: (-each.share, each.key)))


def _languages(of: Sequence[Response]) -> tuple[InLanguage, ...]:
    by: dict[str, list[float]] = defaultdict(list)
    for each in of:
        by[each.language].append(each.credit)
    return tuple(
        InLanguage(
            language=code,
            learners=len(credits) if len(credits) >= LEAST else None,
            difficulty=fmean(credits) if len(credits) >= LEAST else None,
        )
        for code, credits in sorted(by.items())
    )


def _gaps(of: Sequence[Response], rests: Sequence[float | None]) -> tuple[Gap, ...]:
    by: dict[str, list[tuple[float, float | None]]] = defaultdict(list)
    for response, rest in zip(of, rests, strict=True):
        by[response.language].append((response.credit, rest))
    codes = sorted(code for code, held in by.items() if len(held) >= LEAST)
    return tuple(
        _gap(first, second, by[first], by[second]) for n, first in enumerate(codes) for second in codes[n + 1 :]
    )


Held = Sequence[tuple[float, float | None]]


def _gap(first: str, second: str, a: Held, b: Held) -> Gap:
    difference = fmean(credit for credit, _ in a) - fmean(credit for credit, _ in b)
    error = math.sqrt(_variance(a) / len(a) + _variance(b) / len(b))
    alike = _alike(a, b)
    return Gap(
        first=first,
        second=second,
        difference=difference,
        alike=alike,
        surprising=abs(difference if alike is None else alike) > max(GAP, 3 * error),
    )


def _variance(held: Held) -> float:
    mean = fmean(credit for credit, _ in held)
    return math.fsum((credit - mean) ** 2 for credit, _ in held) / max(1, len(held) - 1)


def _alike(a: Held, b: Held) -> float | None:
    """The difference within strata of the rest's score, weighted by the smaller group in each; None with no stratum."""
    edges = sorted(rest for _, rest in (*a, *b) if rest is not None)
    if not edges:
        return None
    cuts = [edges[len(edges) * n // STRATA] for n in range(1, STRATA)]

    def strata(held: Held) -> dict[int, list[float]]:
        found: dict[int, list[float]] = defaultdict(list)
        for credit, rest in held:
            if rest is not None:
                found[sum(rest >= cut for cut in cuts)].append(credit)
        return found

    first, second = strata(a), strata(b)
    shared = sorted(first.keys() & second.keys())
    weights = [min(len(first[each]), len(second[each])) for each in shared]
    if not sum(weights):
        return None
    differences = [fmean(first[each]) - fmean(second[each]) for each in shared]
    return math.fsum(w * d for w, d in zip(weights, differences, strict=True)) / sum(weights)


def _remarks(found: Analysed) -> Iterable[str]:
    """The ids (`quiz.remark-<id>`) of what its author should look at."""
    if found.difficulty is None:
        return
    if found.difficulty > EASY:
        yield "easy"
    if found.difficulty < HARD:
        yield "hard"
    if found.discrimination is not None and found.discrimination < 0:
        yield "negative"
    elif found.discrimination is not None and found.discrimination < FLAT:
        yield "flat"
    if any(each.discrimination is not None and each.discrimination > FLAT for each in found.wrong):
        yield "attractive"
    if found.form in ("choice", "fault", "several") and any(each.share < RARE for each in found.wrong):
        yield "unused"
    if any(each.surprising for each in found.gaps):
        yield "gap"


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
