"""What the doctor says of a class: about this machine, and about broken ones; each with how to mend it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from shardwise import cli
from shardwise.classroom import examination, walls
from shardwise.doctor import Finding
from tests.shardwise.classroom import a_class
from translations import CourseError, translator

CODES = ("en", "nl", "ar")


def said(finding: Finding) -> str:
    for code in CODES:
        assert finding.sentence(translator(code))
    return finding.sentence(translator("en"))


@pytest.mark.bwrap
@pytest.mark.serial
def test_this_machine_is_ready_for_a_class() -> None:
    found = examination.examine()
    states = {each.id: each.state for each in found.findings}
    wanted = {"sandbox", "namespaces", "nbgrader", "alembic", "python", "fonts", "zones", "limits"}
    assert wanted <= set(states)
    assert [said(each) for each in found.findings if each.state == "missing"] == []


def test_a_sandbox_that_can_t_be_made_stops_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_name: str | None = None) -> walls.Backend:
        raise CourseError("shardwise.sandbox-unknown", name="x", known="bubblewrap")

    monkeypatch.setattr(walls, "backend", none)
    (finding,) = examination._sandbox()
    assert finding.state == "missing"
    assert "nothing is graded" in said(finding)


def test_user_namespaces_are_really_tried_and_what_bars_them_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "_TRIED", "import sys; sys.exit(1)")
    monkeypatch.setattr(examination, "_setting", {"user.max_user_namespaces": "0"}.get)
    (barred,) = examination._namespaces()
    assert barred.state == "missing"
    assert "sudo sysctl -w user.max_user_namespaces=15000" in said(barred)
    monkeypatch.setattr(examination, "_setting", lambda _name: None)
    (refused,) = examination._namespaces()
    assert os.strerror(1) in said(refused)


def test_alembic_is_called_by_its_name_so_it_must_be_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (finding,) = examination._alembic()
    assert finding.state == "missing"
    assert str(Path(sys.executable).parent) in said(finding)
    broken = tmp_path / "alembic"
    broken.write_text("#!/bin/false\n")
    broken.chmod(0o755)
    (finding,) = examination._alembic()
    assert (finding.state, finding.message) == ("missing", "doctor-class-alembic-broken")


def test_commands_of_a_class_find_alembic_from_wherever_they_are_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.run(["classroom", "announce", str(tmp_path)]) == 2  # there is no class; that is not what is asked here
    (finding,) = examination._alembic()
    assert finding.state == "ok"


def test_debians_python_is_told_by_what_breaks_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """With Python 3.11.2 itself, where it is here; else with the failure that it has."""
    old = shutil.which("python3.11", path="/usr/bin")
    asked = [old or "", "-c", "import sys; print(sys.version_info[:3] == (3, 11, 2))"]
    if old and subprocess.run(asked, capture_output=True, text=True).stdout.strip() == "True":
        packages = next(each for each in sys.path if each.endswith("site-packages"))
        monkeypatch.setenv("PYTHONPATH", packages)
        monkeypatch.setattr(sys, "executable", old)
    else:
        monkeypatch.setattr(examination, "_FEEDBACK", "raise SystemError('invalid character')")
    (finding,) = examination._python()
    assert finding.state == "missing"
    assert "3.11.4" in said(finding)


def test_the_exchange_and_its_modes(tmp_path: Path) -> None:
    root = tmp_path / "exchange"
    (missing,) = examination._folders(root, "dst")
    assert f"sudo install -d -m 1777 {root}" in said(missing)
    root.mkdir(mode=0o755)
    (closed,) = examination._folders(root, "dst")
    assert (closed.state, closed.message) == ("missing", "doctor-class-exchange-closed")
    root.chmod(0o777)
    (loose,) = examination._folders(root, "dst")
    assert (loose.state, loose.message) == ("warn", "doctor-class-exchange-not-sticky")
    root.chmod(0o1777)
    for name, mode in (("inbound", 0o733), ("outbound", 0o755), ("feedback", 0o711)):
        (root / "dst" / name).mkdir(parents=True)
        (root / "dst" / name).chmod(mode)
    (good,) = examination._folders(root, "dst")
    assert good.state == "ok"
    (root / "dst" / "inbound").chmod(0o777)  # everyone could read what others hand in
    (root / "dst" / "feedback").chmod(0o700)
    _, inbound, feedback = examination._folders(root, "dst")
    for finding, folder, right in ((inbound, "inbound", "733"), (feedback, "feedback", "711")):
        assert finding.state == "missing"
        assert f"chmod {right} {root / 'dst' / folder}" in said(finding)


def test_a_course_folder_that_students_could_read_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "course"
    a_class.made(folder)
    for name in ("_sandbox", "_namespaces", "_alembic", "_python"):
        monkeypatch.setattr(examination, name, lambda: iter(()))
    folder.chmod(0o755)
    assert cli.run(["doctor", "--course", str(folder)]) == 1
    assert f"chmod o-rwx {folder}" in capsys.readouterr().out
    folder.chmod(0o700)
    monkeypatch.chdir(folder)
    assert cli.run(["doctor", "--classroom"]) == 0  # the folder in which one stands
    assert f"{folder.name}" not in capsys.readouterr().err
