"""All that a lesson imports: `from shardwise import notebook as course`.

`course.open` says which lesson this kernel shows; every other function is a thin hand-over from the lesson to a room,
shown in the learner's language. A widget never waits: a notebook that nobody watches runs from top to bottom.
"""

from __future__ import annotations

import ast
import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any
from unicodedata import bidirectional

from IPython.core.getipython import get_ipython
from IPython.display import HTML, display

from shardwise import comparing, exercises, pages, practice, shown
from shardwise.pages import Cell
from shardwise.record import Record
from translations import CourseError, Language, Translator, preferred, translator
from translations import language as find_language
from translations.formats import isolate_runs

if TYPE_CHECKING:
    from labs.catalogue import LabRun
    from labs.exercises import Exercise
    from labs.telemetry import Bytes
    from quiz import Result, Session
    from quiz.reporting import Report
    from shardwise.classroom.at_work import Sitting
    from shardwise.classroom.own import Own
    from shardwise.classroom.student import Class

__all__ = [
    "_",
    "answered",
    "assignment",
    "certificate",
    "check",
    "compare",
    "controls",
    "diagnose",
    "difference",
    "explore",
    "figure",
    "formula",
    "hand_in",
    "hint",
    "home",
    "lab",
    "open",
    "own_fault",
    "own_numbers",
    "precheck",
    "predict",
    "quiz",
    "recall",
    "review",
    "save",
    "solution",
    "source",
    "table",
    "undo",
    "words",
]


def _(text: str) -> str:
    """Marks a string of a code cell as one that learners read; the builder has put the translation in its place.

    In a right-to-left sentence the Latin runs ("24 GB") are isolated, as they are in the lesson's prose.
    """
    return isolate_runs(text) if any(bidirectional(each) in ("R", "AL") for each in text) else text


# --- the lesson that is open


@dataclass
class _Lesson:
    """What the functions below need to know of the lesson: the one state of this module, made by `open`."""

    language: Language
    unit: str | None = None
    ranks: int | None = None
    hints: dict[str, int] = field(default_factory=dict)
    sitting: Sitting | None = None
    _record: Record | None = None

    @property
    def text(self) -> Translator:
        return translator(self.language)

    @property
    def record(self) -> Record:
        """The learner's record, opened when first needed; what was put right on the way is told."""
        if self._record is None:
            self._record = Record.open()
            if self._record.notice is not None:
                _tell(self._record.notice.in_language(self.text), mood="note")
        return self._record

    @property
    def here(self) -> str:
        if self.unit is None:
            raise CourseError("shardwise.open-first")
        return self.unit


_lesson = _Lesson(preferred())


def open(unit: str, language: str) -> None:
    """Says which lesson this is and in which language, registers `%%exercise` and `%%ranks`, shows its aims."""
    global _lesson
    _lesson = _Lesson(find_language(language), unit)
    _prepare_shell()
    threading.Thread(target=_warm_up, name="warm-up", daemon=True).start()
    if taught := shown.objectives(unit, _lesson.text):
        _show(taught)
    try:
        _lesson.record.summary()
    except CourseError as error:
        _tell(error.in_language(_lesson.text), mood="bad")


def _warm_up() -> None:
    """So that the first lab starts at once. What goes wrong here that lab will tell."""
    with contextlib.suppress(Exception):
        from labs import runner

        runner.warm_up()


def _prepare_shell() -> None:
    shell: Any = get_ipython()
    if shell is not None:
        shell.set_custom_exc((CourseError,), _course_error)
        shell.register_magic_function(_exercise, magic_kind="cell", magic_name="exercise")
        shell.register_magic_function(_ranks, magic_kind="cell", magic_name="ranks")


def _course_error(_shell: Any, _kind: type, error: CourseError, _trace: Any, **_options: Any) -> None:
    """IPython's handler of our own errors: the learner's language and no traceback; the cell still counts as failed."""
    _tell(error.in_language(_lesson.text), mood="bad")


