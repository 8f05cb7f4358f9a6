"""A learner with nothing yet: a record and a workspace of the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardwise.record import Record


@pytest.fixture
def learner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Their workspace; `SHARDWISE_DATA` is beside it."""
    monkeypatch.setenv("SHARDWISE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("SHARDWISE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SHARDWISE_LANG", "en")
    return tmp_path / "home"


@pytest.fixture
def record(learner: Path) -> Record:
    assert not learner.exists()
    return Record.open()
