"""Writes ``requirements.lock`` and its companions anew: ``python tools/lock.py`` (needs ``pip install uv``).

uv resolves what ``pyproject.toml`` asks for, once for every Python from 3.11 and for Linux and macOS together. Versions
that are locked now are kept where they still fit; ``--upgrade`` takes the newest. The locks are requirements files that
plain pip reads. Sizes and hashes are comments, which ``start.py`` turns into pip's ``--hash`` options: pip wants hashes
for all or for none, and torch has none, since which of its builds is installed is the learner's choice.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.markers import Marker

ROOT = Path(__file__).resolve().parent.parent
TITLES = {
    "": "everything the course runs on",
    "classroom": "what a teacher needs besides",
    "service": "what an issuer of certificates needs besides",
    "stacks": "what the labs of the real stacks need besides",
    "dev": "what the tests and checks need besides",
}
TORCH = "torch"
TORCH_ALONE = ("filelock", "typing-extensions", "setuptools", "sympy", "networkx", "jinja2", "fsspec")
"""What torch needs on a CPU: its metadata on the index also asks for CUDA's libraries."""
MACHINES: Mapping[str, str] = {
    "linux-x86_64": r"manylinux.*_x86_64",
    "linux-aarch64": r"manylinux.*_aarch64",
    "macos-arm64": r"macosx.*_(arm64|universal2)",
}
TORCH_CPU_BYTES: Mapping[str, int] = {"linux-x86_64": 191_794_682}
"""Of the CPU build of torch 2.13.0, which is in PyTorch's own index only; to be looked at when torch changes."""
PYTHONS = ("3.11.9", "3.11.2", "3.12.9", "3.13.9", "3.14.9")
_FOREIGN_PLATFORM = re.compile(
    r"win32|win_amd64|win_arm64|ppc64|s390x|i686|armv7|riscv|loongarch|emscripten|pyodide|wasm|ios_|android"
)
_PYTHON_TAG = re.compile(r"-(py2\.py3|py3|cp3(?:\d|1\d)-abi3|cp31[1-9])[-.]")

Package = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--upgrade", action="store_true", help="take the newest versions instead of keeping the locked ones"
    )
    parser.add_argument("--uv", default="uv", help="the uv program")
    arguments = parser.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    runtime = [*project["project"]["dependencies"], *project["dependency-groups"]["build"]]
    wanted = {name: [*runtime, *extras[name]] for name in ("classroom", "service", "stacks")}
    wanted["dev"] = [*wanted["classroom"], *extras["service"], *project["dependency-groups"]["dev"]]
    kept = () if arguments.upgrade else tuple(locked_versions())
    course = resolve(runtime, constraints=kept, uv=arguments.uv)
    sizes = torch_sizes(next(each for each in course if each["name"] == TORCH), uv=arguments.uv)
    (ROOT / "requirements.lock").write_text(text(TITLES[""], course, sizes), encoding="utf-8")
    print(f"{len(course)} packages to run the course")
    fixed = pinned(course)
    for name, requirements in wanted.items():
        found = resolve(requirements, constraints=[*fixed, *kept], uv=arguments.uv)
        held = set(fixed) if name != "stacks" else set(pinned(course))  # the stacks lie in an environment of their own
        besides = [each for each in found if not held & set(pinned([each]))]
        (ROOT / f"requirements-{name}.lock").write_text(text(TITLES[name], besides, {}), encoding="utf-8")
        print(f"{len(besides)} more for {name}")
        if name != "stacks":
            fixed = [*fixed, *(each for each in pinned(besides) if each not in fixed)]
    return 0


def pinned(packages: Iterable[Package]) -> list[str]:
    """The packages in these very versions."""
    return [f"{each['name']}=={each['version']}{marker(each, lead=' ; ')}" for each in packages]


def locked_versions() -> Iterable[str]:
    """What the locks say now, as constraints."""
    for path in sorted(ROOT.glob("requirements*.lock")):
        yield from (line for line in path.read_text(encoding="utf-8").splitlines() if re.match(r"[A-Za-z0-9]", line))