def _display(thing: object) -> None:
    display(thing)  # type: ignore[no-untyped-call]


def _show(body: str) -> None:
    _display(_page(body))


def _page(body: str) -> HTML:
    return HTML(pages.page(body, _lesson.language))  # type: ignore[no-untyped-call]


def _place(body: str) -> Any:
    """An output whose `update` puts another page in its place."""
    return display(_page(body), display_id=True)  # type: ignore[no-untyped-call]


def _tell(message: str, *, mood: pages.Mood, title: str = "") -> None:
    _show(pages.box(message, mood=mood, title=title))


# --- predict, run, compare


def predict(question: str, *, unit: str, label: str = "") -> None:
    """A field for a number; what is typed is kept in the record. Nothing waits for it; a wrong one costs nothing."""
    from quiz.numbers import parse
    from quiz.numbers import unit as find_unit
    from shardwise.asking import Asking

    lesson, text = _lesson, _lesson.text
    here = lesson.here

    def keep(given: str) -> str:
        if not given.strip():
            raise CourseError("quiz.no-number")
        quantity = parse(given)
        asked, told = find_unit(unit), quantity.unit
        if told is not None and asked is not None and told.family != asked.family:
            raise CourseError("quiz.other-unit", expected=unit, unit=told.name)
        measure = told.name if told is not None else unit
        lesson.record.predict(unit=here, question=question, value=quantity.readings[0], measure=measure)
        shown_value = pages.written(quantity.readings[0], measure, lesson.language)
        return text("shardwise.prediction-kept", prediction=shown_value)

    earlier = lesson.record.prediction(unit=here, question=question)
    _display(
        Asking(
            label=label or text("shardwise.prediction-label"),
            button=text("shardwise.prediction-keep"),
            language=lesson.language,
            on_answer=keep,
            unit=unit,
            numeric=True,
            value=f"{earlier.value:g} {earlier.measure}".strip() if earlier else "",
            said=text("shardwise.prediction-earlier") if earlier else "",
        )
    )


def lab(name: str, *, live: bool = True, view: str | None = None, **options: Any) -> LabRun:
    """Starts the ranks of a lab and shows what they do as they run; leaves a picture. `live=False` shows nothing.

    `view` is memory, timetable, traffic or timeline; without it, the one that suits the lab.
    """
    from labs import catalogue

    lesson = _lesson
    chosen, settings = catalogue.lab(name), dict(options)
    lesson.ranks = catalogue.ranks_of(name, settings, settings.pop("ranks", None))
    if not live:
        return catalogue.run_lab(name, on_output=_print_output, **options)
    from labs.telemetry.live import live as make

    formula = catalogue.expected(name, **options)
    watch = make(view or chosen.view, ranks=lesson.ranks, formula=formula, language=lesson.language)
    watch.show()
    try:
        run = catalogue.run_lab(name, on_row=watch.feed, on_output=_print_output, **options)
    except BaseException:
        watch.finish()
        raise
    watch.finish(run.data)
    return run


def _ranks(line: str, cell: str) -> None:
    """`%%ranks 4`: the cell is a torchrun script; it runs on so many ranks, and what each prints comes at once."""
    from labs.runner import run

    asked = line.strip()
    if not asked.isdecimal() or int(asked) < 1:
        raise CourseError("shardwise.ranks-number", given=asked)
    run(cell, ranks=int(asked), on_output=_print_output)


def _print_output(rank: int, line: str) -> None:
    print(f"[{rank}] {line.rstrip()}", flush=True)


def formula(name: str, **options: Any) -> Bytes:
    """What the lab's formula says that a rank holds at rest, before anything is run."""
    from labs import catalogue

    return catalogue.formula(name, **({"ranks": 4} | options))


