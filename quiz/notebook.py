"""The quiz in a notebook: a thin view of a session, made of native form controls.

What the page is given holds no key and no explanation before the answer is graded in Python. Without a front end the
widget still works: `quiz.session` is the whole state.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from quiz import rendering
from quiz.grading import Answer, Graded
from quiz.reporting import Report, report
from quiz.session import Answered, Lead, OnAnswer, Result, Session, Shown, note
from translations import CourseError, Language, formats, translator

FOLDER = Path(__file__).parent
LABELS = (
    "check",
    "next",
    "finish",
    "again",
    "choose",
    "code",
    "report",
    "report-explained",
    "report-remark",
    "report-make",
    "report-text",
    "report-mail",
    "report-issue",
    "report-copy",
    "report-copied",
    "right-mark",
    "wrong-mark",
    "missed-mark",
    "other-options",
    "right-answer",
    "profile",
    "objective-column",
    "share-column",
    "result-column",
)


class Quiz(anywidget.AnyWidget):
    """A quiz (or, with `items`, some of its questions) of one attempt; every answer goes to `on_answer` once.

    `again` makes the session of a new attempt, for the button at the end; `ending` words the result. `on_report` keeps
    a reader's report of a question as a file and says where.
    """

    _esm = FOLDER / "notebook.js"
    _css = FOLDER / "notebook.css"
    state = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        unit: str,
        language: Language | str,
        *,
        seed: str = "",
        attempt: int = 1,
        on_answer: OnAnswer | None = None,
        items: Sequence[str] | None = None,
        resume: Iterable[Answered] = (),
        session: Session | None = None,
        again: Callable[[], Session] | None = None,
        ending: Callable[[Result], str] | None = None,
        on_report: Callable[[Report], str] | None = None,
    ) -> None:
        super().__init__()
        self.session = session or Session(
            unit, language, seed=seed, attempt=attempt, on_answer=on_answer, items=items, resume=resume
        )
        self._again, self._ending, self._on_report = again, ending, on_report
        self._error = ""
        self._reported: dict[str, Any] | None = None
        self.on_msg(self._received)
        self._show()

    def __repr__(self) -> str:
        """What a notebook shows where the widget cannot run."""
        return translator(self.session.language)("quiz.not-running", count=self.session.total)

    @classmethod
    def of(
        cls,
        session: Session,
        *,
        again: Callable[[], Session] | None = None,
        ending: Callable[[Result], str] | None = None,
        on_report: Callable[[Report], str] | None = None,
    ) -> Quiz:
        """A view of a session made elsewhere, such as one that the record keeps."""
        return cls(session.unit, session.language, session=session, again=again, ending=ending, on_report=on_report)

    def answer(self, answer: Answer) -> Graded:
        """Answer the current question, as the button does. Raises CourseError for an answer that is none."""
        graded = self.session.answer(answer)
        self._error = ""
        self._show()
        return graded

    def next(self) -> None:
        """Go on to the next question, or to the result. Raises CourseError while the question is unanswered."""
        self.session.next()
        self._error, self._reported = "", None
        self._show()

    def report(self, remark: str) -> Report:
        """A report of the current question, as the button under it makes it; kept as a file where there is a keeper."""
        made = report(self.session.question(), remark=remark, given=self.session.given)
        text = translator(self.session.language)
        kept = text("quiz.report-not-kept")
        if self._on_report is not None:
            with contextlib.suppress(OSError):
                kept = text("quiz.report-kept", path=self._on_report(made))
        self._reported = made.as_json() | {"kept": kept}
        self._show()
        return made

    def _received(self, _widget: Any, content: Any, _buffers: Any) -> None:
        """A message of the page: {"do": "answer" | "next" | "again" | "report", ...}. Anything else is left alone."""
        try:
            match content:
                case {"do": "answer", "answer": given}:
                    self.answer(given)
                case {"do": "next"}:
                    self.next()
                case {"do": "report", "remark": str(remark)} if not self.session.finished:
                    self.report(remark)
                case {"do": "again"} if self._again is not None and self.session.finished:
                    self.session, self._error = self._again(), ""
                    self._show()
        except CourseError as error:
            self._error = error.in_language(translator(self.session.language))
            self._show()

    def _show(self) -> None:
        session = self.session
        text = translator(session.language)
        state: dict[str, Any] = {
            "lang": session.language.code,
            "dir": session.language.direction,
            "labels": {name: text(f"quiz.{name}") for name in LABELS},
            "total": session.total,
            "number": min(session.number, session.total),
            "error": self._error,
        }
        self.state = state | (self._result() if session.finished else self._question())

    def _question(self) -> dict[str, Any]:
        session, asked = self.session, self.session.question()
        text, graded = translator(session.language), session.graded
        return {
            "phase": "question" if graded is None else "graded",
            "id": f"{asked.item}-{asked.seed}",
            "progress": text("quiz.question-of", number=session.number, total=session.total),
            "form": asked.form,
            "text": rendering.html(asked.text),
            "code": asked.code,
            "prompt": asked.prompt,
            "offered": [self._offered(shown) for shown in asked.offered],
            "answers": [{"key": each.key, "text": self._plain(each.text)} for each in asked.answers],
            "label": text("quiz.answer-label", unit=asked.unit) if asked.unit else "",
            "report": asked.report,
            "reported": self._reported,
            "last": session.number == session.total,
            "graded": self._graded(graded) if graded else None,
            "given": session.given,
        }

    def _offered(self, shown: Shown) -> dict[str, Any]:
        text, said = translator(self.session.language), self._plain(shown.text)
        return {
            "key": shown.key,
            "html": rendering.inline(shown.text),
            "line": shown.line,
            "up": text("quiz.move-up", step=said),
            "down": text("quiz.move-down", step=said),
            "moved": [
                text("quiz.moved", step=said, place=place, total=len(self.session.variant.order))
                for place in range(1, len(self.session.variant.order) + 1)
            ],
        }

    def _graded(self, graded: Graded) -> dict[str, Any]:
        text = translator(self.session.language)
        verdict = "right" if graded.correct else "partly-right" if graded.credit >= 0.5 else "wrong"
        return {
            "correct": graded.correct,
            "verdict": text(f"quiz.{verdict}"),
            "feedback": rendering.html(graded.feedback),
            "key": [rendering.inline(line) for line in graded.key.split("\n")],
            "notes": [
                {
                    "key": note.key,
                    "right": note.right,
                    "chosen": note.chosen,
                    "html": rendering.inline("" if note.text in graded.feedback else note.text),
                }
                for note in graded.notes
            ],
        }

    def _result(self) -> dict[str, Any]:
        session, result = self.session, self.session.result()
        text = translator(session.language)
        if self._ending is not None:
            ending = self._ending(result)
        elif not session.is_quiz:
            right = sum(each.correct for each in result.answered)
            ending = text("quiz.recall-done", right=right, total=session.total)
        else:
            mastered = sum(each.mastered for each in result.objectives)
            message = "quiz.unit-mastered" if result.passed else "quiz.unit-not-yet"
            ending = text(message, mastered=mastered, total=len(result.objectives), needed=result.needed)
        return {
            "phase": "result",
            "id": "result",
            "progress": "",
            "ending": rendering.html(ending),
            "passed": result.passed,
            "again": self._again is not None,
            "profile": [
                {
                    "html": rendering.inline(each.text),
                    "share": formats.percent(each.share, session.language, digits=2),
                    "mastered": each.mastered,
                    "word": text("quiz.objective-mastered" if each.mastered else "quiz.objective-not-yet"),
                }
                for each in (result.objectives if session.is_quiz else ())
            ],
            "notes": [self._note(each) for each in session.leads()],
        }

    def _note(self, found: Lead) -> dict[str, Any]:
        """What is said of a misconception; of one met again, with the lesson to go to, and its labs and exercises."""
        text = translator(self.session.language)
        more = []
        if found.repeated:
            if found.labs:
                commands = ", ".join(f"`shardwise lab run {name}`" for name in found.labs[:2])
                more.append(text("quiz.see-labs", commands=commands))
            if found.exercises:
                more.append(text("quiz.see-exercises", exercises=", ".join(f"`{id}`" for id in found.exercises)))
        lesson = text(f"shardwise.unit-{found.unit}")
        return {
            "html": rendering.inline(note(found, text)),
            "lesson": found.unit if found.repeated else "",
            "label": text("quiz.see-lesson", lesson=lesson),
            "more": [rendering.inline(each) for each in more],
        }

    def _plain(self, text: str) -> str:
        return rendering.plain(text, self.session.language)
