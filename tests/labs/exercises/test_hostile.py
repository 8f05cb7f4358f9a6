"""Files that are wrong, careless or hostile: a clear verdict each time, never a crash, and nothing gained."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from labs.exercises import check, exercise, hint
from labs.runner import client
from translations import CourseError

HEAD = "import os, sys, torch\nimport torch.distributed as dist\n"


def zero_1(body: str) -> str:
    return HEAD + "def optimizer_step(units):\n" + "".join(f"    {line}\n" for line in body.splitlines())


UNRUN = {
    "empty": ("", "file/empty", "no code yet"),
    "comments only": ("# later\n'''text'''\n", "file/empty", "optimizer_step"),
    "syntax": ("def optimizer_step(units):\n    return (\n", "file/syntax", "Line 2"),
    "indentation": ("def optimizer_step(units):\nreturn\n", "file/syntax", "return"),
    "magic": ("!pip install x\n", "file/syntax", "Line 1"),
    "null": ("def optimizer_step(units):\n    pass\0\n", "file/", "Python"),
    "deep": ("x = " + "(" * 5000 + ")" * 5000, "file/", ""),
    "other name": ("def step(units):\n    pass\n", "file/no-such-name", "optimizer_step"),
    "no parameter": ("def optimizer_step():\n    pass\n", "file/signature", "units: list[Unit]"),
    "two parameters": ("def optimizer_step(units, group):\n    pass\n", "file/signature", "other parameters"),
    "async": ("async def optimizer_step(units):\n    pass\n", "file/async", "async"),
    "other exercise": ("%%exercise zero-2\ndef reduce_gradients(unit):\n    pass\n", "file/other-exercise", "zero-2"),
    "too large": ("#" * 300_000, "file/too-large", "200000"),
}


@pytest.mark.parametrize("name", UNRUN)
def test_what_is_seen_without_running(name: str) -> None:
    source, failed_at, says = UNRUN[name]
    verdict = check("zero-1", source)
    assert (verdict.failed_at or "").startswith(failed_at)
    assert says in verdict.message
    assert (verdict.passed, verdict.points) == (False, 0)


def test_class_without_a_method() -> None:
    verdict = check("zero-3", "class ShardedPiece:\n    def __init__(self, unit):\n        pass\n")
    assert verdict.failed_at == "file/no-such-method"
    assert "before_forward" in verdict.message
    assert check("zero-3", "def ShardedPiece(unit):\n    pass\n").failed_at == "file/not-a-class"


@pytest.mark.parametrize(
    "definition",
    [
        "def model_states(how_many, *, precision): return solution(how_many, precision=precision)",
        "def model_states(parameters, precision, verbose=False): return solution(parameters, precision=precision)",
        "def model_states(*args, **kwargs): return solution(*args, **kwargs)",
        "model_states = solution",
        "if True:\n    from functools import partial\n    model_states = partial(solution)",
        "class States:\n    def __call__(self, p, precision): return solution(p, precision=precision)\n"
        "model_states = States()",
    ],
)
def test_free_in_form(definition: str) -> None:
    source = exercise("model-states").code("solution").replace("def model_states", "def solution")
    assert check("model-states", f"%%exercise model-states\n{source}\n{definition}\n").passed


RUN = {
    "prints passed": (
        "print('passed: 10 of 10')\nprint('{\"passed\": true}')",
        "ownership/not-updated",
        "never called",
    ),
    "exits": ("sys.exit(0)", "file/exit", "exit"),
    "exits at once": ("os._exit(0)", "", ""),
    "dies": ("os.kill(os.getpid(), 9)", "shape/died", "Rank"),
    "one rank dies": ("if dist.get_rank() == 1: os.kill(os.getpid(), 11)\ndist.barrier()", "shape/died", "1"),
    "raises": ("raise ValueError('my own fault')", "shape/raised", "my own fault"),
    "raises in one rank": ("if dist.get_rank() == 1: units[9]\ndist.barrier()", "shape/raised", "IndexError"),
    "raises BaseException": ("raise BaseException('x')", "shape/raised", "BaseException"),
    "interrupts itself": ("raise KeyboardInterrupt", "", ""),
    "endless recursion": ("optimizer_step(units)", "shape/raised", "RecursionError"),
    "floods": ("for _ in range(20000): print('x' * 100)", "ownership/not-updated", ""),
    "always equal": (
        "class Equal(torch.Tensor):\n    def __eq__(self, other): return True\n    def __sub__(self, other): return 0\n"
        "for unit in units: unit.update(unit.shard.detach().clone().as_subclass(Equal))",
        "gradients/",
        "",
    ),
    "spoils comparison": (
        "torch.equal = torch.allclose = lambda *a, **k: True\ntorch.Tensor.__sub__ = lambda a, b: a * 0",
        "ownership/not-updated",
        "",
    ),
    "forges the report": (
        "from labs.runner import rank\nrank.report({'updates': [[['x']] * 4] * 2, 'collectives': {}}, {})\nos._exit(0)",
        "",
        "",
    ),
    "replaces the report": (
        "from labs.runner import rank\nrank.report = lambda *a, **k: None",
        "shape/no-result",
        "without leaving a result",
    ),
    "reports rubbish": (
        "from labs.runner import rank\nold = rank.report\nrank.report = lambda *a, **k: old([1, {'updates': 5}], {})",
        "ownership/not-updated",
        "",
    ),
    "leaves a pipe": (
        "from labs.runner import rank\n"
        "rank.report = lambda *a, **k: os.mkfifo(os.environ['SHARDWISE_RUN'] + '/rank-%d.json' % rank.number())",
        "shape/no-result",
        "without leaving a result",
    ),
    "leaves no end": (
        "from labs.runner import rank\n"
        "file = os.environ['SHARDWISE_RUN'] + '/rank-%d.json' % rank.number()\n"
        "rank.report = lambda *a, **k: os.symlink('/dev/zero', file)",
        "shape/no-result",
        "",
    ),
    "reports other rubbish": (
        "from labs.runner import rank\nold = rank.report\n"
        "rank.report = lambda *a, **k: old({'updates': [[{'a': 1}] * 9] * 2}, {})",
        "shape/no-result",
        "",
    ),
    "pipes everywhere": (
        "for end in ('failure', 'json', 'safetensors'):\n"
        "    os.mkfifo(os.environ['SHARDWISE_RUN'] + f'/rank-{dist.get_rank()}.{end}')\n"
        "os.kill(os.getpid(), 9)",
        "shape/died",
        "SIGKILL",
    ),
    "forges a failure": (
        "with open(os.environ['SHARDWISE_RUN'] + f'/rank-{dist.get_rank()}.failure', 'w') as file:\n"
        '    file.write(\'{"time": "x", "secondary": 0, "error": 1, "where": 2, "own": 3, "full": 4,\'\n'
        "    ' \"message\": [[], 5]}')\n"
        "os._exit(3)",
        "shape/died",
        "",
    ),
    "fake failure without names": (
        "from labs.exercises.trial import Found\nfake = Found('step', 'sum')\n"
        'fake.args = (\'{"group": "step", "id": "raised", "values": [[1, 2]]}\',)\nraise fake',
        "shape/raised",
        "",
    ),
    "deletes its file": (
        "if os.path.exists(__file__) and dist.get_rank() == 0: os.remove(__file__)",
        "ownership/not-updated",
        "",
    ),
    "leaves nonsense": ("for unit in units: unit.whole = 'nothing'", "shape/raised", "After your function returned"),
    "fake failure": ("from labs.exercises.trial import Found\nraise Found('step', 'sum')", "shape/raised", "Found"),
    "fake late failure": (
        "from labs.exercises.trial import Found\nraise Found('more-ranks', 'exit')",
        "more-ranks/exit",
        "",
    ),
}


@pytest.mark.parametrize("name", RUN)
def test_what_is_seen_by_running(name: str) -> None:
    body, failed_at, says = RUN[name]
    verdict = check("zero-1", zero_1(body), patience=5)
    assert not verdict.passed
    assert verdict.points <= (3 if name == "always equal" else 1)
    assert (verdict.failed_at or "").startswith(failed_at), verdict.failed_at
    assert says in verdict.message
    assert len(verdict.message) < 3000
    assert len(verdict.printed) <= 4000
    assert "in_rank.py" not in verdict.message


def test_endless_loop_ends_in_time() -> None:
    begun = time.monotonic()
    verdict = check("zero-1", zero_1("while True: pass"), timeout=4)
    assert verdict.failed_at == "shape/hung"
    assert "loop" in verdict.message
    assert time.monotonic() - begun < 30


HEARTBEAT = "os.environ['SHARDWISE_RUN'] + '/heartbeat'"
SPOILING = {
    "kills": "os.kill(os.getppid(), 9)",
    "stops": "os.kill(os.getppid(), 19)\nimport time\ntime.sleep(60)",
    "truncates": f"import time\nos.truncate({HEARTBEAT}, 0)\ntime.sleep(60)",
    "overwrites": f"with open({HEARTBEAT}, 'r+b') as file: file.write(b'\\xff' * 9000)\nos._exit(3)",
}


@pytest.mark.parametrize("name", SPOILING)
def test_a_file_that_spoils_what_leads_its_ranks_gets_a_verdict(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_SILENCE_LIMIT", 5.0)
    verdict = check("zero-1", zero_1(SPOILING[name]), "nl", timeout=15)
    assert not verdict.passed
    assert verdict.points == 0
    assert (verdict.failed_at or "").startswith("shape/")
    assert "punten" in verdict.message
    json.dumps(verdict.as_dict())


def test_skipped_collective_names_the_rank() -> None:
    source = exercise("zero-1").code("solution").replace("in units:", "in units[: 4 - (units[0].rank == 1)]:")
    verdict = check("zero-1", source, patience=4)
    assert verdict.failed_at in ("shape/hung", "shape/mismatch")
    assert verdict.rank == 1
    assert "1" in verdict.message.split("\n")[0]


def test_traceback_is_short_and_the_learners_own() -> None:
    verdict = check("zero-1", "\n" + zero_1("unit = units[0]\nraise ValueError('shards')"))
    assert "line 6" in verdict.message
    assert "raise ValueError('shards')" in verdict.message
    assert "site-packages" not in verdict.message


def test_error_at_import_is_told() -> None:
    verdict = check("zero-1", "import no_such_module\n" + zero_1("pass"))
    assert verdict.failed_at == "shape/raised"
    assert "no_such_module" in verdict.message
    assert "line 1" in verdict.message


def test_files_are_read_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "my solution é.py"
    file.write_text("﻿" + exercise("model-states").code("solution"), encoding="utf-8")
    before = file.read_bytes()
    assert check("model-states", file).passed
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("name", ["missing.py", "folder", "binary.py", "large.py"])
def test_files_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\x00\x80")
    (tmp_path / "large.py").write_bytes(b"#" * 300_000)
    with pytest.raises(CourseError):
        check("zero-1", tmp_path / name)


def test_unknown_exercise_and_hint() -> None:
    with pytest.raises(CourseError, match="zero-1"):
        check("zero-9", "")
    with pytest.raises(CourseError, match="1 to 3"):
        hint("zero-1", 4)


def test_verdict_as_json() -> None:
    verdict = check("zero-1", "")
    told = json.loads(json.dumps(verdict.as_dict()))
    assert list(told) == ["passed", "points", "of", "failed_at", "message", "rank"]
    assert told["of"] == 10