def compare(question: str, *, measured: float, formula: float | None = None, unit: str | None = None) -> None:
    """Prediction, formula and measurement side by side, and what a wrong prediction would mean. Bytes, or in `unit`."""
    lesson = _lesson
    predicted = lesson.record.prediction(unit=lesson.here, question=question)
    value, own = comparing.base_value(predicted) if predicted else (None, "B" if measured > 1000 else "")
    comparison = comparing.Comparison(
        predicted=value, formula=formula, measured=measured, ranks=lesson.ranks, unit=unit or own
    )
    _show(comparing.html(comparison, lesson.text))


# --- code, figures, tables


def source(*objects: Any) -> None:
    """Definitions as they are, unabridged; comments and docstrings in the learner's language."""
    for each in objects:
        _show(pages.code(shown.source(each, _lesson.language), name=shown.name(each)))


def difference(before: Any, after: Any) -> None:
    """What changes from one definition to the next."""
    text = _lesson.text
    title = text("shardwise.difference-title", before=shown.name(before), after=shown.name(after))
    old, new = (shown.source(each, _lesson.language) for each in (before, after))
    _show(f"<p><strong>{escape(title)}</strong></p>" + pages.difference(old, new, name=title, text=text))


def figure(*drawings: Any, alt: str = "") -> None:
    """Drawings with their alternative text: some of `lessons.figures`, or SVG markup and `alt`."""
    for each in drawings:
        if isinstance(each, str):
            _show(f'<figure role="img" aria-label="{escape(alt)}">{each}</figure>')
        else:
            _display(each(_lesson.language) if callable(each) else each)


def table(
    rows: Sequence[Sequence[Cell]], *, header: Sequence[str], units: Sequence[str] = (), caption: str = ""
) -> None:
    """Computed values in a table. `units` says per column how: "B" as bytes, "%" as a share, else as is."""
    _show(pages.table(rows, header=header, units=units, caption=caption, language=_lesson.language))


def explore(**sizes: Any) -> None:
    """Sliders over parameters and ranks, and the model states of every stage, drawn as they move."""
    from lessons.controls import MemoryControl

    _display(MemoryControl(language=_lesson.language, **sizes))


def controls(topic: str, **values: Any) -> None:
    """Fields over the planner, and its figures that follow as they change; the last ones stay in the notebook.

    `topic` is one of the following; `values` are what stands in its fields at first, by the names that the planner's
    commands have for them: `course.controls("memory", model="bloom-176b", gpu="a100-80", dp=8, tp=4, pp=12)`.

        memory      what a rank holds, bar by bar, for each pipeline stage
        traffic     how long each axis keeps its link busy, and the roofline of computing against links
        throughput  what the seconds of a step are spent on, and what a run costs
        plan        the map of all layouts of a cluster: what fits, and how long a step takes
        timetable   a pipeline's schedule, slot by slot
    """
    from lessons.controls import PlannerControl

    language = _lesson.language

    def keep(figures: str) -> None:
        place.update(_page(f'<div class="kept">{figures}</div>'))

    shown = PlannerControl(topic, language=language, settled=keep, **values)
    _display(shown)
    place = _place(f'<div class="kept">{shown.html}</div>')


def save(drawing: Any, path: str) -> None:
    """Keeps a drawing (one of `lessons.figures`, say) as a file that ends in .svg or .png."""
    file = (drawing(_lesson.language) if callable(drawing) else drawing).save(path)
    _tell(_lesson.text("lessons.figure-saved", path=str(file)), mood="note")


def words() -> None:
    """The words of JupyterLab's menus beside the learner's, where its interface speaks another language."""
    from shardwise.learn import interface

    if interface(_lesson.language).split("_")[0] != _lesson.language.code:
        _show(shown.menu_words(_lesson.text))


# --- questions


