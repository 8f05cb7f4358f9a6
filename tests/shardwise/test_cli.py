"""The commands as a person types them: what they print, in which language, 0 yes, 1 no, 2 wrong use, 130 stopped."""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest

from labs.exercises import exercises
from quiz import Session
from shardwise import cli, practice, terminal
from shardwise.record import Record
from tests.shardwise import answers
from tests.shardwise.test_practice import UNIT, green
from translations import language, languages, translator

pytestmark = pytest.mark.usefixtures("learner")

Printed = pytest.CaptureFixture[str]


def run(*words: str) -> int:
    return cli.run(list(words))


# --- use


def test_help_starts_at_once() -> None:
    """Half a second of work at most: a busy machine makes it wait, not work. Nothing heavy is imported on the way."""
    heavy = "HEAVY = ('torch', 'IPython', 'jupyterlab', 'sqlalchemy', 'certificates', 'quiz');"
    script = (
        "import sys; from shardwise import cli; cli.run(['--help']); sys.exit(any(m in sys.modules for m in HEAVY))"
    )
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert subprocess.run([sys.executable, "-c", heavy + script], stdout=subprocess.DEVNULL).returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(seconds) < 0.5


@pytest.mark.parametrize("code", [each.code for each in languages() if each.released])
def test_every_command_explains_itself_in_the_learners_language(code: str, capsys: Printed) -> None:
    for words in (
        [],
        ["learn"],
        ["doctor"],
        ["lab"],
        ["lab", "list"],
        ["lab", "run"],
        ["check"],
        ["quiz", "review"],
        ["quiz", "analyse"],
        ["quiz", "export"],
        ["quiz", "import"],
        ["quiz", "exam"],
        ["certificate", "issue"],
        ["certificate", "verify"],
        ["record", "show"],
        ["record", "export"],
        ["record", "import"],
    ):
        assert run(*words, "--help", "--lang", code) == 0
        shown = capsys.readouterr().out
        id = "-".join(["cli", *words])
        first = translator(code)(f"shardwise.{id}").split()[0]
        assert first in shown, id
        assert "cli-" not in shown, "an id was not put into words"
    assert run("quiz", "4", "--help", "--lang", code) == 0
    assert translator(code)("shardwise.cli-quiz").split()[0] in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("lab",),
        ("nonsense",),
        ("--lang", "xx", "doctor"),
        ("lab", "run"),
        ("lab", "run", "nope"),
        ("lab", "run", "zero", "--stage", "7"),
        ("lab", "run", "zero", "--stage", "two"),
        ("lab", "run", "zero", "--ranks", "0"),
        ("lab", "run", "zero", "--ranks", "1000"),
        ("lab", "run", "zero", "--nope", "1"),
        ("lab", "run", "zero", "--precision", "int4"),
        ("lab", "run", "zero", "--hidden", "10", "--heads", "3"),
        ("check",),
        ("check", "zero-1"),
        ("check", "nope", "file.py"),
        ("check", "zero-1", "no-such-file.py"),
        ("quiz",),
        ("quiz", "99"),
        ("quiz", "19"),
        ("certificate", "issue", "4"),
        ("certificate", "issue", "99", "--name", "A"),
        ("certificate", "verify", "no-such-file.pdf"),
        ("certificate", "verify", "no-such-file.pdf", "--accept", "anything"),
        ("record", "export", "no-such-folder/file.json"),
        ("record", "import", "no-such-file.json"),
    ],
)
def test_wrong_use_is_2_with_a_sentence_and_no_traceback(words: tuple[str, ...], capsys: Printed) -> None:
    assert run(*words) == 2
    printed = capsys.readouterr()
    assert (printed.err + printed.out).strip()
    assert "Traceback" not in printed.err
    assert not printed.out or words in ((), ("lab",), ("lab", "run"), ("quiz",)), "only help goes to the output"


