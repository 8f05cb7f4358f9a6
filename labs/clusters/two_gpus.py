"""A notebook for the free hosted machines that have two GPUs: it installs the course there and runs the labs on NCCL.

Nobody has run it on such a machine yet, and it says so itself. Its cells of labs run in a test here, with gloo.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Any, Self

from translations import CourseError, Language, translator

_BUILD = re.compile(r"cuda|cu\d{3}")

_HERE = """\
!nvidia-smi --query-gpu=index,name,memory.total,driver_version --format=csv
!nvidia-smi topo -m"""

_INSTALL = """\
!git clone --depth 1 {course} course
!cd course && TORCH={build} SHARDWISE_LANG={language} python3 start.py doctor"""

_LAB = '''\
import json
import os
import subprocess


def lab(name, *words):
    command = ["course/.venv/bin/shardwise", "lab", "run", name, "--ranks", "2", "--json", *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if ended.returncode:
        raise SystemExit(ended.stderr)
    return json.loads(ended.stdout)


def beside(name, run):
    """{docstring}"""
    for rank in run["ranks"]:
        rest = sum(rank["bytes"]["rest"][each] for each in ("parameters", "gradients", "optimizer_states"))
        apart = [abs(one - other) for one, other in zip(rank["losses"], run["reference_losses"])]
        shown = f"{{max(apart):.1e}}" if apart else "-"
        print(f"{{name:<12}} {{rank['rank']:>4}} {{rank['predicted']['rest']:>13,}} {{rest:>13,}} {{shown:>9}}")


asked = "from labs.runner.rank import device; print(device())"
two_ranks = {{**os.environ, "LOCAL_WORLD_SIZE": "2"}}
place = subprocess.run(["course/.venv/bin/python", "-c", asked], env=two_ranks, capture_output=True, text=True)
print(place.stdout or place.stderr)'''

_HEADER = """\
print(f"{{'':<12}} {{{rank!r}:>4}} {{{formula!r}:>13}} {{{measured!r}:>13}} {{{apart!r}:>9}}")
"""

_ZERO = """\
for stage in range(4):
    beside(f"ZeRO-{stage}", lab("zero", "--stage", str(stage)))"""

_OTHERS = """\
for name in ("tensor", "sequence", "pipeline", "context", "expert", "recompute"):
    beside(name, lab(name))"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosted:
    """Where the notebook gets the course from, and for which CUDA it installs torch.

    `course` is what `git clone` takes; `build` a build of PyTorch's index that the machine's driver can run.
    """

    course: str
    build: str = "cu126"

    def checked(self) -> Self:
        """Itself. Raises CourseError for what no machine could clone or install."""
        if not self.course or self.course.startswith("-") or not self.course.isprintable():
            raise CourseError("labs.two-gpus-course", course=self.course)
        if not _BUILD.fullmatch(self.build):
            raise CourseError("labs.two-gpus-build", build=self.build)
        return self


def notebook(hosted: Hosted, *, language: Language) -> dict[str, Any]:
    """The notebook (nbformat 4.5) in the learner's language, without outputs. Cells tagged `lab` need the installed
    course alone.
    """
    hosted.checked()
    text = translator(language)
    header = _HEADER.format(
        **{name: text(f"labs.two-gpus-{name}") for name in ("rank", "formula", "measured", "apart")}
    )
    install = _INSTALL.format(
        course=shlex.quote(hosted.course).replace("{", "{{").replace("}", "}}"),  # IPython fills in braces after a `!`
        build=hosted.build,
        language=language.code,
    )
    cells = [
        _words(f"# {text('labs.two-gpus-title')}\n\n{text('labs.two-gpus-what')}"),
        _words(f"> {text('labs.two-gpus-untested')}\n\n{text('labs.two-gpus-settings')}"),
        _code(_HERE),
        _words(text("labs.two-gpus-install", build=hosted.build)),
        _code(install),
        _words(text("labs.two-gpus-device")),
        _code(_LAB.format(docstring=text("labs.two-gpus-beside")), "lab"),
        _words(text("labs.two-gpus-zero")),
        _code(header + _ZERO, "lab"),
        _words(text("labs.two-gpus-others")),
        _code(header + _OTHERS, "lab"),
        _words(text("labs.two-gpus-after")),
    ]
    return {
        "cells": [{"id": f"two-gpus-{number}", **cell} for number, cell in enumerate(cells)],
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _words(source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": source}


def _code(source: str, *tags: str) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {"tags": list(tags)},
        "outputs": [],
        "source": source,
    }
