"""The notebook for hosted machines: a valid one, whose labs run; what could be cloned nowhere is refused."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import translations
from labs.clusters.__main__ import main
from labs.clusters.two_gpus import Hosted, notebook
from translations import CourseError

ROOT = Path(__file__).parent.parent.parent.parent
ADDRESS = "https://example.org/shardwise.git"


def made(*, course: str = ADDRESS, language: str = "en") -> nbformat.NotebookNode:
    written = json.dumps(notebook(Hosted(course=course), language=translations.language(language)))
    return nbformat.reads(written, as_version=4)


@pytest.mark.parametrize("language", [each.code for each in translations.languages() if each.released])
def test_it_is_a_notebook_and_says_that_it_is_untested(language: str) -> None:
    found = made(language=language)
    nbformat.validate(found)
    text = translations.translator(translations.language(language))
    assert text("labs.two-gpus-untested") in found.cells[1].source
    for cell in found.cells:
        if cell.cell_type == "code" and "lab" in cell.metadata.tags:
            compile(cell.source, cell.id, "exec")


def test_its_labs_run_and_find_what_the_formulas_say(tmp_path: Path) -> None:
    """On gloo here; on a machine with two GPUs the same cells take NCCL. Three of the ten runs will do."""
    programs = tmp_path / "course" / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, module in (("shardwise", "-m shardwise.cli"), ("python", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {module} "$@"\n', encoding="utf-8")
        (programs / name).chmod(0o755)
    found = made()
    found.cells = [cell for cell in found.cells if "lab" in cell.metadata.get("tags", [])]
    for cell, many, few in zip(
        found.cells[1:],
        ("range(4)", '"tensor", "sequence", "pipeline", "context", "expert", "recompute"'),
        ("(2,)", '"pipeline", "expert"'),
        strict=True,
    ):
        assert many in cell.source
        cell.source = cell.source.replace(many, few)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", str(ROOT))
        patched.setenv("SHARDWISE_DATA", str(tmp_path / "data"))
        NotebookClient(
            found, kernel_name="shardwise", timeout=240, resources={"metadata": {"path": str(tmp_path)}}
        ).execute()
    printed = ["".join(output.get("text", "") for output in cell.outputs) for cell in found.cells]
    assert printed[0].strip() in ("cpu", "cuda:0")
    rows = [line.split() for page in printed[1:] for line in page.splitlines()[1:]]
    assert len(rows) == 2 * (1 + 2)
    for name, rank, formula, measured, apart in rows:
        assert rank in "01"
        assert formula == measured, name
        assert (name, rank, apart) == ("pipeline", "0", "-") or float(apart) < 1e-5


def test_the_commands_before_the_labs_are_those_of_the_course() -> None:
    install = next(cell.source for cell in made().cells if "git clone" in cell.source)
    lines = [line.removeprefix("!") for line in install.splitlines()]
    for line in lines:
        subprocess.run(["bash", "-n", "-c", line], check=True, timeout=10)
    clone, start = (shlex.split(line) for line in lines)
    assert clone == ["git", "clone", "--depth", "1", ADDRESS, "course"]
    assert start[-2:] == ["start.py", "doctor"]
    said = subprocess.run(
        [sys.executable, ROOT / "start.py", "--help"], capture_output=True, text=True, check=True, timeout=60
    )
    assert "doctor" in said.stdout


def test_an_address_survives_the_shell_and_what_ipython_fills_in(tmp_path: Path) -> None:
    address = str(tmp_path / 'it\'s "here" $HOME {name}')
    line = next(cell.source for cell in made(course=address).cells if "git clone" in cell.source).splitlines()[0]
    filled = line.removeprefix("!").replace("{{", "{").replace("}}", "}")
    assert shlex.split(filled)[-2] == address


@pytest.mark.parametrize("course", ["", "--upload-pack=x", "a\nb"])
def test_what_nobody_can_clone_is_refused(course: str) -> None:
    with pytest.raises(CourseError) as refused:
        made(course=course)
    assert refused.value.id == "labs.two-gpus-course"


@pytest.mark.parametrize("build", ["cpu", "rocm7.1", "cu126; rm"])
def test_a_build_for_other_machines_is_refused(build: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["two-gpus", "--course", ADDRESS, "--torch", build]) == 2
    assert build in capsys.readouterr().err


def test_the_command_writes_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["two-gpus", "--course", ADDRESS, "--torch", "cu128"]) == 0
    out = capsys.readouterr().out
    nbformat.validate(nbformat.reads(out, as_version=4))
    assert re.search(r"TORCH=cu128", out)
    assert os.environ.get("SHARDWISE_LANG", "en") in out
