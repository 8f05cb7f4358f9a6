"""A real PostgreSQL server for the tests that need one, started and ended here; a core over SQLite or over it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from shardwise.service.core import Core
from tests.shardwise.service.making import Clock, core_of

PROGRAMS = (Path("/usr/lib/postgresql/17/bin"), Path("/usr/lib/postgresql/16/bin"), Path("/usr/lib/postgresql/15/bin"))


class Server:
    """A PostgreSQL server that listens on a socket in a folder of its own, and on nothing else."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.folder, self._count = folder, 0
        # PostgreSQL refuses to run as root; then it runs as the user that its package made.
        self._as = {"user": "postgres"} if os.geteuid() == 0 else {}
        if self._as:
            shutil.chown(folder, "postgres")
        data = folder / "data"
        self._run(programs / "initdb", "--no-sync", "-A", "trust", "-U", "postgres", "-E", "UTF8", "-D", data)
        options = ["-k", str(folder), "-h", "", "-c", "max_connections=200", "-c", "shared_buffers=32MB"]
        self._server = subprocess.Popen(
            [programs / "postgres", "-D", str(data), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            **self._as,  # type: ignore[call-overload]
        )
        until = time.monotonic() + 30
        while True:
            try:
                self._sql("SELECT 1")
                return
            except Exception:
                if time.monotonic() > until or self._server.poll() is not None:
                    self.end()
                    raise
                time.sleep(0.05)

    def _run(self, *command: object) -> None:
        subprocess.run(
            [str(each) for each in command],
            check=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            cwd=self.folder,
            **self._as,  # type: ignore[call-overload]
        )

    def _sql(self, command: str) -> None:
        import psycopg

        with psycopg.connect(f"host={self.folder} user=postgres dbname=postgres", autocommit=True) as connection:
            connection.execute(command.encode())

    def database(self) -> str:
        """The URL of a new, empty database."""
        self._count += 1
        name = f"service_{self._count}"
        self._sql(f"CREATE DATABASE {name}")
        return f"postgresql+psycopg://postgres@/{name}?host={self.folder}"

    def end(self) -> None:
        self._server.terminate()
        try:
            self._server.wait(20)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """Skipped, with a sentence, where the programs are not here."""
    programs = next((each for each in PROGRAMS if (each / "postgres").exists()), None)
    if programs is None and (found := shutil.which("postgres")):
        programs = Path(found).parent
    if programs is None:
        pytest.skip("PostgreSQL is not here, so this test is skipped (apt install postgresql).")
    with tempfile.TemporaryDirectory(
        prefix="pg-", dir="/tmp", ignore_cleanup_errors=True
    ) as folder:  # a socket's path is short
        server = Server(programs, Path(folder))
        try:
            yield server
        finally:
            server.end()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'service.db'}"
    server: Server = request.getfixturevalue("postgres")
    return server.database()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def core(tmp_path: Path, database: str, clock: Clock) -> Iterator[Core]:
    """A whole service but for its routes, over each kind of database."""
    with closing(core_of(tmp_path, clock=clock, database=database)) as made:
        yield made
