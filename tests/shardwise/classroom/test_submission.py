"""Whatever was handed in is read, and what was odd about it is told; nothing is followed, run or unpacked on disk."""

from __future__ import annotations

import io
import json
import os
import resource
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from shardwise.classroom import handed_in
from shardwise.classroom.course import Course
from shardwise.classroom.grading import form
from shardwise.classroom.notebook_file import HERE
from shardwise.classroom.submission import Form, Submission, read
from tests.shardwise.classroom.a_class import EXERCISE, Notebook, answered, cell, given, hand_in, made, right_answers

pytestmark = pytest.mark.timeout(60)


class Desk:
    """A class with one assignment and one student."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.course: Course = made(folder, students={"anna": "en"})
        self.form: Form = form(folder, self.course.assignment(EXERCISE))
        self.answers = right_answers(self.course, "anna")

    def hand_in(self, change: Callable[[Notebook], Notebook | None] | None = None, *, language: str = "en") -> Path:
        return hand_in(self.folder, "anna", self.answers, language=language, change=change)

    def read(self, path: Path) -> Submission:
        return read(path, self.form)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return Desk(tmp_path_factory.mktemp("class"))


@pytest.fixture(autouse=True)
def _nothing_handed_in_yet(desk: Desk) -> None:
    import shutil

    shutil.rmtree(desk.folder / "submitted", ignore_errors=True)


def found(submission: Submission) -> set[str]:
    return {each.id.removeprefix("handed-in-") for each in submission.findings}


def test_an_honest_hand_in_is_read_without_a_word(desk: Desk) -> None:
    submission = desk.read(desk.hand_in())
    assert dict(submission.answers) == desk.answers
    assert (submission.file, submission.language) == (f"{EXERCISE}.ipynb", "en")
    assert not submission.findings
    assert not submission.untouched
    assert submission.problem is None
    assert submission.names == (EXERCISE,)


def test_what_is_as_it_was_given_out_is_told_apart(desk: Desk) -> None:
    submission = desk.read(hand_in(desk.folder, "anna", {"explain": "because"}))
    assert submission.untouched == {"code", "fault", "numbers"}


@pytest.mark.parametrize("code", ["nl", "ar"])
def test_the_notebook_that_was_worked_in_counts_whatever_its_language(desk: Desk, code: str) -> None:
    submission = desk.read(desk.hand_in(language=code))
    assert dict(submission.answers) == desk.answers
    assert (submission.language, submission.file) == (code, f"languages/{EXERCISE}.{code}.ipynb")
    assert not submission.findings


@pytest.mark.parametrize("code", ["nl", "ar"])
def test_of_notebooks_in_which_nothing_was_written_the_students_language_counts(desk: Desk, code: str) -> None:
    place = hand_in(desk.folder, "anna", {}, language=code)
    assert read(place, desk.form, language=code).language == code
    assert desk.read(place).language == "en"


def duplicated(notebook: Notebook) -> None:
    """The answer twice: as given out after the one that was written."""
    own = cell(notebook, "code-answer")
    untouched = {**own, "id": "again", "source": next(iter(_stub()))}
    notebook["cells"].insert(notebook["cells"].index(own) + 1, untouched)


def _stub() -> list[str]:
    from labs.exercises import exercise

    return [f"%%exercise {EXERCISE}\n{exercise(EXERCISE).code('stub')}"]


def deleted_check(notebook: Notebook) -> None:
    notebook["cells"] = [each for each in notebook["cells"] if each is not cell(notebook, "code")]


def edited_check(notebook: Notebook) -> None:
    cell(notebook, "code")["source"] = "print('full marks')"
    cell(notebook, "code")["metadata"]["nbgrader"]["points"] = 800


def stripped(notebook: Notebook) -> None:
    """As a tool leaves it that drops what it does not know."""
    for each in notebook["cells"]:
        each["metadata"] = {}


def retyped(notebook: Notebook) -> None:
    cell(notebook, "code-answer")["cell_type"] = "markdown"
    cell(notebook, "explain")["cell_type"] = "raw"


def old_schema(notebook: Notebook) -> None:
    for each in notebook["cells"]:
        each["metadata"]["nbgrader"] = {"grade_id": each["metadata"]["nbgrader"]["grade_id"], "grade": True}


def old_format(notebook: Notebook) -> Notebook:
    cells = []
    for each in notebook["cells"]:
        old = {"cell_type": each["cell_type"], "metadata": each["metadata"]}
        cells.append(old | ({"input": [each["source"]]} if each["cell_type"] == "code" else {"source": each["source"]}))
    return {"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": [{"cells": cells}]}


def lines(notebook: Notebook) -> None:
    for each in notebook["cells"]:
        each["source"] = each["source"].splitlines(keepends=True)


def windows(notebook: Notebook) -> None:
    for each in notebook["cells"]:
        each["source"] = each["source"].replace("\n", "\r\n")


def nonsense_around(notebook: Notebook) -> None:
    """Cells that no notebook has, and metadata of other kinds: the rest is read."""
    notebook["cells"] += [None, 7, {"cell_type": 3, "source": {"a": 1}}, {"source": ["x", None]}, {"metadata": []}]
    notebook["cells"].insert(0, {"cell_type": "code", "metadata": {"nbgrader": "yes"}, "source": "1"})
    notebook["metadata"] = []


ACCIDENTS: dict[str, tuple[Callable[[Notebook], Notebook | None], set[str]]] = {
    "duplicated": (duplicated, {"cell-duplicated"}),
    "a check deleted": (deleted_check, {"edited"}),
    "a check edited": (edited_check, {"edited"}),
    "stripped of metadata": (stripped, {"cell-stripped", "edited"}),
    "cells of another type": (retyped, {"cell-retyped"}),
    "metadata of an old schema": (old_schema, {"old-schema", "edited"}),
    "an old format": (old_format, {"old-format"}),
    "texts as lines": (lines, set()),
    "lines of Windows": (windows, set()),
    "nonsense around": (nonsense_around, set()),
}


@pytest.mark.parametrize("name", ACCIDENTS)
@pytest.mark.parametrize("code", ["en", "ar"])
def test_answers_are_found_after_an_accident(desk: Desk, name: str, code: str) -> None:
    change, expected = ACCIDENTS[name]
    submission = desk.read(desk.hand_in(change, language=code))
    assert {part: text.replace("\r\n", "\n") for part, text in submission.answers.items()} == desk.answers
    assert submission.language == code
    assert found(submission) == expected


def test_a_deleted_answer_is_told_and_the_rest_is_read(desk: Desk) -> None:
    def change(notebook: Notebook) -> None:
        notebook["cells"] = [each for each in notebook["cells"] if each is not cell(notebook, "fault-answer")]

    submission = desk.read(desk.hand_in(change))
    assert set(submission.answers) == {"code", "numbers", "explain"}
    assert found(submission) == {"cell-deleted"}


def test_code_in_a_new_cell_counts_as_it_does_in_the_notebook(desk: Desk) -> None:
    """The last cell that begins with the magic is what the workspace holds."""

    def change(notebook: Notebook) -> None:
        cell(notebook, "code-answer")["source"] = _stub()[0]
        notebook["cells"].append({"cell_type": "code", "metadata": {}, "source": desk.answers["code"], "outputs": []})

    submission = desk.read(desk.hand_in(change))
    assert submission.answers["code"] == desk.answers["code"]
    assert found(submission) == {"cell-new"}


def test_an_explanation_in_pieces_is_one_answer(desk: Desk) -> None:
    def change(notebook: Notebook) -> None:
        at = notebook["cells"].index(cell(notebook, "explain"))
        pieces = [{"cell_type": "markdown", "metadata": {}, "source": text} for text in ("First.", "Second.")]
        notebook["cells"][at : at + 1] = pieces

    assert desk.read(desk.hand_in(change)).answers["explain"] == "First.\n\nSecond."


# --- files and folders


def put(folder: Path, name: str, data: bytes) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def notebook_bytes(desk: Desk, language: str = "en") -> bytes:
    return json.dumps(answered(given(desk.folder, language=language), desk.answers)).encode()


def zipped(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in files.items():
            packed.writestr(name, data)
    return out.getvalue()


def tarred(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as packed:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            packed.addfile(member, io.BytesIO(data))
    return out.getvalue()


PLACES: dict[str, tuple[Callable[[bytes], dict[str, bytes]], set[str]]] = {
    "renamed": (lambda data: {"model states (final) (2).ipynb": data}, {"renamed"}),
    "with another ending": (lambda data: {f"{EXERCISE}.ipynb.txt": data}, {"renamed"}),
    "as JSON": (lambda data: {f"{EXERCISE}.json": data}, {"renamed"}),
    "nested": (lambda data: {f"my work/{EXERCISE}/{EXERCISE}.ipynb": data}, {"nested"}),
    "in a zip": (lambda data: {"work.zip": zipped({f"work/{EXERCISE}.ipynb": data})}, {"archive"}),
    "in a zip in a folder": (lambda data: {"a/work.ZIP": zipped({f"{EXERCISE}.ipynb": data})}, {"archive"}),
    "in a tar": (lambda data: {"work.tar.gz": tarred({f"work/{EXERCISE}.ipynb": data})}, {"archive"}),
    "with a way up": (lambda data: {"work.zip": zipped({f"../../../{EXERCISE}.ipynb": data})}, {"archive"}),
    "beside a copy by macOS": (
        lambda data: {"w.zip": zipped({f"__MACOSX/._{EXERCISE}.ipynb": b"\0", f"{EXERCISE}.ipynb": data})},
        {"archive"},
    ),
    "beside a saved point": (
        lambda data: {f"{EXERCISE}.ipynb": data, f".ipynb_checkpoints/{EXERCISE}-checkpoint.ipynb": b"{}"},
        set(),
    ),
    "with a mark of its encoding": (lambda data: {f"{EXERCISE}.ipynb": b"\xef\xbb\xbf" + data}, set()),
    "beside a broken one": (lambda data: {f"{EXERCISE}.ipynb": b"{", "copy.ipynb": data}, {"broken", "renamed"}),
    "beside an empty one": (lambda data: {f"{EXERCISE}.ipynb": b"", "copy.ipynb": data}, {"empty", "renamed"}),
    "beside a bad archive": (lambda data: {f"{EXERCISE}.ipynb": data, "x.zip": b"PK\3\4 no"}, {"bad-archive"}),
}


@pytest.mark.parametrize("name", PLACES)
def test_the_work_is_found_where_it_lies(desk: Desk, name: str) -> None:
    files, expected = PLACES[name]
    place = desk.folder / "submitted/anna" / EXERCISE
    for each, data in files(notebook_bytes(desk)).items():
        put(place, each, data)
    before = sorted(desk.folder.rglob("*"))
    submission = desk.read(place)
    assert dict(submission.answers) == desk.answers
    assert found(submission) == expected
    assert sorted(desk.folder.rglob("*")) == before


def test_of_several_notebooks_the_changed_one_counts(desk: Desk) -> None:
    place = desk.folder / "submitted/anna" / EXERCISE
    put(place, f"{EXERCISE}.ipynb", json.dumps(given(desk.folder)).encode())
    put(place, f"{EXERCISE}-Copy1.ipynb", notebook_bytes(desk))
    half = answered(given(desk.folder), {"fault": desk.answers["fault"]})
    put(place, "old.ipynb", json.dumps(half).encode())
    submission = desk.read(place)
    assert submission.file == f"{EXERCISE}-Copy1.ipynb"
    assert dict(submission.answers) == desk.answers
    assert set(submission.names) == {EXERCISE, f"{EXERCISE}-Copy1", "old"}


def test_parts_that_were_answered_in_two_languages_are_put_together(desk: Desk) -> None:
    place = desk.folder / "submitted/anna" / EXERCISE
    own = {part: desk.answers[part] for part in ("code", "fault", "numbers")}
    put(place, f"{EXERCISE}.ipynb", json.dumps(answered(given(desk.folder), own)).encode())
    dutch = answered(given(desk.folder, language="nl"), {"explain": "Daarom."})
    put(place, f"languages/{EXERCISE}.nl.ipynb", json.dumps(dutch).encode())
    submission = desk.read(place)
    assert dict(submission.answers) == {**own, "explain": "Daarom."}
    assert submission.language == "en"
    assert found(submission) == {"part-elsewhere"}
    assert not submission.untouched


def test_a_file_of_code_alone_is_the_code(desk: Desk) -> None:
    place = desk.folder / "submitted/anna" / EXERCISE
    put(place, f"{EXERCISE}.py", desk.answers["code"].encode())
    submission = desk.read(place)
    assert dict(submission.answers) == {"code": desk.answers["code"]}
    assert "code-only" in found(submission)


PROBLEMS: dict[str, tuple[dict[str, bytes], str]] = {
    "an empty folder": ({}, "nothing"),
    "only nbgrader's own": ({"timestamp.txt": b"2026-11-20 10:00:00 UTC"}, "nothing"),
    "an empty file": ({f"{EXERCISE}.ipynb": b""}, "empty"),
    "no cells": ({f"{EXERCISE}.ipynb": b'{"nbformat": 4, "metadata": {}, "cells": []}'}, "empty"),
    "half a notebook": ({f"{EXERCISE}.ipynb": b'{"nbformat": 4, "cells": [{"cell_type": "co'}, "broken"),
    "a conflict": ({f"{EXERCISE}.ipynb": b'<<<<<<< HEAD\n{"nbformat": 4}\n'}, "broken"),
    "no JSON object": ({f"{EXERCISE}.ipynb": b"[1, 2]"}, "broken"),
    "a page": ({f"{EXERCISE}.ipynb": b"<!DOCTYPE html><html></html>"}, "broken"),
    "a binary": ({f"{EXERCISE}.ipynb": bytes(range(256)) * 50}, "broken"),
    "nested without end": ({f"{EXERCISE}.ipynb": b"[" * 200_000}, "broken"),
    "a number without end": ({f"{EXERCISE}.ipynb": b'{"cells": ' + b"9" * 10_000 + b"}"}, "broken"),
    "another notebook": (
        {
            f"{EXERCISE}.ipynb": b'{"nbformat": 4, "cells": [{"cell_type": "code", "metadata": {}, "source": "1+1"}]}',
        },
        "other-notebook",
    ),
    "a picture": ({"photo.png": b"\x89PNG"}, "no-notebook"),
    "code of something else": ({"other.py": b"x = 1"}, "no-notebook"),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_where_nothing_can_be_graded_there_is_a_reason(desk: Desk, name: str) -> None:
    files, problem = PROBLEMS[name]
    place = desk.folder / "submitted/anna" / EXERCISE
    place.mkdir(parents=True)
    for each, data in files.items():
        put(place, each, data)
    submission = desk.read(place)
    assert submission.problem is not None
    assert submission.problem.id == f"handed-in-{problem}"
    assert not submission.answers


@pytest.mark.serial
def test_a_hundred_megabytes_of_output_are_not_looked_at(desk: Desk) -> None:
    def change(notebook: Notebook) -> None:
        text = ["step 1: loss 3.14159 on rank 0\n"] * 3_300_000
        cell(notebook, "code")["outputs"] = [{"output_type": "stream", "name": "stdout", "text": text}]

    place = desk.hand_in(change)
    assert (place / f"{EXERCISE}.ipynb").stat().st_size > 100_000_000
    begun = time.monotonic()
    submission = desk.read(place)
    assert time.monotonic() - begun < 40
    assert dict(submission.answers) == desk.answers
    assert found(submission) == {"large"}


def test_what_would_fill_the_memory_is_a_reason_and_no_end(desk: Desk) -> None:
    """Three bytes of JSON are sixty of Python: the process that reads them ends, and not the grader."""
    place = desk.folder / "submitted/anna" / EXERCISE
    put(place, f"{EXERCISE}.ipynb", b'{"cells": [' + b"{}," * ((HERE * 5) // 3) + b"0.1]}")
    put(place, "bomb.zip", zipped({"bomb.ipynb": b'{"nbformat": 4, "cells": [' + b" " * 300_000_000}))
    submission = desk.read(place)
    assert submission.problem is not None or "too-much" in found(submission)
    assert "too-much" in found(submission)


def test_links_pipes_and_devices_are_left_alone(desk: Desk, tmp_path: Path) -> None:
    place = desk.hand_in()
    secret = tmp_path / "gradebook.ipynb"
    secret.write_bytes(notebook_bytes(desk).replace(b"Each rank", b"SECRET"))
    (place / f"{EXERCISE}.ipynb").unlink()
    (place / f"{EXERCISE}.ipynb").symlink_to(secret)
    (place / "folder").symlink_to(tmp_path)
    os.mkfifo(place / "pipe.ipynb")
    submission = desk.read(place)
    assert not submission.answers
    assert [each.id for each in submission.findings] == ["handed-in-link", "handed-in-link"]
    outside = tmp_path / "elsewhere"
    outside.symlink_to(place)
    assert not handed_in.gather(outside).files


def pax_bomb() -> bytes:
    """A header that says that a gigabyte of it follows, and it does."""
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 10**9
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    zeros = bytes(10**7)
    packed = [packer.compress(header.tobuf()), *(packer.compress(zeros) for _ in range(100)), packer.flush()]
    return b"".join(packed)


@pytest.mark.parametrize("name", ["entries.zip", "header.tgz"])
def test_archives_that_grow_without_end_are_left_out_before_they_do(desk: Desk, name: str) -> None:
    bomb = zipped({f"{number}.txt": b"" for number in range(40_000)}) if name == "entries.zip" else pax_bomb()
    place = desk.hand_in()
    put(place, name, bomb)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    submission = desk.read(place)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 700_000  # kB
    assert found(submission) == {"too-much"}
    assert dict(submission.answers) == desk.answers


def test_links_in_archives_are_left_out(desk: Desk) -> None:
    place = desk.folder / "submitted/anna" / EXERCISE
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as packed:
        for kind, name in ((tarfile.SYMTYPE, "a.ipynb"), (tarfile.LNKTYPE, "b.ipynb"), (tarfile.FIFOTYPE, "c.ipynb")):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd"
            packed.addfile(member)
    put(place, "work.tar", out.getvalue())
    assert not handed_in.gather(place).files


def test_the_digest_follows_the_work_and_not_the_moment(desk: Desk) -> None:
    place = desk.hand_in()
    first = handed_in.digest(place)
    (place / "timestamp.txt").write_text("2030-01-01 00:00:00 UTC", encoding="utf-8")
    assert handed_in.digest(place) == first == desk.read(place).digest
    (place / "notes.txt").write_text("x", encoding="utf-8")
    second = handed_in.digest(place)
    (place / "notes.txt").rename(place / "other.txt")
    assert len({first, second, handed_in.digest(place)}) == 3


def test_halves_of_characters_and_names_that_are_no_text_are_read(desk: Desk) -> None:
    def change(notebook: Notebook) -> None:
        cell(notebook, "explain")["source"] = "half \ud800 of one"

    place = desk.hand_in(change)
    put(place, os.fsdecode(b"\xff\xfe.ipynb"), b"{")
    submission = desk.read(place)
    submission.answers["explain"].encode("utf-8")
    assert dict(submission.answers) | {"explain": ""} == desk.answers | {"explain": ""}
