"""Grading beyond one machine: files with which a cluster runs `grade-one` once for each submission.

A list of submissions, one a line; a script that grades the one of a number; and what runs it for every number: an array
of Slurm, or a Job of Kubernetes with a pod each. A task reads the course folder and writes one result, in one piece,
so that tasks may end, be repeated and run beside each other as they like. Nothing else is written: `shardwise classroom
grade` on the teacher's machine then takes what lies there, grades what is missing, and alone writes the gradebook.
"""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from labs.clusters.jobs import IMAGE, Template
from shardwise.classroom import batch
from shardwise.classroom import course as classes
from shardwise.classroom.result import Result
from translations import CourseError

KINDS = {"slurm": "slurm.sh", "kubernetes": "kubernetes.yaml"}
TEMPLATES = Path(__file__).parent / "templates" / "cluster"
FOLDER = "cluster"
"""Of the course folder: what is written here."""
LIST, TASK = "jobs.tsv", "task.sh"
MOST = 1001
"""Tasks of one array that Slurm takes as it is installed."""
_CLAIM = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_USER = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a task gets: cores, MiB of memory, and minutes; and how many run `at_once`. `image` is the container's, in
    which the course is installed, and `claim` the volume with the course folder, both under Kubernetes.
    """

    at_once: int = 20
    cpus: int = 2
    memory: int = 6144
    minutes: int = 10
    image: str = "shardwise:latest"
    claim: str = "class"

    def checked(self) -> Self:
        """Itself. Raises CourseError for what could only fail after it had waited in a queue."""
        least = {"at_once": 1, "cpus": 1, "memory": 5120, "minutes": 4}
        for name, value in least.items():
            if getattr(self, name) < value:
                raise CourseError(
                    "labs.option-at-least", name=name.replace("_", "-"), least=value, value=getattr(self, name)
                )
        if not IMAGE.fullmatch(self.image):
            raise CourseError("labs.clusters-image", image=self.image)
        if not _CLAIM.fullmatch(self.claim):
            raise CourseError("shardwise.cluster-claim", claim=self.claim)
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The files, and how many submissions are in them."""

    files: tuple[Path, ...]
    jobs: int
    start: str
    """The command that starts them."""


def write(
    folder: Path, kind: str, plan: Plan, *, assignment: str | None = None, student: str | None = None, again: bool
) -> Written:
    """Writes the files for what is not graded yet, or with `again` for all that was handed in.

    Raises CourseError where there is no class, nothing to grade, or a name that no list of lines can hold.
    """
    plan.checked()
    root = folder.resolve()
    chosen = [
        job
        for job in batch.jobs(folder, assignment=assignment, student=student)
        if job.path.exists() and (again or batch.before(job) is None)
    ]
    if not chosen:
        raise CourseError("shardwise.cluster-nothing")
    if kind == "slurm" and len(chosen) > MOST - 1:
        raise CourseError("shardwise.cluster-too-many", count=len(chosen), most=MOST - 1)
    lines = []
    for job in chosen:
        paths = [str(each.resolve().relative_to(root)) for each in (job.path, job.out)]
        words = [job.student, job.assignment, job.exercise, job.language, *paths]
        if any(re.search(r"[\t\n\r\0]", word) or not word for word in words):
            raise CourseError("shardwise.cluster-name", student=job.student)
        lines.append("\t".join(words) + "\n")
    place = root / FOLDER
    place.mkdir(exist_ok=True)
    (root / batch.RESULTS).mkdir(exist_ok=True)
    course = classes.read(folder).id
    name = re.sub(r"[^a-z0-9]+", "-", f"grade-{course}".lower()).strip("-")[:50].strip("-")
    values = {
        "name": name,
        "course": course,
        "jobs": len(lines),
        "at_once": min(plan.at_once, len(lines)),
        "cpus": plan.cpus,
        "memory": plan.memory,
        "minutes": plan.minutes,
        "seconds": 60 * plan.minutes,
        "user": _USER,
        "image": plan.image,
        "claim": plan.claim,
        "folder": FOLDER if kind == "kubernetes" else _of_sbatch(place),
        "task": shlex.quote(str(place / TASK)),
        "path": shlex.quote(str(Path(sys.executable).parent)),
    }
    file = place / KINDS[kind]
    files = {place / LIST: "".join(lines), place / TASK: _filled(TASK, values), file: _filled(KINDS[kind], values)}
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    start = {"slurm": "sbatch {file}", "kubernetes": "kubectl apply -f {file}"}[kind]
    return Written(files=tuple(files), jobs=len(lines), start=start.format(file=shlex.quote(str(file))))


def placed(result: Result, folder: Path, *, student: str, assignment: str) -> Result:
    """The result with what the course folder says of it: whose it is, and when it was handed in."""
    known = {"course": classes.read(folder).id, "student": student, "assignment": assignment}
    for job in batch.jobs(folder, assignment=assignment, student=student):
        return result.about(**known, handed_in=job.handed_in, digest=job.digest)
    return result.about(**known)


def _filled(name: str, values: dict[str, object]) -> str:
    return Template((TEMPLATES / name).read_text(encoding="utf-8")).substitute(values)


def _of_sbatch(folder: Path) -> str:
    """A folder in an option of sbatch, where a percent sign begins what is filled in and white space ends it."""
    if re.search(r"[\s\"'\\]", str(folder)):
        raise CourseError("shardwise.cluster-folder", folder=str(folder))
    return str(folder).replace("%", "%%")
