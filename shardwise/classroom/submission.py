"""What a student handed in, whatever its state: the answers that stand in it, and what was found and repaired.

Nothing of it is run, unpacked on the disk, followed out of its folder or trusted to be what its name says. The notebook
that was given out says what is looked for; where a cell lost its id, it is found by what stands in it. Reading never
fails: where nothing can be graded, the submission says why.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from shardwise.classroom import handed_in
from shardwise.classroom.handed_in import File
from shardwise.classroom.notebook_file import Cell, Notebook, Unreadable, notebook
from shardwise.classroom.result import Finding

CODE = "code"
"""The part that is the exercise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One part as it was given out: its grade cell and, by language, what stood in it."""

    name: str
    cell: str
    type: str
    texts: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What was given out: parts in order, and by language the notebook as a list of cells. `name` is that of its files.
    A form without notebooks (the exam's practical part) takes a file of code.
    """

    name: str
    exercise: str
    wanted: tuple[Wanted, ...]
    cells: Mapping[str, Sequence[Cell]] = field(default_factory=dict)

    def part(self, name: str) -> Wanted:
        return next(each for each in self.wanted if each.name == name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What was handed in. `answers` has the text of each part that was found, `untouched` the parts that are as they
    were given out, `problem` why nothing can be graded (then there are no answers).
    """

    file: str
    language: str | None
    answers: Mapping[str, str]
    untouched: frozenset[str]
    findings: tuple[Finding, ...]
    problem: Finding | None
    digest: str
    sha256: str
    names: tuple[str, ...] = ()
    """Notebooks at the top of what was handed in, without their ending: by these names feedback is looked for."""


@dataclass(slots=True)
class _Read:
    """A file as far as it was read: how many parts it has, which of them were changed, what was found."""

    file: File
    language: str | None
    answers: dict[str, str]
    changed: set[str]
    findings: list[Finding]


def read(path: Path, form: Form, *, language: str | None = None) -> Submission:
    """What lies at this path, a folder or a file. Where nothing was written, the notebook in `language` counts."""
    found = handed_in.gather(path)
    findings = list(found.findings)
    reads: list[_Read] = []
    broken: list[Finding] = []
    for each in found.files:
        try:
            if (one := _read(each, form)) is not None:
                reads.append(one)
        except Unreadable as error:
            broken.append(Finding(id=error.id, values={"file": each.name, **error.values}))
    names = tuple(PurePosixPath(each.name).stem for each in found.files if _is_at_top(each))
    if not reads:
        problem = broken[0] if broken else Finding(id="handed-in-nothing" if found.empty else "handed-in-no-notebook")
        return Submission(
            file="",
            language=None,
            answers={},
            untouched=frozenset(),
            findings=tuple(findings),
            problem=problem,
            digest=found.digest,
            sha256="",
            names=names,
        )
    chosen = max(reads, key=lambda each: _rank(each, form, language))
    findings += broken + chosen.findings + _place(chosen.file, form)
    answers, untouched = dict(chosen.answers), {each for each in chosen.answers if each not in chosen.changed}
    for other in sorted(reads, key=lambda each: _rank(each, form, language), reverse=True):
        for name in other.changed if other is not chosen else ():
            if name in untouched or name not in answers:
                answers[name] = other.answers[name]
                untouched.discard(name)
                findings.append(Finding(id="handed-in-part-elsewhere", values={"part": name, "file": other.file.name}))
    for wanted in form.wanted:
        if wanted.name not in answers:
            findings.append(Finding(id="handed-in-cell-deleted", values={"cell": wanted.cell}))
    return Submission(
        file=chosen.file.name,
        language=chosen.language,
        answers=answers,
        untouched=frozenset(untouched),
        findings=tuple(findings),
        problem=None,
        digest=found.digest,
        sha256=hashlib.sha256(chosen.file.data).hexdigest(),
        names=names,
    )


# --- one file


def _read(file: File, form: Form) -> _Read | None:
    """The file's answers; None where it has nothing to do with what was given out. Raises Unreadable."""
    if file.suffix == ".py" and not file.looks_like_a_notebook:
        return _code(file, form)
    if file.suffix != ".ipynb" and not file.looks_like_a_notebook:
        return None
    opened = notebook(file.data)
    language = _language(opened, file, form)
    answers: dict[str, str] = {}
    changed: set[str] = set()
    findings = [Finding(id=id, values=values) for id, values in opened.remarks]
    taken: set[int] = set()
    for wanted in form.wanted:
        candidates = _candidates(opened, wanted, form, language, taken)
        if not candidates:
            continue
        text, was_changed, told = _one_of(opened, wanted, candidates)
        answers[wanted.name] = text
        taken.update(number for number, _ in candidates)
        findings += told
        if was_changed:
            changed.add(wanted.name)
    if not answers:
        if not opened.cells:
            raise Unreadable("handed-in-empty")
        if form.cells and not _given_out(opened, form):
            raise Unreadable("handed-in-other-notebook")
        return None if not form.cells else _Read(file, language, {}, set(), findings)
    if language is not None and (edited := _edited(opened, form, language)):
        findings.append(Finding(id="handed-in-edited", values={"count": edited}))
    return _Read(file, language, answers, changed, findings)


def _code(file: File, form: Form) -> _Read | None:
    """A file of Python is the code, if it is named after the exercise or alone tells so by its first line."""
    text = file.data.decode("utf-8-sig", "replace")
    if PurePosixPath(file.name).stem != form.exercise and not _is_cell_of(text, form.exercise):
        return None
    wanted = next((each for each in form.wanted if each.name == CODE), None)
    same = wanted is not None and any(_plain(text) == _plain(each) for each in wanted.texts.values())
    return _Read(file, None, {CODE: text}, set() if same else {CODE}, [Finding(id="handed-in-code-only")])


def _language(opened: Notebook, file: File, form: Form) -> str | None:
    """Of the given-out notebook that this one has most in common with; else by its name."""
    texts = {_plain(cell.source) for cell in opened.cells}
    common = {
        code: sum(_plain(cell.source) in texts for cell in cells if cell.source.strip())
        for code, cells in form.cells.items()
    }
    best = max(common, key=lambda code: common[code], default=None)
    if best is not None and common[best] > min(common.values(), default=0):
        return best
    named = next((code for code in form.cells if f".{code}." in PurePosixPath(file.name).name), None)
    said = opened.language if opened.language in form.cells else None
    return named or said or best


def _candidates(
    opened: Notebook, wanted: Wanted, form: Form, language: str | None, taken: set[int]
) -> list[tuple[int, str]]:
    """The cells that may be this part, by number, each with how it was found."""
    cells = opened.cells
    found = [(number, "id") for number, cell in enumerate(cells) if cell.grade_id == wanted.cell]
    known = {each.cell for each in form.wanted}
    free = [
        number
        for number, cell in enumerate(cells)
        if cell.grade_id not in known and number not in taken and cell.source.strip()
    ]
    if wanted.name == CODE:
        found += [(number, "text") for number in free if _is_cell_of(cells[number].source, form.exercise)]
    elif not found and (keys := {key for text in wanted.texts.values() for key in _keys(text)}):
        marked = [number for number in free if _is_answer(cells[number].source, wanted.name)]
        alike = [number for number in free if keys & _keys(cells[number].source)]
        found += [(number, "text") for number in marked or alike]
    elif not found and language is not None:
        found += [(number, "place") for number in _between(opened, wanted, form.cells[language], free)]
    return sorted(found)


def _one_of(opened: Notebook, wanted: Wanted, candidates: Sequence[tuple[int, str]]) -> tuple[str, bool, list[Finding]]:
    """The part's text, whether it was changed, and what was found. Of several changed ones the last counts, as the last
    cell that is run counts in the notebook; pieces found by their place are one answer.
    """
    given = {_plain(text) for text in wanted.texts.values()}
    told: list[Finding] = []
    if all(how == "place" for _, how in candidates):
        text = "\n\n".join(opened.cells[number].source for number, _ in candidates)
        told.append(Finding(id="handed-in-cell-stripped", values={"cell": wanted.cell}))
        return text, _plain(text) not in given, told
    changed = [each for each in candidates if _plain(opened.cells[each[0]].source) not in given]
    number, how = (changed or candidates)[-1]
    cell = opened.cells[number]
    with_id = sum(by == "id" for _, by in candidates)
    if with_id > 1:
        told.append(Finding(id="handed-in-cell-duplicated", values={"cell": wanted.cell, "count": with_id}))
    elif not with_id:
        told.append(Finding(id="handed-in-cell-stripped", values={"cell": wanted.cell}))
    elif how == "text":
        told.append(Finding(id="handed-in-cell-new", values={"cell": wanted.cell}))
    if cell.type != wanted.type:
        told.append(Finding(id="handed-in-cell-retyped", values={"cell": wanted.cell, "type": cell.type}))
    return cell.source, bool(changed), told


def _between(opened: Notebook, wanted: Wanted, given: Sequence[Cell], free: Sequence[int]) -> list[int]:
    """Cells that nobody gave out, where the part's own cell stood: between the given-out cells around it."""
    at = next((number for number, cell in enumerate(given) if cell.grade_id == wanted.cell), None)
    if at is None:
        return []
    places: dict[str, int] = {}
    for number, cell in enumerate(opened.cells):
        places.setdefault(_plain(cell.source), number)
    before = [places[_plain(cell.source)] for cell in given[:at] if _plain(cell.source) in places]
    after = [places[_plain(cell.source)] for cell in given[at + 1 :] if _plain(cell.source) in places]
    if not before and not after:
        return []
    first, last = max(before, default=-1), min(after, default=len(opened.cells))
    known = {_plain(cell.source) for cell in given}
    return [number for number in free if first < number < last and _plain(opened.cells[number].source) not in known]


def _edited(opened: Notebook, form: Form, language: str) -> int:
    """How many cells that a student has no reason to change are changed, gone, or count for other points."""
    answers = {each.cell for each in form.wanted}
    given = {cell.grade_id: cell for cell in form.cells[language] if cell.grade_id is not None}
    here = {cell.grade_id: cell for cell in opened.cells if cell.grade_id is not None}
    locked = [id for id in given if id not in answers]
    changed = sum(id not in here or _plain(here[id].source) != _plain(given[id].source) for id in locked)
    return changed + sum(id in here and here[id].points != given[id].points for id in given)


def _given_out(opened: Notebook, form: Form) -> bool:
    """Whether anything of what was given out stands in it."""
    ids = {cell.grade_id for cells in form.cells.values() for cell in cells if cell.grade_id is not None}
    texts = {_plain(cell.source) for cells in form.cells.values() for cell in cells if len(cell.source) > 80}
    return any(cell.grade_id in ids or _plain(cell.source) in texts for cell in opened.cells)


# --- which file


def _rank(read: _Read, form: Form, language: str | None) -> tuple[int, int, bool, bool, bool, int]:
    """Most changed parts come first; then a notebook, one in the student's language, one with the name given out."""
    name = PurePosixPath(read.file.name).name
    return (
        len(read.changed),
        len(read.answers),
        read.file.suffix != ".py",
        read.language == language,
        name == f"{form.name}.ipynb",
        -read.file.name.count("/"),
    )


def _place(file: File, form: Form) -> list[Finding]:
    """What is odd about where it lay and how it is called."""
    told = []
    path = PurePosixPath(file.name)
    expected = {f"{form.name}.ipynb", f"{form.exercise}.py"}
    expected |= {f"{form.name}.{code}.ipynb" for code in form.cells}
    if form.cells and path.name not in expected:
        values = {"file": path.name, "expected": f"{form.name}.ipynb"}
        told.append(Finding(id="handed-in-renamed", values=values))
    folders = path.parts[:-1]
    if file.archive:
        told.append(Finding(id="handed-in-archive", values={"file": file.archive}))
    elif folders and folders != ("languages",):
        told.append(Finding(id="handed-in-nested", values={"folder": "/".join(folders)}))
    return told


def _is_at_top(file: File) -> bool:
    return file.suffix == ".ipynb" and "/" not in file.name and not file.archive


# --- texts


def _plain(text: str) -> str:
    """A text without what editors change by themselves."""
    return "\n".join(line.rstrip() for line in text.replace("\r\n", "\n").strip().split("\n"))


def _is_cell_of(text: str, exercise: str) -> bool:
    return re.match(rf"\s*%%exercise[ \t]+{re.escape(exercise)}[ \t\r]*(\n|$)", text) is not None


def _is_answer(text: str, part: str) -> bool:
    return re.match(rf"\s*%%answer[ \t]+{re.escape(part)}[ \t\r]*(\n|$)", text) is not None


def _keys(text: str) -> set[str]:
    """The keys of the dicts in a cell, whether or not it can still be read as Python."""
    return set(re.findall(r"""["'](\w+)["']\s*:""", text[:20_000]))
