"""docs/operations.md, followed: every command on the page is run, in its order. And image and compose file, read
as far as they can be without a machine that runs them.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

import certificates
from certificates import office
from shardwise import cli
from shardwise.service import issuing
from shardwise.service.app import issuer_of
from shardwise.service.settings import load
from shardwise.service.tables import Account
from tests.shardwise.service import making, site
from translations import translator

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "operations.md"


def commands() -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return [line for block in blocks for line in block.strip().splitlines()]


def run(command: str) -> int:
    words = shlex.split(command)
    assert words[0] == "shardwise"
    return cli.run(words[1:])


@pytest.mark.timeout(170)
def test_every_command_of_the_page_does_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHARDWISE_LANG", "en")
    site.exams(tmp_path / "exams", practical=False)
    port = site.bound("127.0.0.1", 0)
    number = port.getsockname()[1]
    port.close()
    settings = {"public_url": f"http://127.0.0.1:{number}", "port": number, "data": "data", "issuer": "issuer"}
    settings |= {"exams": "exams", "administrators": ["boss@example.org"]}
    (tmp_path / "service.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    drill = {**settings, "data": "drill", "database": f"sqlite:///{tmp_path / 'drill.db'}"}
    (tmp_path / "drill.yaml").write_text(yaml.safe_dump(drill), encoding="utf-8")
    (tmp_path / "class.csv").write_text("email,name\nnoor@example.org,Noor Bakker\n", encoding="utf-8")
    for folder in ("backups", "archive"):
        (tmp_path / folder).mkdir()
    served: subprocess.Popen[bytes] | None = None
    made: issuing.Issued | None = None
    try:
        for command in commands():
            if command.startswith("shardwise serve "):
                words = [sys.executable, "-m", "shardwise.cli", *shlex.split(command)[1:]]
                served = subprocess.Popen(
                    words, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.DEVNULL
                )
                continue
            if "health" in command:
                until = time.monotonic() + 60
                while run(command) != 0:
                    assert time.monotonic() < until, "the service did not become ready"
                    time.sleep(0.5)
                continue
            if "backup backups/monday.zip" in command:
                made = _somebody_passes(tmp_path)
            if "--status" in command:
                assert served is not None
                _stop(served)
                _archive(tmp_path, made)
            if "delete-person" in command:
                assert run(command.replace(" --yes", "")) == 1  # it asks first
            capsys.readouterr()
            assert run(command) == 0, (command, capsys.readouterr())
            if "--status" in command:
                _revoked_since_the_backup(tmp_path, made)
            if "delete-person" in command:
                assert "noor" not in json.dumps(_accounts(tmp_path))
            if command == "shardwise issuer rotate --compromised":
                issuer = office.read(tmp_path / "issuer")
                assert made is not None
                assert certificates.verify(made.jwt.encode(), trust=issuer.trust).verdict == "invalid"
    finally:
        if served is not None:
            _stop(served)
    assert len(office.read(tmp_path / "issuer").keys) == 3


def _settings(folder: Path) -> Any:
    return load(folder / "service.yaml")


def _core(folder: Path) -> Any:
    from shardwise.service.app import make_core

    return make_core(_settings(folder), issuing=issuer_of(folder / "issuer"))


def _somebody_passes(folder: Path) -> issuing.Issued:
    """Two certificates are issued before the backup; the first is returned."""
    with closing(_core(folder)) as core:
        first, _ = making.person(core, "first@example.org", name="First Person")
        return issuing.request(core, first, site.passed(core, first))


def _archive(folder: Path, made: issuing.Issued | None) -> None:
    """After the backup the certificate is revoked, its lists are published and archived, and the database is lost."""
    assert made is not None
    with closing(_core(folder)) as core:
        boss, _ = making.person(core, "boss@example.org", role="administrator")
        issuing.set_state(core, boss, made.id, "revoked", reason="drill")
        for purpose in ("suspension", "revocation"):
            file = folder / "archive" / f"{purpose}-1.jwt"
            file.write_text(issuing.status_list(core, purpose, 1), encoding="ascii")
    for end in ("", "-wal", "-shm"):
        (folder / "data" / f"service.db{end}").unlink(missing_ok=True)


def _revoked_since_the_backup(folder: Path, made: issuing.Issued | None) -> None:
    assert made is not None
    with closing(_core(folder)) as core:
        assert issuing.issued(core, made.id).state == "revoked"
        assert issuing.issued(core, made.id).jwt == made.jwt


def _accounts(folder: Path) -> list[str]:
    from sqlalchemy import select

    with closing(_core(folder)) as core, core.store.reading() as session:
        return [f"{each.email} {each.name}" for each in session.scalars(select(Account))]


def _stop(served: subprocess.Popen[bytes]) -> None:
    """As systemd does: it ends in order."""
    if served.poll() is None:
        served.send_signal(signal.SIGTERM)
    try:
        served.wait(30)
    finally:
        if served.poll() is None:
            served.kill()
            served.wait(10)


# --- the image and the compose file


def instructions() -> list[tuple[str, str]]:
    """The Containerfile's instructions, continued lines joined."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Containerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = [line for line in re.sub(r"\\\n\s*", "", text).splitlines() if line.strip()]
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in lines]


