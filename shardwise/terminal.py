"""What the terminal shows: a lab while it runs and after, a quiz, a verification, the way through the course."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from labs.telemetry.categories import CATEGORIES
from labs.telemetry.drawing.palette import LOOKS
from translations import CourseError, Translator, formats

if TYPE_CHECKING:
    from certificates import Verification
    from labs.telemetry.rows import Row, Told
    from quiz import Session
    from quiz.session import Question
    from shardwise.progress import Overview


def names(titles: Mapping[str, str]) -> None:
    """Names with their titles, one a line."""
    widest = max(map(len, titles), default=0)
    for name, title in titles.items():
        print(f"{name:<{widest}}  {title}")


# --- a lab


class Watch:
    """What the ranks hold now; `row` and `output` come from threads that read what the ranks write."""

    def __init__(self, *, ranks: int, text: Translator, console: Console) -> None:
        self._text, self._console = text, console
        self._rows: dict[int, Row | None] = dict.fromkeys(range(ranks))
        self._peaks = dict.fromkeys(range(ranks), 0)
        self._lock = threading.Lock()

    def row(self, rank: int, row: Told) -> None:
        from labs.telemetry.rows import Row

        if not isinstance(row, Row):
            return
        with self._lock:
            self._rows[rank] = row
            self._peaks[rank] = max(self._peaks[rank], row.bytes.total)

    def output(self, rank: int, line: str) -> None:
        self._console.print(f"[{rank}] {line.rstrip()}", markup=False, highlight=False)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = self._text
        with self._lock:
            columns = [
                _Column(rank=rank, held=None, highest=0, phase=text("shardwise.lab-starting"))
                if row is None
                else _Column(
                    rank=rank,
                    held=row.bytes.as_dict(),
                    highest=self._peaks[rank],
                    phase=text(f"labs.telemetry-phase-{row.phase}") if row.phase else "",
                )
                for rank, row in self._rows.items()
            ]
        title = text("shardwise.lab-now")
        yield from _memory(columns, text, title=title, console=console, width=options.max_width)


@contextmanager
def watching(*, ranks: int, text: Translator) -> Iterator[Watch]:
    """A table of memory by rank that follows the run, on the error stream; without one only the ranks' output."""
    console = Console(stderr=True)
    watch = Watch(ranks=ranks, text=text, console=console)
    if not console.is_terminal:
        yield watch
        return
    with Live(watch, console=console, refresh_per_second=10, transient=True):
        yield watch


def lab_run(data: Mapping[str, Any], text: Translator) -> None:
    """What a lab reports: bytes by rank at rest, losses beside the single process, traffic."""
    console = Console()
    columns = [
        _Column(
            rank=each["rank"],
            held=each["bytes"]["rest"],
            highest=each.get("peak_total", sum(each["bytes"]["peak"].values())),
        )
        for each in data["ranks"]
    ]
    for part in _memory(columns, text, title=text("shardwise.lab-at-rest"), console=console, width=console.width):
        console.print(part)
    losses = data["ranks"][0]["losses"]
    first, last, alone = (f"{value:.4f}" for value in (losses[0], losses[-1], data["reference_losses"][-1]))
    console.print(text("shardwise.lab-losses", first=first, last=last, alone=alone), highlight=False)
    for name, count in data["ranks"][0]["collectives"].items():
        moved = formats.bytes_(count["bytes"], text.language)
        console.print(text("shardwise.lab-moved", collective=name, times=count["count"], bytes=moved), highlight=False)


@dataclass(frozen=True, kw_only=True)
class _Column:
    """What one rank holds; `held` is None before it has told anything, `phase` None where the table has no such row."""

    rank: int
    held: Mapping[str, int] | None
    highest: int
    phase: str | None = None


def _memory(
    columns: Sequence[_Column], text: Translator, *, title: str, console: Console, width: int
) -> Iterator[Table | Text]:
    """The categories as rows and the ranks as columns; those that the width has no room for are counted below."""
    shown = len(columns)
    table = _memory_table(columns, text, title)
    while shown > 1 and Measurement.get(console, console.options.update(max_width=10_000), table).maximum > width:
        shown -= 1
        table = _memory_table(columns[:shown], text, title)
    yield table
    if more := len(columns) - shown:
        yield Text(text("shardwise.lab-more", count=more))


def _memory_table(columns: Sequence[_Column], text: Translator, title: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column(text("shardwise.rank"), no_wrap=True)
    for each in columns:
        table.add_column(str(each.rank), justify="right", no_wrap=True, min_width=8)

    def row(name: str, amounts: Iterable[int], style: str) -> None:
        cells = [
            "·" if each.held is None else formats.bytes_(amount, text.language)
            for each, amount in zip(columns, amounts, strict=True)
        ]
        table.add_row(Text(name, style=style), *cells)

    held = [each.held or dict.fromkeys(CATEGORIES, 0) for each in columns]
    for category in CATEGORIES:
        name = text(f"labs.telemetry-category-{category.replace('_', '-')}")
        row(name, [each[category] for each in held], LOOKS[category].colour)
    row(text("shardwise.total"), [sum(each[category] for category in CATEGORIES) for each in held], "bold")
    row(text("shardwise.lab-highest"), [each.highest for each in columns], "")
    if any(each.phase is not None for each in columns):
        table.add_row(text("shardwise.lab-phase"), *(each.phase or "" for each in columns))
    return table


# --- a quiz


def quiz(session: Session, text: Translator) -> bool:
    """Asks what is still open of a quiz; True when it is passed. Answers already given stay when it is interrupted."""
    while not session.finished:
        asked = session.question()
        _show_question(asked, session, text)
        _ask(asked, session, text)
        session.next()
    found = session.result()
    words = {"mastered": sum(each.mastered for each in found.objectives), "total": len(found.objectives)}
    print()
    print(text("quiz.unit-mastered" if found.passed else "quiz.unit-not-yet", needed=found.needed, **words))
    for each in found.objectives:
        state = text("quiz.objective-mastered" if each.mastered else "quiz.objective-not-yet")
        print(f"  {formats.percent(each.share, text.language)}  {each.text} ({state})")
    for note in session.misconception_notes():
        print(_plain(note, text))
    return found.passed


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
    console.print(text(f"certificates.verdict-{found.verdict}"), style="bold", highlight=False, markup=False)
    console.print(text(f"certificates.verdict-{found.verdict}-meaning"), highlight=False, markup=False)
    marks = {"pass": "✓", "fail": "✗", "not-checked": "–"}
    for each in found.steps:
        name, result = text(f"certificates.step-{each.step}"), text(f"certificates.result-{each.result}")
        console.print(f"  {marks[each.result]} {name}: {result}. {each.detail}", highlight=False, markup=False)


def overview(shown: Overview, text: Translator) -> None:
    """Every unit with its state."""
    console = Console()
    table = Table(title=text("shardwise.progress-title"), title_justify="left")
    for heading in ("unit", "state", "objectives", "checks", "quiz"):
        table.add_column(text(f"shardwise.progress-{heading}"))
    for each in shown.stops:
        title = f"{each.unit.number:02} {each.unit.title(text)}"
        row = [escape(title), text(f"shardwise.state-{each.state}")]
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