def resolve(
    requirements: Sequence[str], *, constraints: Sequence[str], uv: str, torch_alone: bool = True
) -> list[Package]:
    """The packages of a universal resolution, Windows left out."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in.txt").write_text("\n".join(requirements), encoding="utf-8")
        (folder / "constraints.txt").write_text("\n".join(constraints), encoding="utf-8")
        quoted = ", ".join(f'"{each}"' for each in TORCH_ALONE)
        metadata = f'[[dependency-metadata]]\nname = "{TORCH}"\nrequires-dist = [{quoted}]\n' if torch_alone else ""
        (folder / "uv.toml").write_text(metadata, encoding="utf-8")
        command = [
            uv,
            "pip",
            "compile",
            "--config-file",
            "uv.toml",
            "--universal",
            "--python-version",
            "3.11",
            "--quiet",
        ]
        command += [
            "--default-index",
            "https://pypi.org/simple",
            "--constraint",
            "constraints.txt",
            "--format",
            "pylock.toml",
        ]
        subprocess.run(
            [*command, "in.txt", "--output-file", "pylock.toml"],
            check=True,
            cwd=folder,
            timeout=600,
            stdout=subprocess.DEVNULL,
        )
        found: list[Package] = tomllib.loads((folder / "pylock.toml").read_text(encoding="utf-8"))["packages"]
    return [each for each in found if any(runs_on(each, machine, python) for machine in MACHINES for python in PYTHONS)]


def marker(package: Package, *, lead: str = "") -> str:
    """When the package is needed, without the conditions that hold on every machine and Python of ours."""
    parts = str(package.get("marker", "")).split(" and ")
    if "(" in package.get("marker", ""):
        parts = []
    telling = [
        each
        for each in parts
        if each and not all(holds(each, machine, python) for machine in MACHINES for python in PYTHONS)
    ]
    return lead + " and ".join(telling) if telling else ""


def runs_on(package: Package, machine: str, python: str = PYTHONS[0]) -> bool:
    """Whether the package is needed there."""
    return holds(package.get("marker", ""), machine, python)


def holds(condition: str, machine: str, python: str) -> bool:
    if not condition:
        return True
    system, processor = machine.split("-")
    name = {"linux": "linux", "macos": "darwin"}[system]
    release = python.rpartition(".")[0]
    environment = {
        "sys_platform": name,
        "os_name": "posix",
        "platform_machine": processor,
        "python_full_version": python,
    }
    return Marker(condition).evaluate({**environment, "python_version": release, "implementation_name": "cpython"})


def text(title: str, packages: Sequence[Package], torch: Mapping[str, int]) -> str:
    """The lock: a header with the download's size on each machine, then the packages with theirs and their hashes."""
    lines = [
        f"# {title}; written by tools/lock.py, not by hand",
        "# pip install --no-deps -r THIS FILE installs all of it.",
    ]
    for machine in MACHINES:
        total = sum(size(each, machine) for each in packages if each["name"] != TORCH and runs_on(each, machine))
        lines.append(f"# download {machine} {total}")
    lines += [f"# torch {build} {count}" for build, count in torch.items()]
    for package in packages:
        lines.append(f"{package['name']}=={package['version']}{marker(package, lead=' ; ')}")
        if package["name"] == TORCH:
            continue
        lines.append(f"#   bytes {size(package, 'linux-x86_64')}")
        if package["name"] == "pip":
            lines.append(f"#   url {package['wheels'][0]['url']}")
        lines += [f"#   sha256:{each['hashes']['sha256']}" for each in files(package)]
    return "\n".join(lines) + "\n"


def files(package: Package) -> list[dict[str, Any]]:
    """The package's files that a Python 3.11 or later on Linux or macOS may choose."""
    wheels = [each for each in package.get("wheels", ()) if _PYTHON_TAG.search(file_name(each))]
    wheels = [each for each in wheels if not _FOREIGN_PLATFORM.search(file_name(each))]
    return [*wheels, *([package["sdist"]] if "sdist" in package else [])]


def file_name(file: Mapping[str, Any]) -> str:
    return str(file["url"]).rsplit("/", 1)[-1]


def size(package: Package, machine: str) -> int:
    """Bytes of the file that CPython 3.11 takes there; the source where there is no wheel."""
    for platform in (MACHINES[machine], "-any"):
        for python in ("cp311-", "abi3", "py3", "py2.py3"):
            for file in files(package):
                if python in file_name(file) and re.search(platform, file_name(file)):
                    return int(file["size"])
    return int(package["sdist"]["size"])


def torch_sizes(torch: Package, *, uv: str) -> dict[str, int]:
    """Bytes of each build of torch, with the libraries that it brings."""
    everything = resolve([f"{TORCH}=={torch['version']}"], constraints=(), uv=uv, torch_alone=False)
    libraries = sum(size(each, "linux-x86_64") for each in everything if re.match(r"nvidia|cuda|triton", each["name"]))
    sizes = {f"cpu {machine}": count for machine, count in TORCH_CPU_BYTES.items()}
    sizes["cpu macos-arm64"] = size(torch, "macos-arm64")
    return {**sizes, "cuda linux-x86_64": size(torch, "linux-x86_64") + libraries}


if __name__ == "__main__":
    sys.exit(main())