def test_the_image_runs_as_nobody_in_particular_and_its_commands_are_there() -> None:
    found = instructions()
    known = {"FROM", "WORKDIR", "COPY", "RUN", "LABEL", "ENV", "USER", "EXPOSE", "VOLUME", "STOPSIGNAL", "HEALTHCHECK"}
    assert {name for name, _ in found} <= known | {"ENTRYPOINT", "CMD"}
    last = max(at for at, (name, _) in enumerate(found) if name == "FROM")
    final = dict(found[last:])
    assert final["USER"] == "10001:10001"
    assert int(final["USER"].split(":")[0]) > 0
    assert json.loads(final["ENTRYPOINT"]) == ["tini", "--", "shardwise"]
    health = json.loads(final["HEALTHCHECK"].partition("CMD ")[2])
    for words in ([*json.loads(final["CMD"])], health[1:]):
        assert cli.run([*words, "--help"]) == 0
    for name, value in found:
        if name == "COPY" and "--from" not in value:
            assert value == ". ."
        if name == "FROM":
            assert re.match(r"docker\.io/library/python:3\.11-slim", value)
        assert "SECRET" not in value.upper().replace("SECRETS", "")
        assert "PASSWORD" not in value.upper()
    ignored = (ROOT / ".containerignore").read_text(encoding="utf-8").split()
    for must in (".git", ".venv", "issuer", "data", "**/*.pem", "**/.env"):
        assert must in ignored
    assert "start.py" not in ignored
    for kept in ("requirements.lock", "requirements-service.lock", "pyproject.toml", "start.py", "shardwise"):
        assert (ROOT / kept).exists()


def test_the_compose_file_gives_settings_that_the_service_takes(tmp_path: Path) -> None:
    read = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    service = read["services"]["service"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["user"] == "10001:10001"
    assert "no-new-privileges:true" in service["security_opt"]
    assert "privileged" not in str(read)
    assert "ports" not in service
    assert "ports" not in read["services"]["database"]
    assert read["networks"]["back"] == {"internal": True}
    named = {each.split(":")[0] for one in read["services"].values() for each in one.get("volumes", [])}
    assert {each for each in named if not each.startswith(".")} == set(read["volumes"])
    given = {"DOMAIN": "exams.example", "DB_PASSWORD": "x" * 30, "ADMINISTRATOR": "boss@example.org"}
    given |= {"SMTP_HOST": "mail.example", "SMTP_SENDER": "exams@example.org"}
    image = dict(
        part.split("=", 1) for name, value in instructions() if name == "ENV" for part in value.split() if "=" in part
    )
    environment = {name: _filled(str(value), given) for name, value in {**image, **service["environment"]}.items()}
    environment["SHARDWISE_SERVICE_DATA"] = str(tmp_path / "data")
    settings = load(environ=environment)
    settings.check()
    assert settings.public_url == "https://exams.example"
    assert settings.smtp is not None
    assert (settings.smtp.user, settings.smtp.password) == (None, None)
    assert settings.host == "0.0.0.0"
    front = read["services"]["front"]["networks"]["front"]["ipv4_address"]
    assert settings.proxies == (front,)
    practical = yaml.safe_load((ROOT / "compose.practical.yaml").read_text(encoding="utf-8"))
    assert set(practical["services"]) == {"service"}
    assert set(practical["services"]["service"]) == {"security_opt"}


def _filled(text: str, given: dict[str, str]) -> str:
    """As compose puts variables in: `${NAME:?why}` must be there, `${NAME:-else}` need not."""

    def put(found: re.Match[str]) -> str:
        name, kind, more = found[1], found[2], found[3]
        if name in given:
            return given[name]
        assert kind == ":-", f"{name} is asked for and not given: {more}"
        return more or ""

    return re.sub(r"\$\{(\w+)(?:(:[-?])([^}]*))?\}", put, text)


def test_health_says_why_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = site.bound("127.0.0.1", 0)
    number = port.getsockname()[1]
    port.close()
    (tmp_path / "service.yaml").write_text(yaml.safe_dump({"port": number, "data": "data"}), encoding="utf-8")
    assert cli.run(["service", "health", "--settings", str(tmp_path / "service.yaml"), "--lang", "en"]) == 1
    said = translator("en")("shardwise.service-not-well", url=f"http://127.0.0.1:{number}", reason="ConnectError")
    assert said in capsys.readouterr().err