def test_an_unknown_lab_names_those_there_are(capsys: Printed) -> None:
    run("lab", "run", "zeor")
    assert "zero" in capsys.readouterr().err


def test_wrong_use_is_told_in_the_learners_language(capsys: Printed) -> None:
    run("lab", "run", "zero", "--stage", "two", "--lang=ar")
    assert "يقبل" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("lob",), ("lab", "rn"), ("doctor", "x"), ("lab", "run", "zero", "--ranks")])
def test_what_the_command_line_itself_refuses_is_told_in_the_learners_language(
    words: tuple[str, ...], capsys: Printed
) -> None:
    assert run("--lang", "nl", *words) == 2
    told = capsys.readouterr().err
    assert not any(each in told for each in ("No such", "unexpected", "requires")), told


# --- labs


def test_a_lab_prints_its_json(capsys: Printed) -> None:
    words = ("--ranks", "2", "--steps", "2", "--layers", "1", "--hidden", "16", "--heads", "2", "--sequence", "8")
    assert run("lab", "run", "zero", "--stage", "2", *words, "--json") == 0
    printed = capsys.readouterr()
    data = json.loads(printed.out)
    jsonschema.validate(data, RUN)
    assert [each["rank"] for each in data["ranks"]] == [0, 1]
    assert data["ranks"][0]["losses"] == pytest.approx(data["reference_losses"], rel=2e-6)


BYTES = {
    "type": "object",
    "required": ["parameters", "gradients", "optimizer_states", "activations", "communication", "temporary"],
    "additionalProperties": {"type": "integer"},
}
RUN = {
    "type": "object",
    "required": ["lab", "parameters", "layout", "reference_losses", "ranks"],
    "properties": {
        "lab": {"const": "zero"},
        "parameters": {"type": "integer", "minimum": 1},
        "layout": {"type": "object"},
        "reference_losses": {"type": "array", "minItems": 2, "items": {"type": "number"}},
        "ranks": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["rank", "losses", "seconds", "bytes", "collectives"],
                "properties": {
                    "losses": {"type": "array", "minItems": 2, "items": {"type": "number"}},
                    "bytes": {"type": "object", "required": ["rest", "peak"], "additionalProperties": BYTES},
                    "collectives": {
                        "type": "object",
                        "minProperties": 1,
                        "additionalProperties": {"type": "object", "required": ["count", "bytes"]},
                    },
                },
            },
        },
    },
}


def test_a_lab_shows_a_table_for_people(capsys: Printed) -> None:
    words = ("--ranks", "2", "--steps", "2", "--layers", "1", "--hidden", "16", "--heads", "2", "--sequence", "8")
    assert run("lab", "run", "zero", *words, "--lang", "nl") == 0
    shown = capsys.readouterr().out
    assert "kB" in shown
    assert "all_reduce" in shown


