"""What a class knows and where it stumbles: one page and its numbers, by assignment, objective and misconception.

Nobody is named. What the numbers rest on: the points of the gradebook, what grading found of each hand-in, and the
quizzes of the learners' records where there are some.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

from shardwise.classroom.imports import Attempt
from shardwise.classroom.result import Result
from shardwise.classroom.sheet import Sheet
from translations import Language, formats, translator

TENTHS = 10


@dataclass(frozen=True, kw_only=True)
class Share:
    """A mean share (0 to 1) over so many students."""

    id: str
    share: float
    students: int


@dataclass(frozen=True, kw_only=True)
class Met:
    """A misconception or a failed check: how many students met it, and how often in all."""

    id: str
    students: int
    times: int


@dataclass(frozen=True, kw_only=True)
class Report:
    """The numbers of a class. `marks` counts students by tenths of all points. `waiting`: grades that a person owes."""

    course: str
    students: int
    marks: tuple[int, ...]
    passed: int
    middle: float | None
    assignments: tuple[Share, ...]
    objectives: tuple[Share, ...]
    misconceptions: tuple[Met, ...]
    stumbles: tuple[Met, ...]
    waiting: int

    def as_json(self) -> dict[str, Any]:
        from dataclasses import asdict

        return {"version": 1, **asdict(self)}


def report(sheet: Sheet, results: Sequence[Result], quizzes: Mapping[str, Sequence[Attempt]]) -> Report:
    """The report of a class; `results` of graded hand-ins, `quizzes` by student."""
    totals = [share for each in sheet.students if (share := sheet.share(each.id)) is not None]
    counted = Counter(min(int(share * TENTHS), TENTHS - 1) for share in totals)
    ideas: dict[str, Counter[str]] = defaultdict(Counter)
    for student, tries in quizzes.items():
        for marked in (one for each in tries for one in each.answers if one.misconception):
            ideas[str(marked.misconception)][student] += 1
    failed: dict[str, Counter[str]] = defaultdict(Counter)
    for result in results:
        if result.verdict.failed_at and result.state == "graded":
            failed[f"{result.exercise}: {result.verdict.failed_at}"][result.student or ""] += 1
    return Report(
        course=sheet.course.title or sheet.course.id,
        students=len(sheet.students),
        marks=tuple(counted[tenth] for tenth in range(TENTHS)),
        passed=sum(100 * share >= sheet.course.marks.passed for share in totals),
        middle=median(totals) if totals else None,
        assignments=tuple(_column(sheet, each.id) for each in sheet.columns),
        objectives=tuple(_objectives(results, quizzes)),
        misconceptions=_met(ideas),
        stumbles=_met(failed),
        waiting=len(sheet.waiting()),
    )


def _column(sheet: Sheet, id: str) -> Share:
    """A column over those who handed something in."""
    found = [score.share for (_, column), score in sheet.scores.items() if column == id and score.handed_in is not None]
    return Share(id=id, share=mean(found) if found else 0.0, students=len(found))


def _objectives(results: Iterable[Result], quizzes: Mapping[str, Sequence[Attempt]]) -> Iterable[Share]:
    """Each objective in the order of the course: of every student the mean of what was asked about it."""
    from labs.exercises.content import written
    from quiz.items import objectives

    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        graded = [each for each in result.parts if each.name in ("code", "fault") and each.points is not None]
        for objective in written(result.exercise)["objectives"] if result.student else ():
            found[objective][result.student or ""] += [(each.points or 0.0) / each.of for each in graded if each.of]
    for student, tries in quizzes.items():
        for marked in (one for each in tries for one in each.answers):
            found[marked.objective][student].append(marked.credit)
    for objective in objectives():
        shares = [mean(each) for each in found.get(objective.id, {}).values() if each]
        if shares:
            yield Share(id=objective.id, share=mean(shares), students=len(shares))


def _met(found: Mapping[str, Counter[str]]) -> tuple[Met, ...]:
    """The most frequent first."""
    met = [Met(id=id, students=len(who), times=who.total()) for id, who in found.items()]
    return tuple(sorted(met, key=lambda each: (-each.students, -each.times, each.id)))


# --- the page


def page(found: Report, language: Language) -> str:
    """One HTML file that needs no network: pictures with their numbers folded up beneath them."""
    from html import escape

    from labs.telemetry.drawing import bars
    from quiz.items import misconceptions, objectives
    from quiz.rendering import html
    from shardwise import pages

    text = translator(language)
    asked = {each.id: each for each in objectives()}
    ideas = misconceptions()

    def counted(values: Sequence[Met]) -> list[str]:
        return [text("shardwise.report-students", count=each.students, times=each.times) for each in values]

    def shares(values: Sequence[Share]) -> list[str]:
        return [
            text("shardwise.report-share", share=formats.percent(each.share, language), count=each.students)
            for each in values
        ]

    parts = [f"<h1>{escape(text('shardwise.report-title', course=found.course))}</h1>"]
    summary = text(
        "shardwise.report-summary",
        students=found.students,
        passed=found.passed,
        middle="–" if found.middle is None else formats.percent(found.middle, language),
        waiting=found.waiting,
    )
    parts.append(html(summary))
    tenths = [formats.isolate(f"{10 * tenth}–{10 * tenth + 10}%") for tenth in range(TENTHS)]
    parts.append(
        bars(
            [(name, float(count)) for name, count in zip(tenths, found.marks, strict=True)],
            language=language,
            title=text("shardwise.report-marks"),
            labels=[str(count) for count in found.marks],
        ).html
    )
    if found.assignments:
        values = [(each.id, each.share) for each in found.assignments]
        title = text("shardwise.report-assignments")
        parts.append(bars(values, language=language, title=title, labels=shares(found.assignments)).html)
    if found.objectives:
        weakest = sorted(found.objectives, key=lambda each: each.share)
        title = text("shardwise.report-objectives")
        values = [(each.id, each.share) for each in weakest]
        parts.append(bars(values, language=language, title=title, labels=shares(weakest), category="gradients").html)
        said = [[each.id, asked[each.id].say(language)] for each in weakest]
        parts.append(pages.table(said, header=["", text("shardwise.report-objective")], language=language))
    for met, title in ((found.misconceptions, "misconceptions"), (found.stumbles, "stumbles")):
        if met:
            values = [(each.id, float(each.students)) for each in met[:15]]
            heading = text(f"shardwise.report-{title}")
            labels = counted(met[:15])
            parts.append(bars(values, language=language, title=heading, labels=labels, category="communication").html)
    if found.misconceptions:
        said = [[each.id, ideas[each.id].say(language)] for each in found.misconceptions[:15] if each.id in ideas]
        parts.append(pages.table(said, header=["", text("shardwise.report-truth")], language=language))
    body = pages.page("\n".join(parts), language)
    title = escape(text("shardwise.report-title", course=found.course))
    return (
        f'<!doctype html><html lang="{language.code}" dir="{language.direction}"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width"><title>{title}</title></head>'
        f'<body style="max-width:60rem;margin:2rem auto;padding:0 1rem">{body}</body></html>\n'
    )
