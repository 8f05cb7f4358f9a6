"""Taking an exam without a script: a question a page, a look over what is open, code for tasks, and the result."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request, UploadFile
from fastapi.responses import Response
from starlette.datastructures import FormData

from labs.exercises import exercise as exercise_of
from quiz.exam import ExamQuestion
from quiz.grading import Answer
from quiz.rendering import plain
from shardwise.service import accounts, attempts, issuing, reports
from shardwise.service.accounts import Person
from shardwise.service.attempts import Standing
from shardwise.service.core import Core
from shardwise.service.pages.rendering import moment, percent
from shardwise.service.pages.site import language_of, renderer_of, see
from shardwise.service.people import SignedInPerson, TheCore
from shardwise.service.store import Conflict, Forbidden, Missing
from translations import CourseError, Language, translator
from translations import language as find

router = APIRouter()
OVER = ("quiz.exam-time-over", "quiz.exam-handed-in", "shardwise.service-attempt-over")


# --- before it begins


@router.get("/exams/{sitting}")
def show(request: Request, core: TheCore, person: SignedInPerson, sitting: str) -> Response:
    return _start_page(request, core, person, sitting)


def _start_page(
    request: Request, core: Core, person: Person, sitting: str, *, problem: CourseError | None = None
) -> Response:
    pages, language = renderer_of(request), language_of(request, person)
    text = translator(language)
    found = next((each for each in attempts.sittings_of(core, person, language.code) if each.id == sitting), None)
    if found is None:
        raise Missing("shardwise.service-no-such-sitting")
    if found.attempt is not None:
        return see(pages.at(f"/attempts/{found.attempt}"))
    policy = core.exams.exam(found.exam).policy
    usual = policy.minutes
    window = {"opens": moment(found.opens, language), "closes": moment(found.closes, language)}
    return pages.page(
        request,
        "start.html",
        title=found.title,
        language=language,
        person=person,
        here="exams",
        status=200 if problem is None else 422,
        notice=None if problem is None else {"mood": "bad", "text": problem.in_language(text)},
        key=secrets.token_urlsafe(16),
        name=person.name,
        needs_name=not person.name,
        sitting={
            "id": found.id,
            "questions": found.questions,
            "tasks": found.tasks,
            "minutes": found.minutes,
            "extra": round((found.minutes / usual - 1) * 100),
            "pass_mark": found.pass_mark,
            "number": found.used + 1,
            "attempts": found.attempts,
            "window": text("shardwise.site-from-to", **window),
            "supervised": found.supervised,
            "public_bank": found.public_bank,
            "explanations": policy.explanations,
            "locked": found.needs_code,
        },
    )


@router.post("/exams/{sitting}/start")
def start(
    request: Request,
    core: TheCore,
    person: SignedInPerson,
    sitting: str,
    key: Annotated[str, Form(max_length=100)] = "",
    language: Annotated[str, Form(max_length=10)] = "",
    unlock: Annotated[str, Form(max_length=200)] = "",
    name: Annotated[str, Form(max_length=300)] = "",
) -> Response:
    try:
        if name and not person.name:
            accounts.change(core, person, name=name)
        begun = attempts.start(core, person, sitting, code=unlock, language=language, key=key or None)
    except Missing:
        raise
    except CourseError as error:
        return _start_page(request, core, person, sitting, problem=error)
    return see(renderer_of(request).at(f"/attempts/{begun.id}/questions/1"))


# --- while it runs


@dataclass(frozen=True, kw_only=True)
class Line:
    """What stands above every page of a running exam."""

    id: str
    total: int
    answered: int
    deadline: Any
    left: int


def _line(standing: Standing) -> Line:
    return Line(
        id=standing.id,
        total=standing.questions,
        answered=len(standing.answered),
        deadline=standing.deadline,
        left=max(0, int(standing.seconds_left)),
    )


def _exam_page(
    request: Request, person: Person, standing: Standing, template: str, *, title: str, status: int = 200, **values: Any
) -> Response:
    """A page of a running exam. When its time is over the browser goes to the result, by a header of the answer."""
    pages, language = renderer_of(request), language_of(request, person)
    line = _line(standing)
    return pages.page(
        request,
        template,
        title=title,
        language=language,
        person=person,
        status=status,
        headers={"refresh": f"{line.left + 1}; url={pages.at(f'/attempts/{standing.id}/result')}"},
        attempt=line,
        spoken=find(standing.language),
        clock=pages.at(f"/static/clock-{line.left}.css"),
        **values,
    )


@router.get("/attempts/{attempt}")
def go_on(request: Request, core: TheCore, person: SignedInPerson, attempt: str) -> Response:
    """To the first question that is open, or to the look over all."""
    standing = attempts.standing(core, person, attempt)
    at = renderer_of(request).at(f"/attempts/{attempt}")
    if standing.state != "open":
        return see(f"{at}/result")
    unanswered = _unanswered(standing)
    return see(f"{at}/questions/{unanswered[0]}" if unanswered else f"{at}/look")


def _unanswered(standing: Standing) -> list[int]:
    return [each for each in range(1, standing.questions + 1) if each not in standing.answered]


@router.get("/attempts/{attempt}/questions/{number}")
def question(request: Request, core: TheCore, person: SignedInPerson, attempt: str, number: int) -> Response:
    standing = attempts.standing(core, person, attempt)
    if standing.state != "open":
        return see(renderer_of(request).at(f"/attempts/{attempt}/result"))
    shown = attempts.question(core, person, attempt, number)
    return _question_page(request, person, standing, shown, given=shown.given)


def _question_page(
    request: Request,
    person: Person,
    standing: Standing,
    shown: ExamQuestion,
    *,
    given: Answer | None,
    problem: str = "",
) -> Response:
    text = translator(language_of(request, person))
    place = text("shardwise.site-question-of", number=shown.number, total=shown.of)
    return _exam_page(
        request,
        person,
        standing,
        "question.html",
        title=place,
        place=place,
        status=422 if problem else 200,
        problem=problem,
        question=shown,
        number_here=shown.number,
        given=given,
        chosen=[given] if isinstance(given, str) else list(given) if isinstance(given, Sequence) else [],
        ordered=_ordered(shown, given),
        listing=_listing(shown),
        is_given=shown.given is not None,
    )


def _ordered(shown: ExamQuestion, given: Answer | None) -> list[Any]:
    if shown.form != "order":
        return []
    places = {each.place: each for each in shown.offered}
    if isinstance(given, Sequence) and not isinstance(given, str) and set(given) == set(places):
        return [places[each] for each in given]
    return list(shown.offered)


def _listing(shown: ExamQuestion) -> list[dict[str, str]]:
    """Code line by line, with the place that an answer calls a line."""
    if shown.form != "fault":
        return []
    by_line = {each.line: each.place for each in shown.offered}
    lines = shown.code.rstrip("\n").split("\n")
    return [{"text": each, "place": by_line.get(number, "")} for number, each in enumerate(lines, 1)]


def given_in(form: FormData, shown: ExamQuestion) -> Answer | None:
    """What a form answers, in places; None where nothing was chosen or typed."""
    match shown.form:
        case "choice" | "fault":
            return _text(form, "answer") or None
        case "several":
            return [str(each) for each in form.getlist("answer")] or None
        case "order":
            return moved([str(each) for each in form.getlist("order")], _text(form, "move"))
        case "match":
            rows = {each.place: _text(form, f"match.{each.place}") for each in shown.offered}
            return {row: fit for row, fit in rows.items() if fit} or None
        case _:
            return _text(form, "answer").strip() or None


def _text(form: FormData, name: str) -> str:
    found = form.get(name)
    return found if isinstance(found, str) else ""


def moved(order: list[str], move: str) -> list[str]:
    """The order with one step a place up or down; at the ends it stays."""
    way, _, step = move.partition(" ")
    if step not in order or way not in ("up", "down"):
        return order
    at = order.index(step)
    to = min(max(at + (-1 if way == "up" else 1), 0), len(order) - 1)
    order[at], order[to] = order[to], order[at]
    return order


@router.post("/attempts/{attempt}/questions/{number}")
async def answer(request: Request, core: TheCore, person: SignedInPerson, attempt: str, number: int) -> Response:
    form = await request.form(max_fields=200)
    return await _in_thread(_answer, request, core, person, attempt, number, form)


async def _in_thread(work: Any, *values: Any) -> Response:
    from starlette.concurrency import run_in_threadpool

    response: Response = await run_in_threadpool(work, *values)
    return response


def _answer(request: Request, core: Core, person: Person, attempt: str, number: int, form: FormData) -> Response:
    at, language = renderer_of(request).at(f"/attempts/{attempt}"), language_of(request, person)
    try:
        shown = attempts.question(core, person, attempt, number)
        given, moves = given_in(form, shown), bool(_text(form, "move"))
        if given != shown.given and (given is not None or shown.given is not None):
            attempts.answer(core, person, attempt, number, given)
    except CourseError as error:
        if error.id in OVER:
            return see(f"{at}/result")
        if isinstance(error, Missing | Forbidden | Conflict) or error.id == "quiz.exam-no-question":
            raise
        standing = attempts.standing(core, person, attempt)
        problem = plain(error.in_language(translator(language)), language)
        return _question_page(request, person, standing, shown, given=given_in(form, shown), problem=problem)
    if moves:
        return see(f"{at}/questions/{number}")
    then = _text(form, "then")
    if then == "back" and number > 1:
        return see(f"{at}/questions/{number - 1}")
    if then == "look" or number >= shown.of:
        return see(f"{at}/look")
    return see(f"{at}/questions/{number + 1}")


@router.post("/attempts/{attempt}/questions/{number}/report")
def report(
    request: Request,
    core: TheCore,
    person: SignedInPerson,
    attempt: str,
    number: int,
    said: Annotated[str, Form(max_length=4000)] = "",
) -> Response:
    pages, language = renderer_of(request), language_of(request, person)
    text = translator(language)
    reports.report(core, person, attempt, number, said=said, language=language.code)
    return pages.page(
        request,
        "message.html",
        title=text("shardwise.site-report-thanks"),
        language=language,
        person=person,
        lines=[text("shardwise.site-report-kept")],
        way={
            "address": pages.at(f"/attempts/{attempt}/questions/{number}"),
            "label": text("shardwise.site-go-on"),
        },
    )


@router.get("/attempts/{attempt}/look")
def look(request: Request, core: TheCore, person: SignedInPerson, attempt: str) -> Response:
    standing = attempts.standing(core, person, attempt)
    if standing.state != "open":
        return see(renderer_of(request).at(f"/attempts/{attempt}/result"))
    text = translator(language_of(request, person))
    tasks = [
        {
            "id": each.exercise,
            "title": exercise_of(each.exercise, standing.language).title,
            "state": text(f"shardwise.site-task-{'open' if each.state == 'open' else 'handed-in'}"),
            "open": each.state == "open",
        }
        for each in standing.tasks
    ]
    return _exam_page(
        request,
        person,
        standing,
        "look.html",
        title=text("shardwise.site-look-over"),
        place=text("shardwise.site-answered-of", answered=len(standing.answered), total=standing.questions),
        unanswered=_unanswered(standing),
        places=[{"number": each, "given": each in standing.answered} for each in range(1, standing.questions + 1)],
        tasks=tasks,
        open_tasks=[each for each in tasks if each["open"]],
    )


@router.post("/attempts/{attempt}/hand-in")
def hand_in(request: Request, core: TheCore, person: SignedInPerson, attempt: str) -> Response:
    attempts.hand_in(core, person, attempt)
    return see(renderer_of(request).at(f"/attempts/{attempt}/result"))


# --- the practical part


@router.get("/attempts/{attempt}/tasks/{task}")
def task(request: Request, core: TheCore, person: SignedInPerson, attempt: str, task: str) -> Response:
    standing = attempts.standing(core, person, attempt)
    if standing.state != "open":
        return see(renderer_of(request).at(f"/attempts/{attempt}/result"))
    return _task_page(request, core, person, standing, task)


def _task_page(
    request: Request,
    core: Core,
    person: Person,
    standing: Standing,
    task: str,
    *,
    problem: str = "",
    source: str | None = None,
) -> Response:
    text = translator(language_of(request, person))
    asked = attempts.task(core, person, standing.id, task)
    words = exercise_of(task, standing.language)
    status = next(each for each in standing.tasks if each.exercise == task)
    start = asked.start(standing.language)
    state = text("shardwise.site-code-kept", revision=status.revision, sha256=status.sha256[:12])
    return _exam_page(
        request,
        person,
        standing,
        "task.html",
        title=words.title,
        place=text("shardwise.site-practical"),
        status=422 if problem else 200,
        problem=problem,
        task={
            "id": task,
            "title": words.title,
            "story": f"{words.story}\n\n{words.task}" if asked.kind == "write" else _repair(words.story, text),
            "points": words.of,
            "code": start,
            "file": f"{task}.py",
        },
        submission=None if status.state == "open" else {"mood": "good", "state": state},
        source=start if source is None else source,
    )


def _repair(story: str, text: Any) -> str:
    return f"{story}\n\n{text('shardwise.site-task-repair')}"


@router.get("/attempts/{attempt}/tasks/{task}/{file}")
def task_file(core: TheCore, person: SignedInPerson, attempt: str, task: str, file: str) -> Response:
    standing = attempts.standing(core, person, attempt)
    found = attempts.task(core, person, attempt, task)
    if file != f"{task}.py":
        raise Missing("shardwise.service-no-such-task")
    headers = {"content-disposition": f'attachment; filename="{task}.py"'}
    return Response(found.start(standing.language), media_type="text/x-python; charset=utf-8", headers=headers)


@router.post("/attempts/{attempt}/tasks/{task}")
def submit(
    request: Request,
    core: TheCore,
    person: SignedInPerson,
    attempt: str,
    task: str,
    file: UploadFile | None = None,
    source: Annotated[str, Form()] = "",
) -> Response:
    """A file where one was chosen, else what stands in the field. Line ends are those of the language."""
    at = renderer_of(request).at(f"/attempts/{attempt}")
    data = file.file.read(attempts.SOURCE_BYTES + 1) if file is not None and file.filename else b""
    data = data or source.replace("\r\n", "\n").encode()
    try:
        attempts.submit(core, person, attempt, task, data)
    except CourseError as error:
        if error.id in OVER:
            return see(f"{at}/result")
        if isinstance(error, Missing):
            raise
        standing = attempts.standing(core, person, attempt)
        problem = error.in_language(translator(language_of(request, person)))
        return _task_page(request, core, person, standing, task, problem=problem, source=source)
    return see(f"{at}/tasks/{task}")


# --- afterwards


@router.get("/attempts/{attempt}/result")
def result(request: Request, core: TheCore, person: SignedInPerson, attempt: str) -> Response:
    pages, language = renderer_of(request), language_of(request, person)
    text = translator(language)
    standing = attempts.standing(core, person, attempt)
    if standing.state == "open":
        return see(pages.at(f"/attempts/{attempt}/look"))
    values: dict[str, Any] = {"title": standing.title, "language": language, "person": person, "here": "exams"}
    try:
        found = attempts.outcome(core, person, attempt, language.code)
    except Conflict:
        headers = {"refresh": "5"}
        return pages.page(request, "result.html", waiting=True, headers=headers, **values)
    marks = core.exams.exam(standing.exam).policy.explanations if standing.exam in core.exams.ids() else False
    return pages.page(
        request,
        "result.html",
        waiting=False,
        passed=found.passed,
        verdict=_verdict(found, language),
        certificate=pages.at(f"/attempts/{attempt}/certificate") if found.passed and core.issuing else "",
        retry=_retry(core, person, standing, language) if not found.passed else "",
        objectives=[
            {"title": each["text"], "share": each["share"], "reached": each["mastered"]} for each in found.objectives
        ],
        tasks=[
            {
                "title": exercise_of(each["exercise"], language.code).title,
                "points": f"{each['points']:g} / {each['of']:g}",
                "message": text(
                    "shardwise.site-task-"
                    + ("full" if each["points"] >= each["of"] else "part" if each["points"] else "none")
                ),
            }
            for each in found.tasks
        ],
        explanations=_explained(found.explained, language) if found.explained or marks else None,
        **values,
    )


def _verdict(found: attempts.Outcome, language: Language) -> list[str]:
    text = translator(language)

    def said(name: str, part: Mapping[str, Any]) -> str:
        share, needed = (percent(part[each], language) for each in ("share", "needed"))
        return text(f"shardwise.site-part-{name}", share=share, needed=needed)

    lines = [said("quiz", found.quiz)]
    if found.practical is not None:
        lines.append(said("practical", found.practical))
    if found.unanswered:
        lines.append(text("shardwise.site-unanswered", count=found.unanswered))
    return lines


def _retry(core: Core, person: Person, standing: Standing, language: Language) -> str:
    text = translator(language)
    found = next(
        (each for each in attempts.sittings_of(core, person, language.code) if each.id == standing.sitting), None
    )
    if found is None or found.state in ("over", "used-up"):
        return text("shardwise.site-no-retry")
    if found.again is not None:
        return text("shardwise.site-retry-from", moment=moment(found.again, language))
    return text("shardwise.site-attempts-left", left=found.attempts - found.used)


def _explained(explained: Sequence[Any], language: Language) -> list[dict[str, Any]]:
    text = translator(language)
    shown = []
    for each in explained:
        first = each.question.text.split("\n\n")[0]
        shown.append(
            {
                "number": each.question.number,
                "headline": first if len(first) <= 160 else first[:159].rsplit(" ", 1)[0] + " …",
                "question": each.question,
                "correct": each.credit >= 1,
                "mark": text(
                    "shardwise.site-" + ("right" if each.credit >= 1 else "partly" if each.credit > 0 else "wrong")
                ),
                "given": said_answer(each.question, language),
                "key": each.key,
                "feedback": each.feedback,
            }
        )
    return shown


def said_answer(shown: ExamQuestion, language: Language) -> str:
    """What was answered, in the words of what was offered."""
    given = shown.given
    offered, answers = ({each.place: each.text for each in of} for of in (shown.offered, shown.answers))
    if given is None:
        return translator(language)("shardwise.site-no-answer")
    if isinstance(given, Mapping):
        return "\n\n".join(f"{offered[row]} → {answers[fit]}" for row, fit in given.items())
    if shown.form in ("number", "bytes"):
        return f"`{given}`"
    if isinstance(given, str):
        return offered[given]
    if shown.form == "order":
        return "\n\n".join(f"{number}. {offered[each]}" for number, each in enumerate(given, 1))
    return "\n\n".join(offered[each] for each in given)


@router.get("/attempts/{attempt}/certificate")
def certificate(request: Request, core: TheCore, person: SignedInPerson, attempt: str) -> Response:
    """To the certificate of a passed attempt; where the account has no name yet, it is asked for first."""
    pages, language = renderer_of(request), language_of(request, person)
    text = translator(language)
    mine = next((each for each in issuing.issued_to(core, person) if each.attempt == attempt), None)
    if mine is not None:
        return see(pages.at(f"/c/{mine.id}"))
    return pages.page(
        request,
        "claim.html",
        title=text("shardwise.site-to-certificate"),
        language=language,
        person=person,
        attempt=attempt,
        name=person.name,
    )


@router.post("/attempts/{attempt}/certificate")
def claim(
    request: Request,
    core: TheCore,
    person: SignedInPerson,
    attempt: str,
    name: Annotated[str, Form(max_length=300)] = "",
    other: Annotated[str, Form(max_length=300)] = "",
    language: Annotated[str, Form(max_length=10)] = "",
) -> Response:
    pages, reader = renderer_of(request), language_of(request, person)
    text = translator(reader)
    try:
        if name != person.name:
            accounts.change(core, person, name=name)
        found = issuing.request(core, person, attempt, language=language or None, name_other=other.strip() or None)
    except CourseError as error:
        if isinstance(error, Missing | Forbidden | Conflict):
            raise
        return pages.page(
            request,
            "claim.html",
            title=text("shardwise.site-to-certificate"),
            language=reader,
            person=person,
            status=422,
            notice={"mood": "bad", "text": error.in_language(text)},
            attempt=attempt,
            name=name,
        )
    return see(pages.at(f"/c/{found.id}"))
