"""start.py, run for real: a small course in a folder of its own, with packages that pip finds in a folder of wheels."""

from __future__ import annotations

import ast
import base64
import hashlib
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

import start
from tools import start_words
from translations import languages

ROOT = Path(start.__file__).parent
pytestmark = pytest.mark.xdist_group("start")
BACKEND = """
import base64, hashlib, zipfile
from pathlib import Path

def build_editable(folder, config_settings=None, metadata_directory=None):
    name = "course-1.0-py3-none-any.whl"
    files = {
        "course.pth": str(Path.cwd()),
        "course-1.0.dist-info/METADATA": "Metadata-Version: 2.1\\nName: course\\nVersion: 1.0\\n",
        "course-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    record = "course-1.0.dist-info/RECORD"
    files[record] = "".join(f"{each},,\\n" for each in [*files, record])
    with zipfile.ZipFile(Path(folder) / name, "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
    return name

def build_wheel(folder, config_settings=None, metadata_directory=None):
    raise NotImplementedError
"""
NEEDS_LIBRARY = "import pathlib\nif not pathlib.Path(__file__).with_name('cuda_library.py').exists():\n    "
NEEDS_LIBRARY += "raise ImportError('libcudart.so.13: cannot open shared object file')\n"

ENSURE = (
    "import sys, pathlib, start; words = start.Words(asked='en', environ={});"
    "start.Environment(root=pathlib.Path(sys.argv[1]), words=words, out=sys.stdout).ensure(['requirements.lock'])"
)