def test_interrupting_a_lab_ends_it_and_every_rank() -> None:
    command = [sys.executable, "-m", "shardwise.cli", "lab", "run", "zero", "--steps", "100000"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    ranks = _wait_for_ranks(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in errors
    deadline = time.monotonic() + 10
    while alive := [pid for pid in ranks if Path(f"/proc/{pid}").exists() and not _is_zombie(pid)]:
        assert time.monotonic() < deadline, f"still there: {alive}"
        time.sleep(0.1)


def _wait_for_ranks(parent: int) -> set[int]:
    """The processes under the command, once there are at least its four ranks."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = _descendants(parent)
        if len(found) >= 4:
            time.sleep(1)
            return _descendants(parent)
        time.sleep(0.2)
    raise AssertionError("no ranks were started")


def _descendants(parent: int) -> set[int]:
    parents: dict[int, int] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(status.parent.name)] = int(fields[1])
    found, frontier = set[int](), {parent}
    while frontier:
        frontier = {pid for pid, above in parents.items() if above in frontier} - found
        found |= frontier
    return found


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


# --- checks


def test_a_solution_passes_and_is_kept_and_a_stub_does_not(capsys: Printed, record: Record) -> None:
    each = next(each for each in exercises() if each.id == "zero-1")
    assert run("check", each.id, str(each.folder / "solution.py"), "--json") == 0
    verdict = json.loads(capsys.readouterr().out)
    assert set(verdict) == {"passed", "points", "of", "failed_at", "message", "rank"}
    assert verdict["passed"]
    assert record.progress(each.unit).checks == {each.id: True}
    assert run("check", each.id, str(each.folder / "stub.py")) == 1
    assert capsys.readouterr().out.strip()
    assert record.progress(each.unit).checks == {each.id: True}, "a check once green stays green"


def test_what_there_is_can_be_listed(capsys: Printed) -> None:
    assert run("check", "--list", "--json") == 0
    assert [each["exercise"] for each in json.loads(capsys.readouterr().out)] == [each.id for each in exercises()]
    assert run("lab", "list", "--json", "--lang", "ar") == 0
    assert "zero" in [each["lab"] for each in json.loads(capsys.readouterr().out)]


# --- the quiz


def take(monkeypatch: pytest.MonkeyPatch, session: Session, *, right: bool) -> None:
    """Types the answers of a whole quiz, after some nonsense that must not count."""
    lines = []
    while not session.finished:
        given = answers.find(session, right=right)
        lines += ["99", answers.typed(session.question(), given)]
        if session.question().form in ("number", "bytes"):
            lines[-2] = "many"
        session.answer(given)
        session.next()
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines) + "\n"))


@pytest.mark.parametrize("right", [True, False])
def test_a_quiz_in_the_terminal(right: bool, monkeypatch: pytest.MonkeyPatch, capsys: Printed, record: Record) -> None:
    attempt = record.attempt(unit=UNIT, language="en")
    session = Session(UNIT, "en", seed=str(attempt.seed), attempt=attempt.number)
    take(monkeypatch, session, right=right)
    assert run("quiz", "4", "--lang", "ar") == (0 if right else 1)
    shown = capsys.readouterr().out
    assert translator("ar")("quiz.question-of", number=1, total=session.total) in shown
    [kept] = record.attempts(UNIT)
    assert kept.score == (1.0 if right else 0.0)


def test_a_quiz_whose_input_ends_is_kept(monkeypatch: pytest.MonkeyPatch, record: Record) -> None:
    session = practice.quiz(record, unit=UNIT, language=language("en"))
    line = answers.typed(session.question(), answers.find(session, right=True))
    monkeypatch.setattr(sys, "stdin", io.StringIO(line + "\n"))
    assert run("quiz", UNIT) == 1
    assert len(record.answers(attempt=record.attempts(UNIT)[0].id)) == 1


def test_every_form_can_be_typed(record: Record) -> None:
    from quiz import items, units

    forms = set[str]()
    for unit in units():
        for item in items(unit):
            session = practice.recall(record, unit=unit, language=language("en"), items=[item.id])
            asked = session.question()
            given = next(answers.possible(asked, "1"))
            assert terminal.read_answer(asked, answers.typed(asked, given)) == given
            forms.add(asked.form)
    assert forms == {"choice", "several", "number", "bytes", "order", "match", "fault"}


# --- certificates


def test_certificates_are_issued_and_verified(capsys: Printed, record: Record, tmp_path: Path) -> None:
    assert run("certificate", "issue", "4", "--name", "Amal") == 1
    answers.take(practice.quiz(record, unit=UNIT, language=language("en")))
    green(record)
    capsys.readouterr()
    assert run("certificate", "issue", "4", "--name", "Amal", "--to", str(tmp_path / "mine"), "--json") == 0
    files = [Path(each) for each in json.loads(capsys.readouterr().out)["files"]]
    assert {each.suffix for each in files} == {".pdf", ".png", ".svg", ".jwt"}
    for file in files:
        assert run("certificate", "verify", str(file), "--json") == 1
        found = json.loads(capsys.readouterr().out)
        assert found["verdict"] == "practice"
        assert [each["step"] for each in found["steps"]] == STEPS
        assert run("certificate", "verify", str(file), "--accept", "practice", "--lang", "ar") == 0
        assert translator("ar")("certificates.verdict-practice") in capsys.readouterr().out
    token = next(each for each in files if each.suffix == ".jwt")
    token.write_bytes(token.read_bytes()[:-20])
    assert run("certificate", "verify", str(token), "--accept", "practice", "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["credential"]) == ("invalid", None)


STEPS = ["format", "signature", "issuer", "dates", "revocation", "recipient", "evidence"]


# --- the record


def test_a_record_moves_through_a_file(capsys: Printed, record: Record, tmp_path: Path) -> None:
    record.predict(unit=UNIT, question="q", value=1, measure="MB")
    file = tmp_path / "mine.json"
    assert run("record", "export", str(file)) == 0
    assert run("record", "import", str(file), "--lang", "nl") == 0
    assert "Toegevoegd: 0" in capsys.readouterr().out
    file.write_text("{}")
    assert run("record", "import", str(file)) == 1
    assert run("record", "show", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["record"]["predictions"] == 1
    assert len(shown["units"]) == 18
    assert run("record", "show", "--lang", "ar") == 0


def test_a_broken_record_is_told_and_kept(capsys: Printed, tmp_path: Path) -> None:
    Record.open()
    (tmp_path / "data" / "record.db").write_bytes(b"not a database any more" * 100)
    assert run("record", "show", "--lang", "nl") == 0
    assert "beschadigd" in capsys.readouterr().err
    assert list((tmp_path / "data").glob("record-broken-*"))


# --- what a system may refuse


def started(command: str, *words: str) -> subprocess.CompletedProcess[str]:
    """The command in a shell, which can close a stream or point it at a device."""
    return subprocess.run(
        ["bash", "-c", command, "bash", sys.executable, "-m", "shardwise.cli", *words],
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_output_that_finds_no_room_is_told_without_a_traceback() -> None:
    ended = started('"$@" >/dev/full', "check", "--list")
    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1)
    assert "No space left" in ended.stderr


def test_closed_streams_are_no_fault() -> None:
    assert started('"$@" >&-', "check", "--list").stderr == ""
    assert started('"$@" 2>&-', "check", "nope", "x").returncode == 2
    cut = started('"$@" | true; exit ${PIPESTATUS[0]}', "lab", "list", "--help")
    assert "Traceback" not in cut.stderr


@pytest.mark.parametrize("file", ["/dev/zero", "pipe"])
def test_a_file_without_an_end_is_no_source(file: str, tmp_path: Path, capsys: Printed) -> None:
    if file == "pipe":
        file = str(tmp_path / file)
        os.mkfifo(file)
    assert run("check", "zero-1", file, "--json") == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("start", "failed_at"),
    [("\ufeff# ", "file/empty"), ("#" * 300_000, "file/too-large"), ("#" + "é" * 150_000, "file/too-large")],
)
def test_a_source_is_read_as_an_editor_saved_it(start: str, failed_at: str, tmp_path: Path, capsys: Printed) -> None:
    file = tmp_path / "mine.py"
    file.write_text(start, encoding="utf-8")
    assert run("check", "zero-1", str(file), "--json") == 1
    assert json.loads(capsys.readouterr().out)["failed_at"] == failed_at


def test_an_address_of_any_bytes_is_compared() -> None:
    assert run("certificate", "verify", "tests/certificates/fixtures/practice_valid.jwt", "--email", "\udcff@x") == 1


@pytest.mark.parametrize("words", [("--clip", "nan"), ("--seed", "9" * 23), ("--seed", "-1")])
def test_numbers_that_no_run_can_take_are_wrong_use(words: tuple[str, str], capsys: Printed) -> None:
    assert run("lab", "run", "zero", "--json", *words) == 2
    assert capsys.readouterr().out == ""