def precheck() -> None:
    """The questions before a unit; answering all of them right points to the empty function."""
    text = _lesson.text

    def ending(result: Result) -> str:
        right = sum(each.correct for each in result.answered)
        return text("shardwise.precheck-skip" if right == len(result.answered) else "shardwise.precheck-read")

    _ask(practice.precheck(_lesson.record, unit=_lesson.here, language=_lesson.language), ending=ending)


def recall(*items: str, objective: str | None = None) -> None:
    """A few questions from memory, between sections: those named, or of one objective. They count toward nothing."""
    chosen = items or practice.of_objective(_lesson.record, unit=_lesson.here, objective=objective or "")
    if chosen:
        _ask(practice.recall(_lesson.record, unit=_lesson.here, language=_lesson.language, items=chosen))


def review() -> None:
    """What is due again today, of all units: each question after 1, 3 and 7 days, with new numbers.

    Counts toward nothing.
    """
    lesson, text = _lesson, _lesson.text
    session = practice.review(lesson.record, language=lesson.language)
    if session is None:
        _tell(shown.nothing_due(practice.waiting(lesson.record), text), mood="note")
        return

    def ending(result: Result) -> str:
        right = sum(each.correct for each in result.answered)
        return text("quiz.review-done", right=right, total=len(result.answered))

    def again() -> Session:
        return practice.review(lesson.record, language=lesson.language) or session

    left = practice.waiting(lesson.record).due > session.total
    _ask(session, again=again if left else None, ending=ending)


def quiz() -> None:
    """The unit's quiz: the open try where it was left, or a new one with new questions and numbers."""
    lesson = _lesson

    def again() -> Session:
        return practice.quiz(lesson.record, unit=lesson.here, language=lesson.language)

    _ask(again(), again=again)


def _ask(
    session: Session, *, again: Callable[[], Session] | None = None, ending: Callable[[Result], str] | None = None
) -> None:
    """Shows the questions; beside the widget, its result stays in the notebook as an ordinary output."""
    from quiz.notebook import Quiz

    asked = Quiz.of(session, again=again, ending=ending, on_report=_keep_report)
    _display(asked)
    place = _place("")

    def keep(state: dict[str, Any]) -> None:
        if state["phase"] == "result":
            place.update(_page(shown.result(state)))

    asked.observe(lambda change: keep(change["new"]), "state")


def _keep_report(report: Report) -> str:
    """Keeps a report in the workspace; where, seen from there. Raises OSError where the disk refuses."""
    from shardwise import workspace

    folder = workspace.folder() / "reports"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / report.name).write_text(report.text, encoding="utf-8")
    return f"{folder.name}/{report.name}"


# --- exercises


def _known(id: str) -> Exercise:
    """The exercise in the learner's language. Raises CourseError naming those there are."""
    from labs.exercises import exercise

    return exercise(id, _lesson.language)


def _exercise(line: str, cell: str) -> None:
    """`%%exercise zero-1`: keeps the cell as the exercise's file. It is not run here: the check runs it, on ranks."""
    text, id = _lesson.text, line.strip()
    _known(id)
    path = exercises.save(id, cell)
    try:
        ast.parse(cell)
    except SyntaxError as error:
        said = text("shardwise.exercise-syntax", line=error.lineno or 1, reason=error.msg)
        _tell(said, mood="bad", title=text("shardwise.exercise-kept", path=_in_workspace(path)))
        return
    _tell(
        text("shardwise.exercise-next", exercise=id),
        mood="note",
        title=text("shardwise.exercise-kept", path=_in_workspace(path)),
    )


def _in_workspace(path: Any) -> str:
    return f"exercises/{path.name}"


def check(id: str) -> None:
    """The verdict on the exercise's file: the first thing that is not right, with its rank and rule."""
    lesson = _lesson
    _known(id)
    source = exercises.source(id)
    waiting = _place(pages.box(lesson.text("shardwise.check-runs"), mood="note"))
    verdict = practice.check(lesson.record, id=id, source=source, language=lesson.language)
    waiting.update(_page(shown.verdict(verdict, lesson.text)))


