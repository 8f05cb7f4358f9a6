"""A lesson as a chapter: its text, what its cells left behind, and of the cells themselves those that teach.

A cell that only draws or counts is not printed; its name stands under what it shows. What lives in the notebook alone
(a field for a prediction, a check, a hint) becomes a line to write on, a question, or a place in the appendix.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from labs.exercises import Exercise, exercise
from lessons.editions.printed.markup import array, call, string, words
from lessons.editions.printed.outputs import Outputs, of_output
from lessons.editions.printed.prose import Prose
from lessons.editions.printed.questions import Questions
from quiz import objectives, rendering
from translations import Language, Translator, translator
from translations.source.code import without_magic

LONGEST = 14
"""Lines of a cell that runs a lab and also draws: a longer one is about the drawing."""

_SHOWS = frozenset({"table", "figure", "source", "difference", "compare", "formula", "controls", "explore"})
_ASKS = frozenset(
    {
        "check",
        "hint",
        "solution",
        "precheck",
        "recall",
        "quiz",
        "certificate",
        "predict",
        "diagnose",
        "undo",
        "review",
        "home",
        "words",
        "open",
    }
)
_RANKS = re.compile(r"^\[(\d+)\] ")
_NAMED = re.compile(r"^(?:markdown|code)-[0-9a-f]{6,}$")


@dataclass(frozen=True, kw_only=True)
class Chapter:
    """A unit in print: the chapter, and what of it stands in the appendices."""

    unit: str
    title: str
    body: str
    answers: str
    solutions: str


@dataclass
class _Writer:
    """Goes through one notebook."""

    language: Language
    unit: str
    prose: Prose
    pieces: list[str] = field(default_factory=list)
    solved: list[str] = field(default_factory=list)
    exercises: list[str] = field(default_factory=list)
    diagnosed: list[str] = field(default_factory=list)
    questions: Questions | None = None

    @property
    def text(self) -> Translator:
        return translator(self.language)

    def cell(self, cell: Any) -> None:
        if cell.cell_type == "markdown":
            if cell.id != "title":
                self.add(self.prose.blocks(cell.source))
            return
        if "setup" in cell.metadata.get("tags", []):
            return
        magic, _, argument = cell.source.partition("\n")[0].partition(" ")
        if magic == "%%exercise":
            self.exercise(argument.strip(), cell.source.partition("\n")[2])
            return
        calls = tuple(_calls(cell.source))
        names = {name for name, _ in calls}
        name = "" if _NAMED.match(cell.id) else str(cell.id)
        if names & _ASKS and not names & {"lab", "table", "figure"}:
            for asked, node in calls:
                self.asked(asked, node, cell, name)
            return
        if self.teaches(cell.source, names, magic):
            self.add(f'#listing({string(cell.source.rstrip())}, lang: "python", name: {string(name)})')
            name = ""
        self.outputs(cell.outputs, name, by_rank=magic == "%%ranks")
        if names & {"controls", "explore"}:
            self.add(call("aside", words(self.text("lessons.book-controls"))))

    def teaches(self, source: str, names: set[str], magic: str) -> bool:
        """Whether the cell itself is printed."""
        if magic == "%%ranks" or not names & _SHOWS:
            return True
        return "lab" in names and len(source.rstrip().splitlines()) <= LONGEST

    def add(self, piece: str) -> None:
        if piece.strip():
            self.pieces.append(piece)

    def outputs(self, outputs: Sequence[Mapping[str, Any]], name: str, *, by_rank: bool = False) -> None:
        setter = Outputs(self.language, cell=name)
        printed: list[str] = []
        for output in outputs:
            if output["output_type"] == "stream":
                printed += str(output["text"]).splitlines()
                continue
            self.printed(setter, printed, by_rank)
            self.add(of_output(output, setter))
        self.printed(setter, printed, by_rank)

    def printed(self, setter: Outputs, lines: list[str], by_rank: bool) -> None:
        """Lines that were printed; those of ranks rank by rank, since their order on the screen is chance."""
        if by_rank:
            lines.sort(key=lambda line: int(found[1]) if (found := _RANKS.match(line)) else -1)
        self.add(setter.printed("\n".join(lines)))
        lines.clear()

    # --- what only the notebook can do

    def asked(self, name: str, node: ast.Call, cell: Any, cell_name: str) -> None:
        match name:
            case "predict":
                self.predict(node)
            case "precheck":
                self.add(call("aside", words(self.text("lessons.book-precheck"))))
            case "recall":
                self.recall(node)
            case "quiz":
                self.add(self.asked_questions.asked())
            case "diagnose":
                self.diagnose(_first(node), cell)
            case "solution":
                self.solution(_first(node))
            case "compare" | "formula":
                self.outputs(cell.outputs, cell_name)

    @property
    def asked_questions(self) -> Questions:
        if self.questions is None:
            self.questions = Questions(self.unit, self.language)
        return self.questions

    def predict(self, node: ast.Call) -> None:
        given = {each.arg: each.value for each in node.keywords}
        label = _literal(given.get("label")) or self.text("shardwise.prediction-label")
        unit = _literal(given.get("unit"))
        self.add(call("predict", words(label), unit=f"[{words(unit)}]"))

    def recall(self, node: ast.Call) -> None:
        given = {each.arg: _literal(each.value) for each in node.keywords}
        wanted = next((each for each in objectives(self.unit) if each.id == given.get("objective")), None)
        if wanted is not None:
            said = self.outputs_of(rendering.inline(wanted.say(self.language)))
            self.add(call("recall", said, title=f"[{words(self.text('lessons.book-recall'))}]"))

    def exercise(self, id: str, source: str) -> None:
        known = exercise(id, self.language)
        version = "faded" if source.strip() == known.code("faded").strip() else "alone"
        self.add(
            f"#task([{self.inline(known.title)}], kind: {string(version)}, id: {string(id)}, "
            f"source: {string(source.rstrip())})"
        )

    def diagnose(self, id: str, cell: Any) -> None:
        known = exercise(id, self.language)
        self.outputs(cell.outputs, "")
        parts = known.diagnosis.parts
        questions = "".join(
            call(
                "diagnosis",
                *(self.inline(each.text) for each in part.options),
                question=f"[{self.inline(part.question)}]",
            )
            for part in parts
        )
        self.add(call("to-answer", questions, at=string(f"diagnosis-{id}")))
        answers = "".join(
            call(
                "diagnosed",
                self.inline(right.text),
                self.inline(right.feedback),
                question=f"[{self.inline(part.question)}]",
            )
            for part in parts
            for right in part.options
            if right.key == part.answer
        )
        self.diagnosed.append(call("answered-diagnosis", answers, at=string(f"diagnosis-{id}"), id=string(id)))

    def solution(self, id: str) -> None:
        self.add(call("to-solution", at=string(f"solution-{id}")))
        if id not in self.exercises:
            self.exercises.append(id)
            self.solved.append(self.solved_exercise(exercise(id, self.language)))

    def solved_exercise(self, known: Exercise) -> str:
        return (
            f"#solved([{self.inline(known.title)}], id: {string(known.id)}, "
            f"hints: {array(f'[{self.paragraphs(each)}]' for each in known.hints)}, "
            f"source: {string(known.code('solution').strip())})"
        )

    def inline(self, text: str) -> str:
        return self.outputs_of(rendering.inline(text))

    def paragraphs(self, text: str) -> str:
        return self.outputs_of(rendering.html(text))

    def outputs_of(self, html: str) -> str:
        return Outputs(self.language).inline(html)


def chapter(notebook: Any, prose: Prose) -> Chapter:
    """An executed notebook as a chapter."""
    course, language = notebook.metadata.course, prose.language
    writer = _Writer(language, str(course["unit"]), prose)
    for cell in notebook.cells:
        writer.cell(cell)
    taught = [writer.inline(each.say(language)) for each in objectives(writer.unit)]
    number, title = writer.unit.split("-", 1)[0], writer.prose.inline(str(course["title"]))
    opening = (
        f"#chapter([{title}], number: {int(number)}, unit: {string(writer.unit)}, "
        f"time: [{words(writer.text('lessons.reading-time', count=int(course['minutes'])))}], "
        f"objectives: {array(f'[{each}]' for each in taught)}, code: {string(_setup(notebook))})"
    )
    answers = writer.asked_questions.answered() if writer.questions else ""
    heading = f"#of-chapter([{title}], number: {int(number)})\n\n"
    answered = "\n\n".join([*writer.diagnosed, answers]).strip()
    return Chapter(
        unit=writer.unit,
        title=title,
        body="\n\n".join([opening, *writer.pieces]),
        answers=heading + answered if answered else "",
        solutions=heading + "\n\n".join(writer.solved) if writer.solved else "",
    )


def _setup(notebook: Any) -> str:
    cells = [cell for cell in notebook.cells if "setup" in cell.metadata.get("tags", [])]
    return str(cells[0].source).rstrip() if cells else ""


def _calls(source: str) -> Iterator[tuple[str, ast.Call]]:
    """The functions of the course that a cell calls, in their order."""
    try:
        tree = ast.parse(without_magic(source))
    except SyntaxError:
        return
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "course"
    ]
    for node in sorted(found, key=lambda node: (node.lineno, node.col_offset)):
        assert isinstance(node.func, ast.Attribute)
        yield node.func.attr, node


def _first(node: ast.Call) -> str:
    return _literal(node.args[0]) if node.args else ""


def _literal(node: ast.expr | None) -> str:
    """A string of code, also one that is marked as translatable."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "_" and node.args:
        return _literal(node.args[0])
    return str(node.value) if isinstance(node, ast.Constant) and node.value is not None else ""
