"""The locks, pyproject.toml and environment.yml say the same, and name what the code really imports."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import start

ROOT = Path(start.__file__).parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
RUN = start.Lock(ROOT / "requirements.lock")
DEV = start.Lock(ROOT / "requirements-dev.lock")
STACKS = start.Lock(ROOT / "requirements-stacks.lock")
CLASSROOM = start.Lock(ROOT / start.CLASSROOM)
SERVICE = start.Lock(ROOT / start.SERVICE)
EXTRAS = PROJECT["project"]["optional-dependencies"]
ASK_FOR = {
    "certificates/integrity.py": "service",
    "shardwise/classroom": "classroom",
    "shardwise/service": "service",
}
"""Which folder or file may import what an extra brings."""


def requirements(lines: list[str]) -> list[Requirement]:
    return [Requirement(each) for each in lines]


def locked(*locks: start.Lock) -> dict[str, list[Requirement]]:
    found: dict[str, list[Requirement]] = {}
    for lock in locks:
        for package in lock.packages:
            requirement = Requirement(package.requirement)
            found.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return found


def test_everything_that_is_asked_for_is_locked_in_a_version_that_was_asked_for() -> None:
    groups = PROJECT["dependency-groups"]
    for asked, locks in (
        (PROJECT["project"]["dependencies"] + groups["build"], (RUN,)),
        (groups["dev"], (RUN, CLASSROOM, SERVICE, DEV)),
        (EXTRAS["classroom"], (RUN, CLASSROOM)),
        (EXTRAS["service"], (RUN, SERVICE)),
        (EXTRAS["stacks"], (RUN, STACKS)),
    ):
        for requirement in requirements(asked):
            versions = locked(*locks)[canonicalize_name(requirement.name)]
            assert all(requirement.specifier.contains(str(each.specifier)[2:]) for each in versions), requirement


def test_the_lock_is_complete_so_that_pip_resolves_nothing() -> None:
    """Every installed package's own requirements are in the lock, in a version that satisfies it."""
    names = [canonicalize_name(each) for each in locked(RUN)]
    code = (
        "import importlib.metadata as m, json, sys\n"
        "print(json.dumps({each: m.requires(each) or [] for each in json.loads(sys.argv[1])}))"
    )
    here = [name for name in names if name != "appnope"]
    shown = subprocess.run([sys.executable, "-c", code, json.dumps(here)], capture_output=True, text=True, check=True)
    versions = locked(RUN)
    for name, needs in json.loads(shown.stdout).items():
        for need in requirements(needs):
            if need.marker and not need.marker.evaluate({"extra": ""}):
                continue
            if name == "torch" and re.match("nvidia|triton|cuda", need.name):
                continue
            assert canonicalize_name(need.name) in versions, f"{name} needs {need}"


def test_every_package_but_torch_has_hashes_and_a_size() -> None:
    for package in (each for lock in (RUN, CLASSROOM, SERVICE, DEV, STACKS) for each in lock.packages):
        assert bool(package.hashes) == (package.name != "torch"), package.name
        assert package.name == "torch" or package.bytes > 0
        assert re.fullmatch(r"[a-z0-9-]+==[^\s;]+( ; .+)?", package.requirement)
    assert RUN.find("pip").url.startswith("https://files.pythonhosted.org/")
    assert "torch" not in RUN.requirements()
    for machine in ("linux-x86_64", "linux-aarch64", "macos-arm64"):
        assert RUN.download[machine] > 50_000_000
        assert DEV.download[machine] > 1_000_000
        assert STACKS.download[machine] > 1_000_000


def test_the_locks_name_no_host_but_the_public_ones() -> None:
    for name in ("requirements.lock", "requirements-dev.lock", "requirements-stacks.lock", "environment.yml"):
        hosts = set(re.findall(r"https?://([^/\s]+)", (ROOT / name).read_text(encoding="utf-8")))
        assert hosts <= {"files.pythonhosted.org", "download.pytorch.org"}


def test_conda_installs_the_same_lock() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    python, pip, installed = environment["dependencies"]
    assert Requirement(python).specifier.contains("3.11.0")
    assert PROJECT["project"]["requires-python"] == ">=3.11"
    assert Requirement(pip).name == "pip"
    assert installed["pip"] == [
        "--extra-index-url https://download.pytorch.org/whl/cpu",
        "-r requirements.lock",
        "-e .",
    ]
    assert start.TORCH_INDEX + "cpu" == "https://download.pytorch.org/whl/cpu"
    assert not re.search(r"^[^#].*--hash", RUN.text, re.MULTILINE), "pip would want a hash for torch and the course too"


def test_what_the_course_imports_is_a_dependency() -> None:
    rooms = ("certificates", "labs", "lessons", "quiz", "shardwise", "translations")
    always = {canonicalize_name(each.name) for each in requirements(PROJECT["project"]["dependencies"])}
    brought = {name: {canonicalize_name(each.name) for each in requirements(EXTRAS[name])} for name in EXTRAS}
    providers = packages_distributions()
    missing = set()
    for room in rooms:
        for path in ROOT.joinpath(room).rglob("*.py"):
            folder = "/".join(path.relative_to(ROOT).parts[:2])
            asked = always | (brought[ASK_FOR[folder]] if folder in ASK_FOR else set())
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and not node.level:
                    names = [node.module or ""]
                for name in {each.split(".")[0] for each in names} - set(sys.stdlib_module_names) - {*rooms, ""}:
                    distributions = {canonicalize_name(each) for each in providers.get(name, [])}
                    if distributions and not distributions & asked:
                        missing.add(f"{path.relative_to(ROOT)}: {name}")
    assert not missing


def test_every_dependency_is_explained() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8").lower()
    asked = (
        PROJECT["project"]["dependencies"] + PROJECT["dependency-groups"]["build"] + PROJECT["dependency-groups"]["dev"]
    ) + [each for extra in EXTRAS.values() for each in extra]
    for requirement in requirements(asked):
        name = "types-*" if requirement.name.startswith("types-") else requirement.name
        assert re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", page), f"{name} is not in docs/dependencies.md"
