"""What is laid down for a JupyterHub, what the tile asks, what a student's server should be given; without a Hub."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from traitlets.config import Config

from labs import catalogue
from shardwise import cli, workspace
from shardwise.classroom import hub, needs
from shardwise.learn import JUPYTER, KERNEL
from tests.shardwise.classroom import a_class
from translations import CourseError, language


def plan(tmp_path: Path, **more: object) -> hub.Plan:
    course = a_class.made(tmp_path / "course", exchange="/srv/exchange")
    known: dict[str, object] = {"course": course, "folder": tmp_path / "course", "teacher": "grader"}
    return hub.Plan(prefix=tmp_path / "hub", **{**known, **more})  # type: ignore[arg-type]


def read(config: Path) -> Config:
    """The Hub's configuration, as the Hub reads it."""
    found = Config()
    exec(compile(config.read_text(encoding="utf-8"), str(config), "exec"), {"get_config": lambda: found})
    return found


def test_the_kernel_is_the_courses_own_whatever_the_servers_environment_has(tmp_path: Path) -> None:
    hub.install(plan(tmp_path))
    kernel = json.loads((tmp_path / "hub" / "share" / "jupyter" / "kernels" / KERNEL / "kernel.json").read_text())
    assert kernel["argv"][0] == sys.executable
    assert kernel["env"]["PATH"] == f"{Path(sys.executable).parent}{os.pathsep}${{PATH}}"
    assert kernel["env"]["JUPYTER_CONFIG_PATH"] == str(tmp_path / "hub" / "etc" / "jupyter")
    settings = (tmp_path / "hub" / "etc" / "jupyter" / "nbgrader_config.py").read_text()
    assert "c.Exchange.root = '/srv/exchange'" in settings


def test_only_instructors_may_open_formgrader_which_runs_as_the_teacher(tmp_path: Path) -> None:
    done = hub.install(plan(tmp_path, instructors=("ada", "grace")))
    found = read(done.config)
    (service,) = found.JupyterHub.services.get_value([])
    assert service["user"] == "grader"
    assert service["url"].startswith("http://127.0.0.1:")
    (role,) = found.JupyterHub.load_roles.get_value([])
    assert role["scopes"] == [f"access:services!service={service['name']}"]
    (group,) = role["groups"]
    assert found.JupyterHub.load_groups.get_value({})[group] == {"users": ["ada", "grace"]}
    assert found.Spawner.mem_limit == f"{needs.memory() // 2**30}G"


def test_limits_of_the_hub_stay(tmp_path: Path) -> None:
    done = hub.install(plan(tmp_path))
    found = Config({"Spawner": {"mem_limit": "2G", "cpu_limit": 1}})
    exec(compile(done.config.read_text(), "config", "exec"), {"get_config": lambda: found})
    assert (found.Spawner.mem_limit, found.Spawner.cpu_limit) == ("2G", 1)


def test_installing_again_leaves_no_trace_of_the_first_time(tmp_path: Path) -> None:
    def files() -> dict[str, bytes]:
        top = tmp_path / "hub"
        return {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}

    hub.install(plan(tmp_path))
    first = files()
    assert any("anywidget" in name for name in first)
    hub.install(plan(tmp_path))
    assert files() == first
    server = tmp_path / "server"
    for name in hub.WIDGETS:
        path = server / "share" / "jupyter" / "labextensions" / name / "package.json"
        path.parent.mkdir(parents=True)
        path.write_text("{}")
    done = hub.install(plan(tmp_path, server=server))
    assert done.extensions == hub.EXTENSIONS  # the servers' own widgets are not put aside
    assert not any("anywidget" in name for name in files())


