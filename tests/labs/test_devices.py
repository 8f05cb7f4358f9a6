"""One code path for every accelerator: no lab and no strategy names a device, and the backend follows what is there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from labs.runner import rank

LABS = Path(__file__).parent.parent.parent / "labs"
DEVICES = {"cuda", "rocm", "hip", "mps", "xpu", "hpu", "npu", "xla", "nccl", "rccl", "xccl"}
ABOUT_DEVICES = {"planner", "clusters", "stacks", "exercises/device"}
"""What speaks of hardware: a vendor's context, a scheduler's name of a GPU, what a real stack is told, and the exercise
on this very rule.
"""
READS_OF_THEM = {"runner/failure.py"}
"""What a backend says when it fails."""


def code() -> Iterator[Path]:
    for file in sorted(LABS.rglob("*.py")):
        name = file.relative_to(LABS)
        if not {name.parts[0], name.parent.as_posix()} & ABOUT_DEVICES and name.as_posix() not in READS_OF_THEM:
            yield file


def words(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Names and texts of the code, without its docstrings."""
    told = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=word) | ast.Name(id=word):
                yield node.lineno, word
            case ast.Constant(value=str(word)) if id(node) not in told:
                yield node.lineno, word


def named(text: str) -> list[tuple[int, str]]:
    return sorted(
        (line, word) for line, word in words(ast.parse(text)) if set(re.findall(r"[a-z]+", word.lower())) & DEVICES
    )


def test_no_lab_and_no_strategy_names_a_device() -> None:
    files = list(code())
    assert len(files) > 100
    found = {file.relative_to(LABS).as_posix(): named(file.read_text(encoding="utf-8")) for file in files}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_the_scan_finds_a_device() -> None:
    assert named('"""On cuda."""\nx = torch.cuda.is_available()\ny = x.to("cuda:0")') == [(2, "cuda"), (3, "cuda:0")]


@pytest.mark.parametrize(
    ("kind", "backend"), [("cuda", "cpu:gloo,cuda:nccl"), ("xpu", "cpu:gloo,xpu:xccl"), (None, "gloo")]
)
def test_the_backend_is_that_of_the_accelerator(
    kind: str | None, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under ROCm torch calls its devices "cuda" and RCCL "nccl": the same line."""
    asked: list[Any] = []

    def stop(backend: str, **_: Any) -> None:
        asked.append(backend)
        raise InterruptedError

    found = None if kind is None else torch.device(kind)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda **_: found)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 1)
    monkeypatch.setattr(torch.accelerator, "set_device_index", lambda _: None)
    monkeypatch.setattr(dist, "init_process_group", stop)
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(InterruptedError), rank.group():
        pass
    assert asked == [backend]
    assert rank.device().type == (kind or "cpu")


def test_ranks_that_must_share_an_accelerator_run_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda **_: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 1)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert rank.device().type == "cpu"