def hint(id: str) -> None:
    """The next of three hints: the idea, the place, the line. Running the cell again gives the next."""
    from labs.exercises import hint

    _known(id)
    given = min(_lesson.hints.get(id, 0) + 1, 3)
    _lesson.hints[id] = given
    title = _lesson.text("shardwise.hint-of", number=given, total=3)
    more = _lesson.text("shardwise.hint-more") if given < 3 else ""
    said = hint(id, given, _lesson.language)
    _tell("\n\n".join(part for part in (said, more) if part), mood="note", title=title)


def undo(id: str) -> None:
    """Takes the exercise's file back to the version before; doing it again brings the newer one back."""
    source = exercises.undo(id)
    _tell(_lesson.text("shardwise.exercise-undone", path=_in_workspace(exercises.path(id))), mood="note")
    _show(pages.code(source, name=exercises.path(id).name))


def solution(id: str) -> None:
    """The explained solution, folded up."""
    code = _known(id).code("solution").strip("\n")
    _show(pages.folded(_lesson.text("shardwise.solution-open"), pages.code(code, name="solution.py")))


def diagnose(id: str) -> None:
    """Runs the broken case, shows what its check prints, and asks for rank, operation and rule."""
    from labs.exercises import check
    from quiz import rendering
    from shardwise.diagnosing import Diagnosis

    lesson = _lesson
    found = _known(id)
    code = found.code("broken").strip("\n")
    _show(rendering.html(found.diagnosis.symptom) + pages.code(code, name="broken.py"))
    _show(shown.finding(check(id, found.folder / "broken.py", lesson.language), lesson.text))
    _display(Diagnosis(shown.diagnosis(found), language=lesson.language))


# --- an assignment of a class


def assignment(
    id: str, *, course: str, language: str, exercise: str | None = None, resit_of: str | None = None
) -> None:
    """Says which assignment this is, registers `%%exercise` and `%%answer`, shows whose work it is and until when."""
    global _lesson
    from labs.exercises import exercise as find
    from shardwise.classroom.at_work import Sitting
    from shardwise.classroom.course import Assignment

    chosen = find_language(language)
    given = Assignment(id=id, exercise=exercise or id, resit_of=resit_of)
    _lesson = _Lesson(chosen, find(given.exercise).unit)
    _lesson.sitting = Sitting(course=course, assignment=given, language=chosen, answers={})
    _prepare_shell()
    shell: Any = get_ipython()
    if shell is not None:
        shell.register_magic_function(_answer, magic_kind="cell", magic_name="answer")
    threading.Thread(target=_warm_up, name="warm-up", daemon=True).start()
    if _lesson.sitting.own() is None:
        _ask_who()
    if opened := _lesson.sitting.opened():
        _show(opened)


def own_fault() -> None:
    """The student's own program with a planted fault, and the rules to choose from."""
    sitting = _sitting()
    _show_own(sitting.fault)


def own_numbers() -> None:
    """The student's own questions."""
    sitting = _sitting()
    _show_own(sitting.numbers)


def answered(part: str) -> None:
    """Whether the answer to `fault` or `numbers` can be read as grading will read it; not whether it is right."""
    sitting = _sitting()
    own = sitting.own()
    if own is None:
        _ask_who()
        return
    said, whole = sitting.told(part, own)
    _tell(said, mood="good" if whole else "note")


def _sitting() -> Sitting:
    if _lesson.sitting is None:
        raise CourseError("shardwise.assignment-first")
    return _lesson.sitting


def _answer(line: str, cell: str) -> None:
    """`%%answer fault`: keeps the cell as it is written. It is read, never run."""
    _sitting().keep(line.strip(), cell)


