"""What the doctor says about this machine, and about broken ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import translations
from shardwise import doctor

pytestmark = pytest.mark.serial
CODES = ("en", "nl", "ar")


@pytest.fixture(scope="module")
def found() -> doctor.Examination:
    return doctor.examine()


def test_this_machine_is_examined_in_every_language(found: doctor.Examination) -> None:
    ids = [each.id for each in found.findings]
    assert ids == [
        "python",
        "torch",
        "gpu",
        "gloo",
        "cores",
        "memory",
        "disk",
        "jupyter",
        "workspace",
        "languages",
        *ids[-3:],
    ]
    assert ids[-3:] == ["chromium", "node", "bubblewrap"]
    assert found.ready
    for code in CODES:
        text = translations.translator(code)
        lines = found.lines(text)
        assert len(lines) == len(ids)
        told = found.as_json(text)
        assert [each["id"] for each in told] == ids
        assert all(each["state"] in ("ok", "warn", "missing") and each["sentence"] for each in told)
    assert "GB" in next(line for line in found.lines(translations.translator("en")) if "Memory" in line)


def test_two_real_ranks_talk_or_the_reason_is_told(found: doctor.Examination, monkeypatch: pytest.MonkeyPatch) -> None:
    assert next(each for each in found.findings if each.id == "gloo").state == "ok"
    monkeypatch.setattr(doctor, "_RANK", "import sys; sys.exit('no loopback here')")
    broken = doctor._ranks()
    assert broken.state == "missing"
    assert "no loopback here" in broken.sentence(translations.translator("en"))


def test_ranks_that_hang_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_RANK", "import time; time.sleep(600)")
    monkeypatch.setattr(doctor, "_RANKS_SECONDS", 1)
    assert doctor._ranks().state == "missing"


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    (jupyter,) = doctor._jupyter()
    assert jupyter.state == "missing"
    assert "kernel shardwise" in jupyter.sentence(translations.translator("en"))
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("SHARDWISE_CHROMIUM", raising=False)
    assert [each.state for each in doctor._tests()] == ["warn"] * 3
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SHARDWISE_HOME", str(tmp_path / "file" / "inside"))
    (workspace,) = doctor._workspace()
    assert workspace.state == "missing"
    assert not doctor.Examination(findings=(workspace,)).ready


def test_a_torch_that_cant_be_loaded_is_told() -> None:
    code = (
        "import sys; sys.modules['torch'] = None; from shardwise import doctor\n"
        "print(*(each.state for each in doctor._torch()))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["missing"]
