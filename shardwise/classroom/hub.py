"""The course on a JupyterHub that is there already.

`install` lays everything into one folder of the course's own: the kernel (with the course's own Python), the tile and
the right-to-left extension of JupyterLab, the widgets' two where the servers lack them, nbgrader's settings for
students, and a file for the Hub's configuration. The Hub's own environment is not touched, one line in
`jupyterhub_config.py` brings it in, and deleting line and folder takes it out. Servers run as their users, from the
Hub's environment; only the kernel is the course's. Nothing needs root but what the Hub itself does.

Teachers have formgrader in a tab of its own: a service of the Hub, which runs as the account that owns the course
folder, and which the Hub opens to instructors only. (In a frame of JupyterLab, where nbgrader would put it, Hubs since
4.1 leave it blank.) In students' own servers it is switched off, where their environment has it.

`open_home` is what the tile runs in a kernel.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardwise import workspace
from shardwise.classroom import needs
from shardwise.classroom.course import Course
from shardwise.learn import HOME, JUPYTER, KERNEL, TEACHERS_PAGES, TEACHERS_SERVER
from translations import CourseError, Language, languages, preferred, translator
from translations import language as find_language

EXTENSIONS = ("shardwise-direction", "shardwise-classroom")
WIDGETS = ("@jupyter-widgets/jupyterlab-manager", "anywidget")
CONFIG = "jupyterhub_config.py"
PORT = 8190
"""Where the first class's formgrader listens, on this machine alone."""
WRITTEN = "# Written by `shardwise classroom install-hub`, which writes it anew; your own settings belong elsewhere.\n"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be installed. `server` is the environment that students' servers run from, where it is known. With
    `course` its `folder` belongs to `teacher`, and `instructors` may open formgrader.
    """

    prefix: Path
    server: Path | None = None
    course: Course | None = None
    folder: Path | None = None
    teacher: str = ""
    instructors: tuple[str, ...] = ()
    port: int = PORT


@dataclass(frozen=True, kw_only=True)
class Installed:
    """What was done: the file for the Hub, the extensions, and what the Hub's owner should know."""

    config: Path
    extensions: tuple[str, ...]
    hides_formgrader: bool


def install(plan: Plan) -> Installed:
    """Lays the folder down; what an earlier run put there is replaced. Raises CourseError where it can't be written."""
    share, etc = plan.prefix / "share" / "jupyter", plan.prefix / "etc" / "jupyter"
    extensions = (*EXTENSIONS, *(each for each in WIDGETS if not _has_extension(plan.server, each)))
    hides = plan.server is not None and _enables_formgrader(plan.server)
    try:
        _kernel(share / "kernels" / KERNEL, etc)
        for name in (*EXTENSIONS, *WIDGETS):
            shutil.rmtree(share / "labextensions" / name, ignore_errors=True)
        for name in extensions:
            shutil.copytree(_extension(name), share / "labextensions" / name)
        for path, content in _settings(plan, hides=hides).items():
            _write(etc / path, content)
        config = plan.prefix / CONFIG
        _write(config, hub_config(plan))
    except OSError as error:
        raise CourseError("shardwise.hub-refused", path=str(plan.prefix), reason=error.strerror or error) from error
    return Installed(config=config, extensions=extensions, hides_formgrader=hides)


def hub_config(plan: Plan) -> str:
    """What the Hub reads. Limits are those of the labs, and set only where the Hub has none of its own."""
    share, etc = plan.prefix / "share" / "jupyter", plan.prefix / "etc" / "jupyter"
    lines = [
        WRITTEN.rstrip(),
        "# At the end of jupyterhub_config.py:",
        f"#     load_subconfig({str(plan.prefix / CONFIG)!r})",
        "c = get_config()  # noqa: F821",
        "c.Spawner.environment.update(",
        f"    {{'JUPYTER_PATH': {str(share)!r}, 'JUPYTER_CONFIG_PATH': {str(etc)!r}}}",
        ")",
        *_limits(),
    ]
    if plan.course is not None and plan.folder is not None:
        lines += _formgrader(plan, plan.course, plan.folder)
    return "\n".join(lines) + "\n"


def _limits() -> list[str]:
    largest = needs.needs()[0]
    return [
        f"# The labs take {largest.memory / 1e9:.2f} GB at most ({largest.lab}), and keep a core for each rank busy.",
        "# SystemdSpawner, DockerSpawner and KubeSpawner hold servers to this; LocalProcessSpawner does not.",
        "if 'mem_limit' not in c.Spawner:",
        f"    c.Spawner.mem_limit = '{needs.memory() // 2**30}G'",
        "if 'cpu_limit' not in c.Spawner:",
        f"    c.Spawner.cpu_limit = {needs.cores()}",
    ]


def _formgrader(plan: Plan, course: Course, folder: Path) -> list[str]:
    name, group = service(course), f"instructors-{course.id}"
    environment = {
        "JUPYTERHUB_SINGLEUSER_APP": "jupyter_server.serverapp.ServerApp",
        "JUPYTERHUB_DEFAULT_URL": "/formgrader",
        "JUPYTER_CONFIG_PATH": str(folder),
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin")),
        "LANG": "C.UTF-8",
    }
    asked: dict[str, Any] = {
        "name": name,
        "url": f"http://127.0.0.1:{plan.port}",
        "command": [sys.executable, "-m", "jupyterhub.singleuser", f"--ServerApp.root_dir={folder}"],
        "cwd": str(folder),
        "environment": environment,
        "oauth_no_confirm": True,
    }
    if plan.teacher:
        asked["user"] = plan.teacher
    role = {"name": group, "groups": [group], "scopes": [f"access:services!service={name}"]}
    return [
        "# Formgrader, in a tab of its own: Services in the Hub's menu. Only this group can open it.",
        f"c.JupyterHub.services.append({_python(asked)})",
        f"c.JupyterHub.load_groups.update({_python({group: {'users': list(plan.instructors)}})})",
        f"c.JupyterHub.load_roles.append({_python(role)})",
    ]