def _show_own(body: Callable[[Own], str]) -> None:
    """What is the student's own; before it is known whose, the question who that is, and then it stands there."""
    own = _sitting().own()
    if own is not None:
        _show(body(own))
        return
    place: list[Any] = []

    def known() -> None:
        now = _sitting().own()
        if now is not None:
            place[0].update(_page(body(now)))

    _ask_who(known)
    place.append(_place(""))


def _ask_who(known: Callable[[], None] | None = None) -> None:
    from shardwise.asking import Asking
    from shardwise.classroom import at_work

    text = _lesson.text

    def keep(given: str) -> str:
        student = at_work.remember(given)
        if known is not None:
            known()
        return text("shardwise.assignment-id-kept", student=student)

    _tell(text("shardwise.assignment-nobody"), mood="note")
    _display(
        Asking(
            label=text("shardwise.assignment-id"),
            button=text("shardwise.assignment-id-keep"),
            language=_lesson.language,
            on_answer=keep,
        )
    )


# --- the end of a unit, and the way through the course


def certificate(name: str | None = None) -> None:
    """The unit's practice certificate: asks for the name, shows badge and files; or says what is missing."""
    from shardwise.asking import Asking

    lesson, text = _lesson, _lesson.text
    record, here = lesson.record, lesson.here
    if name is not None:
        _show(shown.certificate(_issue(lesson, name), text))
        return
    try:
        record.evidence(here, holder="-", language=lesson.language.code)
    except CourseError as error:
        _tell(error.in_language(text), mood="note", title=text("shardwise.certificate-not-yet"))
        return
    place = _place("")

    def issue(given: str) -> str:
        files = _issue(lesson, given)
        place.update(_page(shown.certificate(files, text)))
        return text("shardwise.certificate-made")

    _display(
        Asking(
            label=text("shardwise.certificate-ask-name"),
            button=text("shardwise.certificate-issue"),
            language=lesson.language,
            on_answer=issue,
            value=record.name or "",
        )
    )


def _issue(lesson: _Lesson, name: str) -> practice.Files:
    from shardwise import workspace

    folder = workspace.folder() / "certificates"
    return practice.certificate(lesson.record, unit=lesson.here, holder=name, language=lesson.language, folder=folder)


def home() -> None:
    """The map of the course.

    Every unit, what is done of it, and the next step; before it the class, if there is one.
    """
    from shardwise import workspace
    from shardwise.home import html

    workspace.remember(_lesson.language)
    _classes()
    _show(html(_lesson.record, _lesson.language))


def _classes() -> None:
    """Each class of this student: what is due, and handing in.

    What was given out since is copied into the workspace.
    """
    from shardwise import workspace
    from shardwise.classroom import student

    if student.configured() is None:
        return
    from shardwise.classroom import told
    from shardwise.classroom.handing_in import HandingIn

    beside = workspace.folder() / _lesson.language.code
    try:
        for here in student.classes():
            assignments, text = here.refreshed(), _lesson.text
            shown_there = _place(told.html(here, assignments, text, beside=beside))

            def bring_up_to_date(here: Class = here, text: Translator = text, place: Any = shown_there) -> None:
                place.update(_page(told.html(here, here.assignments(), text, beside=beside)))

            if any(each.notebooks for each in assignments):
                _display(HandingIn(here, language=_lesson.language, on_done=bring_up_to_date))
    except CourseError as error:
        _tell(error.in_language(_lesson.text), mood="note")


def hand_in(assignment: str) -> None:
    """Handing in from an assignment's own notebook: look, then hand in."""
    if (here := _class_of(assignment)) is not None:
        from shardwise.classroom.handing_in import HandingIn

        _display(HandingIn(here, language=_lesson.language, only=assignment))


def _class_of(assignment: str) -> Any:
    """The student's class that gave out an assignment. None, and a sentence, where there is none on this machine."""
    from shardwise.classroom import student

    try:
        return student.class_of(assignment)
    except CourseError as error:
        _tell(error.in_language(_lesson.text), mood="note")
        return None