def test_formgrader_is_switched_off_only_where_the_servers_would_show_it_to_all(tmp_path: Path) -> None:
    assert not hub.install(plan(tmp_path)).hides_formgrader
    assert not (tmp_path / "hub" / "etc" / "jupyter" / "jupyter_server_config.d").exists()
    server = Path(sys.prefix)
    done = hub.install(plan(tmp_path, server=server))
    shown = (server / "etc" / "jupyter" / "jupyter_server_config.d" / "nbgrader.json").exists()
    assert done.hides_formgrader is shown
    if shown:
        off = tmp_path / "hub" / "etc" / "jupyter" / "jupyter_server_config.d" / "shardwise-classroom.json"
        told = json.loads(off.read_text())["ServerApp"]["jpserver_extensions"]
        assert told["nbgrader.server_extensions.formgrader"] is False


def test_a_folder_that_cant_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "hub").write_text("in the way")
    with pytest.raises(CourseError, match="--prefix"):
        hub.install(plan(tmp_path))


def test_the_command_says_what_to_write_and_where_formgrader_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = plan(tmp_path)
    words = ["classroom", "install-hub", str(asked.folder), "--prefix", str(asked.prefix), "--instructors", "ada, bo"]
    assert cli.run(words) == 0
    said = capsys.readouterr().out
    assert f"load_subconfig({str(asked.prefix / hub.CONFIG)!r})" in said
    assert "/services/formgrader-dst-test/" in said
    assert "ada, bo" in said


# --- the tile


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHARDWISE_HOME", str(tmp_path / "shardwise"))
    monkeypatch.delenv("SHARDWISE_LANG", raising=False)
    return tmp_path


def test_the_home_opens_in_the_browsers_language_and_then_in_the_one_that_was_chosen(
    user: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.open_home(json.dumps({"root": str(user), "languages": ["ar-EG", "en"]}))
    assert json.loads(capsys.readouterr().out) == {"path": "shardwise/ar/home.ipynb"}
    assert (user / "shardwise" / "ar" / "04-zero-1.ipynb").is_file()  # copied at the first opening
    workspace.remember(language("nl"))
    hub.open_home(json.dumps({"root": "~", "languages": ["ar-EG"]}))
    assert json.loads(capsys.readouterr().out) == {"path": "shardwise/nl/home.ipynb"}
    assert hub.chosen_language(["tlh"]).code == "nl"


def test_a_language_that_there_is_not_is_english(user: Path) -> None:
    assert user.is_dir()
    assert hub.chosen_language(["tlh", "fr-FR"]).code == "en"


def test_a_workspace_that_the_server_does_not_show_is_told(user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hub.open_home(json.dumps({"root": str(user / "elsewhere"), "languages": ["en"]}))
    assert "SHARDWISE_HOME" in json.loads(capsys.readouterr().out)["error"]


def test_tile_and_kernel_are_in_what_is_installed() -> None:
    for name in hub.EXTENSIONS:
        folder = JUPYTER / "labextensions" / name
        package = json.loads((folder / "package.json").read_text())
        assert package["name"] == name
        assert (folder / package["jupyterlab"]["_build"]["load"]).is_file()


# --- what labs take


def test_every_lab_was_measured_and_the_largest_fits_with_room() -> None:
    measured = {each.lab: each for each in needs.needs()}
    assert set(measured) == set(catalogue.LABS)
    for name, each in measured.items():
        assert each.ranks == catalogue.ranks_of(name, {}, None)
    own = [each.memory for name, each in measured.items() if not catalogue.LABS[name].needs]
    assert needs.memory() > max(own) * 1.2
    assert needs.memory() % 2**30 == 0


def test_the_documentation_has_what_was_measured() -> None:
    text = (Path(hub.__file__).parents[2] / "docs" / "classroom.md").read_text(encoding="utf-8")
    assert needs.table() in text


@pytest.mark.soak
def test_a_lab_takes_what_was_measured() -> None:
    found = {each.lab: each for each in needs.needs()}["tensor"]
    again = needs.measure("tensor")
    assert again.memory < 1.5 * found.memory
    assert found.memory < 2 * again.memory
