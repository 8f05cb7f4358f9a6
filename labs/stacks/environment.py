"""Which interpreter has the real stacks: this one (`pip install shardwise[stacks]`), or that of `make stacks`."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import sys
from pathlib import Path

from translations import CourseError

FOLDER = Path(__file__).parents[2] / ".venv-stacks"
NAMES = {
    "accelerate": "Accelerate",
    "deepspeed": "DeepSpeed",
    "megatron.core": "Megatron Core",
    "transformers": "Transformers",
}


def needs(*packages: str) -> Path:
    """The interpreter that can import all of the packages; CourseError that says in one sentence what to install.

    Give it to `labs.runner.run(..., python=)`; `Lab(needs=...)` does so by itself.
    """
    if all(_here(each) for each in packages):
        return Path(sys.executable)
    for each in packages:
        if not _installed(each):
            raise CourseError("labs.needs-stack", name=NAMES[each])
    return FOLDER / "bin" / "python"


def version(package: str) -> str:
    """Of a distribution in the environment that has it, as `pip` names it; CourseError where it is missing."""
    python = needs(*(name for name in NAMES if name.split(".")[0] == package.split("-")[0]))
    if python == Path(sys.executable):
        return importlib.metadata.version(package)
    places = [str(place) for place in FOLDER.glob("lib/python*/site-packages")]
    return next(each.version for each in importlib.metadata.distributions(name=package, path=places))


def missing(*packages: str) -> str:
    """The sentence that `needs` would raise, for a test that is skipped; empty where nothing is missing."""
    try:
        needs(*packages)
    except CourseError as error:
        return str(error)
    return ""


def _here(package: str) -> bool:
    """Whether this interpreter has it; the package is not imported, only one that it lies in."""
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def _installed(package: str) -> bool:
    """Whether the environment of `make stacks` is whole, by its stamp, and has the package."""
    try:
        stamp = json.loads((FOLDER / "shardwise-stamp.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    places = FOLDER.glob("lib/python*/site-packages")
    return "requirements-stacks.lock" in stamp and any(place.joinpath(*package.split(".")).is_dir() for place in places)
