"""What the terminal shows: a quiz, a verification, the way through the course. Labs are in `lab_terminal`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from translations import CourseError, Translator, formats

if TYPE_CHECKING:
    from certificates import Verification
    from quiz import Session
    from quiz.session import Question
    from shardwise.progress import Overview


def names(titles: Mapping[str, str]) -> None:
    """Names with their titles, one a line."""
    widest = max(map(len, titles), default=0)
    for name, title in titles.items():
        print(f"{name:<{widest}}  {title}")


# --- a quiz


def quiz(session: Session, text: Translator) -> bool:
    """Asks what is still open of a quiz; True when it is passed. Answers already given stay when it is interrupted."""
    _walk(session, text)
    found = session.result()
    words = {"mastered": sum(each.mastered for each in found.objectives), "total": len(found.objectives)}
    print()
    print(text("quiz.unit-mastered" if found.passed else "quiz.unit-not-yet", needed=found.needed, **words))
    for each in found.objectives:
        state = text("quiz.objective-mastered" if each.mastered else "quiz.objective-not-yet")
        print(f"  {formats.percent(each.share, text.language)}  {each.text} ({state})")
    _leads(session, text)
    return found.passed


def review(session: Session, text: Translator) -> None:
    """Asks what is due again, and says how much of it was right."""
    _walk(session, text)
    answered = session.answered
    print()
    print(text("quiz.review-done", right=sum(each.correct for each in answered), total=len(answered)))
    _leads(session, text)


def _walk(session: Session, text: Translator) -> None:
    while not session.finished:
        asked = session.question()
        _show_question(asked, session, text)
        _ask(asked, session, text)
        session.next()


def _leads(session: Session, text: Translator) -> None:
    """What is said of misconceptions that were met; of one met again, its labs and exercises too."""
    from quiz.session import note

    for each in session.leads():
        print(_plain(note(each, text), text))
        if each.repeated and each.labs:
            commands = ", ".join(f"`shardwise lab run {name}`" for name in each.labs[:2])
            print("  " + _plain(text("quiz.see-labs", commands=commands), text))
        if each.repeated and each.exercises:
            print(
                "  " + _plain(text("quiz.see-exercises", exercises=", ".join(f"`{id}`" for id in each.exercises)), text)
            )


def _show_question(asked: Question, session: Session, text: Translator) -> None:
    print()
    print(text("quiz.question-of", number=session.number, total=session.total))
    print(_plain(asked.text, text))
    if asked.code:
        print()
        for number, line in enumerate(asked.code.rstrip("\n").split("\n"), start=1):
            print(f"  {number:>3}  {line}")
    print()
    for number, each in enumerate(asked.offered, start=1):
        print(f"  {number}. {_plain(each.text, text)}")
    for number, each in enumerate(asked.answers):
        print(f"  {_letter(number)}. {_plain(each.text, text)}")
    print(text(f"shardwise.quiz-how-{_how(asked.form)}", **({"unit": asked.unit} if asked.unit else {})))


def _how(form: str) -> str:
    return {"fault": "choice", "bytes": "number"}.get(form, form)


def _ask(asked: Question, session: Session, text: Translator) -> None:
    """Asks until there is an answer that can be marked, and explains it."""
    while True:
        print("> ", end="", flush=True)
        line = sys.stdin.readline()
        if not line:
            print()
            raise CourseError("shardwise.quiz-interrupted")
        try:
            graded = session.answer(read_answer(asked, line))
            break
        except CourseError as error:
            print(error.in_language(text))
    said = "right" if graded.correct else "partly-right" if graded.credit else "wrong"
    print(text(f"quiz.{said}"))
    if not graded.correct:
        print(f"{text('quiz.right-answer')}: {_plain(graded.key, text)}")
    print(_plain(graded.feedback, text))


def read_answer(asked: Question, line: str) -> Any:
    """What was typed, as the form's answer: numbers of what is offered, letters of what matches, else the text itself.

    Raises CourseError for what names nothing that is offered.
    """
    words = formats.western(line).replace(",", " ").split()
    match _how(asked.form):
        case "number":
            return line.strip()
        case "choice":
            return _offered(asked, words[0]) if len(words) == 1 else _no_such("")
        case "match":
            pairs = [word.partition("-") for word in words]
            letters = {_letter(number).lower(): each.key for number, each in enumerate(asked.answers)}
            return {_offered(asked, first): letters.get(then.lower()) or _no_such(then) for first, _, then in pairs}
        case _:
            return [_offered(asked, word) for word in words]


def _offered(asked: Question, word: str) -> str:
    if word.isdecimal() and 1 <= int(word) <= len(asked.offered):
        return asked.offered[int(word) - 1].key
    return _no_such(word)


def _no_such(word: str) -> str:
    raise CourseError("shardwise.quiz-no-such", answer=word)


def _letter(number: int) -> str:
    return chr(ord("A") + number)


def _plain(marked: str, text: Translator) -> str:
    from quiz.rendering import plain

    return plain(marked, text.language)


# --- a certificate, the way


def verification(found: Verification, text: Translator) -> None:
    """The verdict and its steps; "not checked" never looks like a pass."""
    console = Console()
    console.print(found.headline(text.language), style="bold", highlight=False, markup=False)
    console.print(found.meaning(text.language), highlight=False, markup=False)
    marks = {"pass": "✓", "fail": "✗", "not-checked": "–"}
    for each in found.steps:
        name, result = text(f"certificates.step-{each.step}"), text(f"certificates.result-{each.result}")
        console.print(f"  {marks[each.result]} {name}: {result}. {each.detail}", highlight=False, markup=False)
    if found.stranger is not None:
        stranger = found.stranger
        console.print(f"{text('certificates.page-domain')}: {stranger.domain}", highlight=False, markup=False)
        if stranger.fingerprint:
            console.print(
                f"{text('certificates.page-fingerprint')}: {stranger.fingerprint}", highlight=False, markup=False
            )
        how = "page-confirm" if stranger.fingerprint else "page-confirm-keyless"
        confirm = text(f"certificates.{how}", domain=stranger.domain, address=stranger.address)
        console.print(confirm, highlight=False, markup=False)
    if found.credential is not None:
        from certificates.summary import rows

        for label, value in rows(found.credential, text.language):
            console.print(f"  {label}: {value}", highlight=False, markup=False)


def overview(shown: Overview, text: Translator) -> None:
    """Every unit with its state."""
    console = Console()
    table = Table(title=text("shardwise.progress-title"), title_justify="left")
    for heading in ("unit", "state", "objectives", "checks", "quiz"):
        table.add_column(text(f"shardwise.progress-{heading}"))
    for each in shown.stops:
        title = f"{each.unit.number:02} {each.unit.title(text)}"
        row = [escape(title), text(f"shardwise.state-{each.standing}")]
        if each.progress is not None:
            reached = each.progress
            mastered = sum(objective.mastered for objective in reached.objectives)
            row += [f"{mastered}/{len(reached.objectives)}", f"{sum(reached.checks.values())}/{len(reached.checks)}"]
            row.append("" if reached.quiz_best is None else formats.percent(reached.quiz_best, text.language))
        table.add_row(*row)
    console.print(table)
    if shown.next is not None:
        following = next(each.unit.title(text) for each in shown.stops if each.unit.id == shown.next)
        console.print(text("shardwise.progress-next", unit=following), highlight=False, markup=False)