def service(course: Course) -> str:
    """The name of a class's formgrader among the Hub's services, as it stands in its address."""
    return "formgrader-" + "".join(each if each.isalnum() else "-" for each in course.id.lower()).strip("-")


def teacher_of(folder: Path) -> str:
    """The account that owns a course folder. Raises CourseError where it has none here."""
    try:
        return pwd.getpwuid(folder.stat().st_uid).pw_name
    except (KeyError, OSError):
        raise CourseError("shardwise.hub-no-teacher", path=str(folder)) from None


def default_prefix() -> Path:
    """A folder of the course's own environment."""
    return Path(sys.prefix) / "share" / "shardwise-hub"


# --- what the folder holds


def _kernel(folder: Path, etc: Path) -> None:
    """The kernel, whatever else the user's environment has: its Python by its path, its programs first on PATH."""
    given = json.loads((JUPYTER / "kernels" / KERNEL / "kernel.json").read_text(encoding="utf-8"))
    given["argv"][0] = sys.executable
    given["env"] = {
        "JUPYTER_CONFIG_PATH": str(etc),
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), "${PATH}")),
        "PYTHONNOUSERSITE": "1",
    }
    _write(folder / "kernel.json", json.dumps(given, indent=1) + "\n")
    _write(folder / "logo-svg.svg", (JUPYTER / "kernels" / KERNEL / "logo-svg.svg").read_text(encoding="utf-8"))


def _settings(plan: Plan, *, hides: bool) -> dict[str, str]:
    found: dict[str, str] = {}
    if plan.course is not None and plan.course.exchange:
        found["nbgrader_config.py"] = (
            f"{WRITTEN}c = get_config()  # noqa: F821\n"
            f"c.CourseDirectory.course_id = {plan.course.id!r}\n"
            f"c.Exchange.root = {plan.course.exchange!r}\n"
        )
    if hides:
        off: Mapping[str, Any] = {"ServerApp": {"jpserver_extensions": dict.fromkeys(TEACHERS_SERVER, False)}}
        found["jupyter_server_config.d/shardwise-classroom.json"] = json.dumps(off, indent=1) + "\n"
        page = {"disabledExtensions": dict.fromkeys(TEACHERS_PAGES, True)}
        found["labconfig/page_config.json"] = json.dumps(page, indent=1) + "\n"
    return found


def _extension(name: str) -> Path:
    """The built files of a JupyterLab extension. Raises CourseError where this environment lacks them."""
    from jupyter_core.paths import jupyter_path

    places = (JUPYTER, Path(sys.prefix) / "share" / "jupyter", *map(Path, jupyter_path()))
    for place in places:
        if (path := place / "labextensions" / name / "package.json").is_file():
            return path.parent
    raise CourseError("shardwise.hub-no-extension", name=name, path=", ".join(map(str, places[1:])))


def _has_extension(server: Path | None, name: str) -> bool:
    return server is not None and (server / "share" / "jupyter" / "labextensions" / name / "package.json").is_file()


def _enables_formgrader(server: Path) -> bool:
    folder = server / "etc" / "jupyter"
    for path in (*folder.glob("jupyter_server_config.d/*.json"), folder / "jupyter_server_config.json"):
        try:
            found = json.loads(path.read_text(encoding="utf-8"))["ServerApp"]["jpserver_extensions"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if isinstance(found, dict) and found.get(TEACHERS_SERVER[0]):
            return True
    return False


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_text(content, encoding="utf-8")
    part.chmod(0o644)
    part.replace(path)


def _python(value: Any) -> str:
    """A literal as Python writes it, one entry a line."""
    import pprint

    return pprint.pformat(value, width=100, sort_dicts=False)


# --- the tile


def open_home(asked: str) -> None:
    """Prints, as JSON, the path of the course's home for JupyterLab, or `error` in the learner's language. `asked` is
    JSON, too: the server's `root`, and the browser's `languages`.
    """
    known = json.loads(asked)
    language = chosen_language(known.get("languages", ()))
    try:
        print(json.dumps({"path": home(known.get("root", ""), language)}))
    except CourseError as error:
        print(json.dumps({"error": error.in_language(translator(language))}, ensure_ascii=False))


def home(root: str, language: Language) -> str:
    """The path of the language's home below the server's root; the workspace is made at the first opening."""
    above = Path(root or "~").expanduser().resolve()
    prepared = workspace.prepare(language)
    page = prepared.folder.resolve() / language.code / HOME
    if not page.is_relative_to(above):
        raise CourseError("shardwise.hub-not-below", path=str(prepared.folder), root=str(above))
    return page.relative_to(above).as_posix()


def chosen_language(browser: Sequence[str]) -> Language:
    """The language whose home was opened last; else SHARDWISE_LANG; else the browser's; else English."""
    released = {each.code for each in languages() if each.released}
    asked = [workspace.remembered() or "", os.environ.get("SHARDWISE_LANG", ""), *browser]
    codes = [each.replace("_", "-").split("-")[0].lower() for each in asked]
    return next((find_language(code) for code in codes if code in released), None) or preferred(None, {})
