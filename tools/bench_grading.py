"""Grading a class: each submission in a sandbox of its own, beside plain nbgrader with a torchrun for each test.

`python -m tools.bench_grading --count 120 --plain 3 --workers 1,2` prints JSON. Both grade the same solution of one
lab on the same machine in one run. CPU seconds are those of all processes that took part, read from /proc while they
live: a process that ends between two looks loses what it used since the last one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from labs.exercises import exercise
from labs.exercises.zero_1.check import CASES
from shardwise.classroom import processes
from tests.shardwise.classroom.a_class import hand_in, made, right_answers

ROOT = Path(__file__).parent.parent
LAB = "zero-1"
"""Three tests, on 2, 3 and 4 ranks."""
LOOK = 0.02
LIMIT = 7200


def measured(command: Sequence[str], folder: Path, **more: str) -> dict[str, float]:
    """Wall and CPU seconds of a command and of all that it starts. Raises where it fails."""
    with (folder / "bench.log").open("wb") as log:
        begun = time.monotonic()
        process = subprocess.Popen(
            command, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT), **more}, stdout=log, stderr=log
        )
        spent: dict[int, float] = {}
        while process.poll() is None:
            if time.monotonic() - begun > LIMIT:
                process.kill()
            for pid in (process.pid, *processes.descendants(process.pid)):
                spent[pid] = max(spent.get(pid, 0.0), processes.computed(pid))
            time.sleep(LOOK)
    if process.returncode:
        raise RuntimeError((folder / "bench.log").read_text(encoding="utf-8", errors="replace")[-2000:])
    return {"seconds": time.monotonic() - begun, "cpu": sum(spent.values())}


def ours(folder: Path, *, count: int, workers: int) -> dict[str, float]:
    """As a teacher grades a class, but for the gradebook."""
    names = [f"student-{number:03}" for number in range(count)]
    course = made(folder, exercises=(LAB,), students=dict.fromkeys(names, "en"), languages=("en",))
    for name in names:
        hand_in(folder, name, right_answers(course, name, LAB), assignment=LAB)
    words = ["classroom", "grade", "--course", str(folder), "--workers", str(workers), "--dry-run"]
    took = measured([sys.executable, "-m", "shardwise.cli", *words], folder)
    found = [json.loads(path.read_text(encoding="utf-8")) for path in (folder / "results").glob(f"*/{LAB}.json")]
    assert len(found) == count
    assert all(each["verdict"]["passed"] and each["sandboxed"] for each in found)
    return took


def plain(folder: Path, *, count: int) -> dict[str, float]:
    """nbgrader as it comes: the notebook is run anew, and each test starts torchrun on what a cell wrote."""
    script = ROOT / "labs" / "exercises" / "in_rank.py"
    code = exercise(LAB).code("solution")
    cells = [_cell(f"%%writefile student.py\n{code}", "code", solution=True)]
    for number, case in enumerate(CASES):
        test = (
            "import subprocess, sys\n"
            "ended = subprocess.run([sys.executable, '-m', 'torch.distributed.run', '--standalone',\n"
            f"    '--nproc-per-node={case.ranks}', {str(script)!r}, {LAB!r}, 'student.py', '{number}', '7'],\n"
            "    capture_output=True, timeout=300)\n"
            "assert ended.returncode == 0, ended.stderr[-2000:]\n"
        )
        cells.append(_cell(test, f"test-{number}", grade=True, points=1, locked=True))
    python = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = {"cells": cells, "metadata": {"kernelspec": python}, "nbformat": 4, "nbformat_minor": 5}
    for place in [folder / "source" / LAB, *(folder / "submitted" / f"s{each}" / LAB for each in range(count))]:
        place.mkdir(parents=True)
        (place / f"{LAB}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    (folder / "nbgrader_config.py").write_text(
        "c = get_config()\nc.CourseDirectory.course_id = 'bench'\nc.ExecutePreprocessor.timeout = 600\n",
        encoding="utf-8",
    )
    beside = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    nbgrader = [sys.executable, "-m", "nbgrader"]
    measured([*nbgrader, "generate_assignment", LAB, "--create"], folder, **beside)
    took = measured([*nbgrader, "autograde", LAB, "--create"], folder, **beside)
    from nbgrader.api import Gradebook  # type: ignore[import-untyped]

    with Gradebook(f"sqlite:///{folder / 'gradebook.db'}") as book:
        scores = [each.score for each in book.assignment_submissions(LAB)]
    assert scores == [len(CASES)] * count, scores
    return took


def _cell(source: str, id: str, **more: Any) -> dict[str, Any]:
    known = {"grade": False, "solution": False, "locked": False, "task": False, "schema_version": 3}
    marked = {"nbgrader": {"grade_id": id, **known, **more}}
    return {"cell_type": "code", "id": id, "source": source, "metadata": marked, "outputs": [], "execution_count": None}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--plain", type=int, default=3)
    parser.add_argument("--workers", default="1,2")
    arguments = parser.parse_args()
    found: dict[str, Any] = {"count": arguments.count, "plain_count": arguments.plain, "workers": {}}
    with tempfile.TemporaryDirectory(prefix="shardwise-bench-") as place:
        took = plain(Path(place, "plain"), count=arguments.plain)
        found["plain"] = {name: value / arguments.plain for name, value in took.items()}
        for workers in map(int, arguments.workers.split(",")):
            took = ours(Path(place, f"ours-{workers}"), count=arguments.count, workers=workers)
            found["workers"][workers] = {name: value / arguments.count for name, value in took.items()}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