class Course:
    """A course of three packages and torch, and a clerk that writes down what the learner is told."""

    def __init__(self, folder: Path) -> None:
        self.root, self.wheels = folder / "course", folder / "wheels"
        self.wheels.mkdir(parents=True)
        (self.root / "shardwise" / "jupyter").mkdir(parents=True)
        (self.root / "backend.py").write_text(BACKEND)
        system = 'requires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        self.root.joinpath("pyproject.toml").write_text(
            f'[project]\nname = "course"\nversion = "1.0"\n[build-system]\n{system}'
        )
        self.packages = {name: self.wheel(name, "1.0", {f"{name}.py": "x = 1\n"}) for name in ("apple", "pear", "plum")}
        self.wheel("torch", "2.13.0", {"torch.py": "x = 1\n"})
        self.lock()

    def wheel(self, name: str, version: str, files: Mapping[str, str], requires: str = "") -> str:
        """Puts a wheel where pip looks, and returns its hash."""
        info = f"{name}-{version}.dist-info"
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}"
        tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        everything = {**files, f"{info}/METADATA": metadata, f"{info}/WHEEL": tags}
        record = ""
        for path, text in everything.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            record += f"{path},sha256={digest},{len(text.encode())}\n"
        path = self.wheels / f"{name}-{version}-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as wheel:
            for inner, text in {**everything, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
                wheel.writestr(inner, text)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    def lock(self, *, version: str = "1.0") -> None:
        pip = subprocess.run(
            [sys.executable, "-m", "pip", "--version"], capture_output=True, text=True, check=True
        ).stdout
        import ensurepip

        lines = [
            "# download linux-x86_64 3000000",
            "# torch cpu linux-x86_64 5000000",
            "# torch cuda linux-x86_64 9000000",
        ]
        for name, digest in self.packages.items():
            lines += [f"{name}=={version if name == 'plum' else '1.0'}", "#   bytes 1000000", f"#   sha256:{digest}"]
        lines += ["winnow==1.0 ; sys_platform == 'win32'", "#   bytes 1", f"#   sha256:{'0' * 64}"]
        lines += ["torch==2.13.0", f"pip=={ensurepip.version()}"]
        assert pip
        (self.root / "requirements.lock").write_text("\n".join(lines) + "\n")

    def start(self, language: str = "en", build: str = "cpu") -> tuple[start.Environment, io.StringIO]:
        said = io.StringIO()
        words = start.Words(asked=language, environ={})
        return start.Environment(root=self.root, words=words, out=said, build=build), said

    def installed(self) -> set[str]:
        site = next((self.root / ".venv" / "lib").glob("python*/site-packages"))
        return {path.name.split("-")[0] for path in site.glob("*.dist-info")}


def _only_from(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip looks into a folder only, and PyTorch's index is out of reach."""
    for name in list(os.environ):
        if name.startswith("PIP_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setattr(start, "TORCH_INDEX", "http://127.0.0.1:9/")


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Course, str]:
    """A course just installed from nothing, and what the learner was told. It takes seconds: tests share it."""
    course = Course(tmp_path_factory.mktemp("start"))
    with pytest.MonkeyPatch.context() as monkeypatch:
        _only_from(course.wheels, monkeypatch)
        environment, said = course.start()
        environment.ensure(["requirements.lock"])
    return course, said.getvalue()


@pytest.fixture
def course(first: tuple[Course, str], monkeypatch: pytest.MonkeyPatch) -> Course:
    """The shared course, whole again."""
    course = first[0]
    _only_from(course.wheels, monkeypatch)
    course.packages["plum"] = course.wheel("plum", "1.0", {"plum.py": "x = 1\n"})
    course.wheel("torch", "2.13.0", {"torch.py": "x = 1\n"})
    course.lock()
    environment, _ = course.start()
    environment.ensure(["requirements.lock"])
    return course


def test_a_fresh_clone_is_installed_with_its_size_and_progress(first: tuple[Course, str]) -> None:
    course, said = first
    assert "About 8\u202fMB will be downloaded: 3\u202fMB of packages and 5\u202fMB for PyTorch" in said
    assert re.search(r"1/\d apple 1.0\n", said)
    assert "3/3 plum 1.0" in said
    assert {"apple", "pear", "plum", "torch", "course"} <= course.installed()
    assert "winnow" not in course.installed()


def test_a_terminal_shows_one_bar_and_the_bytes_of_a_large_file(course: Course) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    environment, _ = course.start("nl")
    environment.out = Terminal()
    progress = start.Progress(total=2, out=environment.out)
    said: list[str] = []
    lines = ["Collecting apple==1.0\n", "Progress 95897341 of 191794682\n", "Ignoring plum: markers\n"]
    for line in lines:
        progress.drawn = 0.0
        environment._follow(line, progress, said, io.StringIO())
    shown = environment.out.getvalue().split("\r")
    assert shown[1].startswith(f"  [{'#' * 15}{'.' * 15}] 1/2 apple 1.0")
    assert "95,9\u202fMB / 192\u202fMB" in shown[2]
    assert progress.total == 1
    assert said == [lines[0], lines[2]]


def test_a_second_start_does_nothing_and_needs_no_network(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    environment, said = course.start()
    started = time.monotonic()
    environment.ensure(["requirements.lock"])
    assert said.getvalue() == ""
    assert time.monotonic() - started < 1


def test_a_changed_lock_installs_what_changed(course: Course) -> None:
    course.packages["plum"] = course.wheel("plum", "2.0", {"plum.py": "x = 2\n"})
    course.lock(version="2.0")
    environment, _ = course.start()
    environment.ensure(["requirements.lock"])
    shown = subprocess.run(
        [environment.python, "-c", "import plum; print(plum.x)"], capture_output=True, text=True, check=True
    )
    assert shown.stdout == "2\n"


def test_an_extra_environment_finds_in_the_courses_what_it_does_not_hold(course: Course) -> None:
    environment, said = course.start()
    digest = course.wheel("quince", "1.0", {"quince.py": "import plum\nx = plum.x\n"})
    lock = ["# download linux-x86_64 1000000", "quince==1.0", "#   bytes 1000000", f"#   sha256:{digest}"]
    (course.root / "extra.lock").write_text("\n".join(lock) + "\n")
    extra = start.Extra(environment, name=".venv-extra")
    extra.ensure(["extra.lock"])
    assert "1/1 quince 1.0" in said.getvalue()
    assert extra.found() == extra.wanted(["extra.lock"])
    shown = subprocess.run([extra.python, "-c", "import quince; print(quince.x)"], capture_output=True, text=True)
    assert shown.stdout == "1\n"
    assert "quince" not in course.installed()
    assert not list((course.root / ".venv-extra").glob("lib/python*/site-packages/plum*"))

    told = len(said.getvalue())
    extra.ensure(["extra.lock"])
    assert len(said.getvalue()) == told, "a second start does nothing"
    extra.stamp.unlink()
    next((course.root / ".venv-extra").glob("lib/python*/site-packages/quince.py")).unlink()
    extra.ensure(["extra.lock"])
    subprocess.run([extra.python, "-c", "import quince"], check=True)


@pytest.mark.parametrize("lost", ["record", "module", "metadata"])
def test_an_interrupted_installation_is_repaired(course: Course, lost: str) -> None:
    environment, said = course.start()
    site = next((course.root / ".venv" / "lib").glob("python*/site-packages"))
    gone = {"record": "pear-1.0.dist-info/RECORD", "module": "pear.py", "metadata": "pear-1.0.dist-info/METADATA"}[lost]
    (site / gone).unlink()
    stamp = json.loads(environment.stamp.read_text())
    del stamp["course"]
    environment.stamp.write_text(json.dumps(stamp))
    environment.ensure(["requirements.lock"])
    assert "did not finish" in said.getvalue()
    subprocess.run([environment.python, "-c", "import pear"], check=True)
    assert (site / "pear-1.0.dist-info" / "RECORD").exists()


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=[pytest.mark.soak, pytest.mark.timeout(900)])])
def test_a_start_can_be_killed_at_any_moment(course: Course, kills: int) -> None:
    chance = random.Random(kills)
    plums = {each: course.wheel("plum", each, {"plum.py": f"x = '{each}'\n"}) for each in ("2.0", "3.0")}
    for kill in range(kills):
        version = ("2.0", "3.0")[kill % 2]
        course.packages["plum"] = plums[version]
        course.lock(version=version)
        begun = subprocess.Popen([sys.executable, "-c", ENSURE, str(course.root)], cwd=ROOT, stdout=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.3, 3))
        begun.kill()
        begun.wait()
    environment, _ = course.start()
    environment.ensure(["requirements.lock"])
    code = "import apple, pear, plum, torch; print(plum.x)"
    shown = subprocess.run([environment.python, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == f"{version}\n"
    assert environment.found() == environment.wanted(["requirements.lock"])


@pytest.mark.parametrize("text", ["{", "[]", ""])
def test_a_stamp_that_is_no_stamp_counts_as_none(course: Course, text: str) -> None:
    environment, _ = course.start()
    whole = environment.stamp.read_text()
    environment.stamp.write_text(text)
    assert environment.found() == {}
    environment.stamp.write_text(whole)
    assert environment.found()["torch"] == "cpu"


def test_a_package_that_is_not_the_locked_one_is_refused(course: Course) -> None:
    course.wheel("plum", "1.0", {"plum.py": "x = 'other'\n"})
    site = next((course.root / ".venv" / "lib").glob("python*/site-packages"))
    shutil.rmtree(site / "plum-1.0.dist-info")
    environment, _ = course.start()
    stamp = json.loads(environment.stamp.read_text())
    environment.stamp.write_text(json.dumps({**stamp, "requirements.lock": "another"}))
    with pytest.raises(start.Problem) as raised:
        environment.ensure(["requirements.lock"])
    assert raised.value.id == "start-hash"
    assert "plum" in environment.words(raised.value.id, **raised.value.values)


def test_a_torch_without_its_libraries_gets_them_and_the_learner_is_told(course: Course) -> None:
    course.wheel("torch", "2.13.0", {"torch.py": NEEDS_LIBRARY}, requires="Requires-Dist: cuda_library\n")
    course.wheel("cuda_library", "1.0", {"cuda_library.py": "x = 1\n"})
    environment, said = course.start()
    site = next((course.root / ".venv" / "lib").glob("python*/site-packages"))
    shutil.rmtree(site / "torch-2.13.0.dist-info")
    stamp = json.loads(environment.stamp.read_text())
    del stamp["torch"]
    environment.stamp.write_text(json.dumps(stamp))
    environment.ensure(["requirements.lock"])
    assert "libcudart.so.13" in said.getvalue()
    assert "9\u202fMB" in said.getvalue()
    assert "cuda_library" in course.installed()


def test_without_a_network_the_learner_is_told_and_nothing_is_lost(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setattr(start, "RETRIES", 1)
    course.packages["plum"] = "0" * 64
    course.lock(version="3.0")
    environment, _ = course.start("nl")
    before = environment.stamp.read_text()
    with pytest.raises(start.Problem) as raised:
        environment.ensure(["requirements.lock"])
    assert raised.value.id == "start-no-network"
    said = environment.words(raised.value.id, **raised.value.values)
    assert "Connection refused" in said
    assert "Controleer de netwerkverbinding" in said
    assert json.loads(environment.stamp.read_text()).items() <= json.loads(before).items()


@pytest.mark.bwrap
@pytest.mark.parametrize(("mount", "id"), [("read-only", "start-read-only"), ("full", "start-disk-full-now")])
def test_a_folder_that_takes_no_files_is_named(tmp_path: Path, mount: str, id: str) -> None:
    root = Course(tmp_path).root
    at = ["--ro-bind", str(root), str(root)]
    if mount == "full":
        at = ["--size", "3000000", "--tmpfs", str(root), "--ro-bind", str(root / "shardwise"), str(root / "shardwise")]
        for each in ("pyproject.toml", "requirements.lock"):
            at += ["--ro-bind", str(root / each), str(root / each)]
    code = (
        "import sys, pathlib, start; words = start.Words(asked='en', environ={});"
        "environment = start.Environment(root=pathlib.Path(sys.argv[1]), words=words, out=sys.stdout)\n"
        "start.DISK_FACTOR = start.TORCH_FACTOR = 0\n"
        "try: environment.ensure(['requirements.lock'])\n"
        "except start.Problem as problem: print(problem.id)"
    )
    command = ["bwrap", "--dev-bind", "/", "/", *at, "--chdir", str(ROOT), sys.executable, "-c", code, str(root)]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert shown.stdout.splitlines()[-1:] == [id], shown.stdout + shown.stderr


def test_too_little_room_is_said_before_anything_is_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    course = Course(tmp_path)
    monkeypatch.setattr(start, "DISK_FACTOR", 10**12)
    environment, _ = course.start("ar")
    with pytest.raises(start.Problem, match="start-disk-full") as raised:
        environment.ensure(["requirements.lock"])
    assert "لا توجد مساحة كافية" in environment.words(raised.value.id, **raised.value.values)
    assert not (course.root / ".venv").exists()


def test_two_starts_at_once_install_once(course: Course) -> None:
    environment, _ = course.start()
    stamp = json.loads(environment.stamp.read_text())
    del stamp["course"]
    environment.stamp.write_text(json.dumps(stamp))
    starts = [
        subprocess.Popen([sys.executable, "-c", ENSURE, str(course.root)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [each.communicate(timeout=60)[0] for each in starts]
    assert [each.returncode for each in starts] == [0, 0]
    assert sum("Installing the course itself" in each for each in said) == 1


@pytest.mark.parametrize(
    ("output", "id"),
    [
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
            "start-disk-full-now",
        ),
        ("OSError: [Errno 30] Read-only file system: '/course/.venv'", "start-read-only"),
        (
            "WARNING: Retrying after NameResolutionError('name resolution')\nERROR: No matching distribution",
            "start-no-network",
        ),
        ("ERROR: No matching distribution found for torch==2.13.0", "start-no-torch"),
        ("ERROR: something new", "start-failed"),
    ],
)
def test_what_pip_says_becomes_a_sentence(output: str, id: str, tmp_path: Path) -> None:
    problem = start.problem_of(output, folder=tmp_path, log=tmp_path / "log")
    assert problem.id == id
    for code in ("en", "nl", "ar"):
        assert start.Words(asked=code, environ={})(problem.id, **problem.values)


def test_an_older_python_is_told_which_one_it_needs() -> None:
    problem = start.refusal((3, 9, 2), "posix")
    assert problem is not None
    said = start.Words(asked="en", environ={})(problem.id, **problem.values)
    assert "needs Python 3.11 or newer" in said
    assert "this is Python 3.9.2" in said
    assert start.refusal((3, 11, 0), "posix") is None
    windows = start.refusal((3, 12, 0), "nt")
    assert windows is not None
    assert windows.id == "start-windows"


def test_an_older_python_can_read_the_file_that_tells_it_so() -> None:
    tree = ast.parse((ROOT / "start.py").read_text(encoding="utf-8"), feature_version=(3, 7))
    imported = {
        name.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names
    }
    imported |= {(node.module or "").split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= set(sys.stdlib_module_names)
    assert "tomllib" not in imported


@pytest.mark.parametrize(
    ("environ", "asked", "code"),
    [
        ({"LANG": "nl_BE.UTF-8"}, None, "nl"),
        ({"LC_ALL": "ar_EG.UTF-8", "LANG": "nl_NL.UTF-8"}, None, "ar"),
        ({"LANG": "C.UTF-8"}, None, "en"),
        ({"SHARDWISE_LANG": "ar", "LANG": "nl_NL"}, None, "ar"),
        ({"LANG": "nl_NL"}, "en", "en"),
        ({}, "xx", "en"),
    ],
)
def test_the_first_word_is_in_the_learners_language(environ: dict[str, str], asked: str | None, code: str) -> None:
    assert start.Words(asked=asked, environ=environ).code == code


def test_every_language_has_every_word_of_the_start() -> None:
    assert start_words.PATH.read_text(encoding="utf-8") == start_words.extract()
    words = json.loads(start_words.PATH.read_text(encoding="utf-8"))
    source = (ROOT / "start.py").read_text(encoding="utf-8")
    used = set(re.findall(r"\"(start-[a-z-]+)\"", source))
    assert used == set(words["en"]["messages"])
    for language in languages():
        if language.released and language.code != "en":
            same = [id for id, text in words[language.code]["messages"].items() if text == words["en"]["messages"][id]]
            assert not same, f"{language.code}: {same}"


@pytest.mark.parametrize(
    ("asked", "installed", "build"),
    [("", "", "cpu"), ("", "cuda", "cuda"), ("cuda", "cpu", "cuda"), ("rocm", "", start.ROCM), ("cu126", "", "cu126")],
)
def test_torch_builds(asked: str, installed: str, build: str) -> None:
    assert start.build_of(asked, installed=installed) == build


def test_an_unknown_build_is_refused_with_the_choices() -> None:
    shown = subprocess.run(
        [sys.executable, "start.py", "learn", "--lang", "en"],
        cwd=ROOT,
        env={**os.environ, "TORCH": "tpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 1
    assert "TORCH=tpu is no build of PyTorch. Choose cpu, cuda or rocm" in shown.stderr


def test_make_knows_every_command() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.search(r"^([a-z -]+):$", makefile, re.MULTILINE)
    assert targets is not None
    assert set(targets.group(1).split()) == set(start.COMMANDS)
