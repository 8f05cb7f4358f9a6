"""`shardwise inference`: bounds of large models, and the published table beside them."""

from __future__ import annotations

import json

import pytest

from shardwise import cli


def told(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.run(["inference", *words]) == 0
    return capsys.readouterr().out


def test_batches_of_bloom(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(told(capsys, "--json"))
    assert [row["batch"] for row in rows] == [1, 8, 16, 32, 64, 128, 256, 512]
    assert rows[0]["seconds"] == pytest.approx(0.0216, rel=0.01)
    shown = told(capsys)
    assert "352" in shown
    assert "21.6" in shown


def test_what_does_not_fit_is_left_out_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    shown = told(capsys, "--gpus", "4", "--precision", "int8", "--new", "2000")
    assert "larger batches do not fit" in shown or "larger batch does not fit" in shown
    assert "8 larger batches do not fit" in told(capsys, "--gpus", "4")


def test_the_published_table_beside_its_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    cells = json.loads(told(capsys, "--published", "--json"))
    assert len(cells) == 31
    assert all(0 < cell["reached"] < 1 for cell in cells)
    assert "DeepSpeed-Inference" in told(capsys, "--published")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--share", "none"], "--share must be one of these: tensor, layers, zero"),
        (["--precision", "int3"], "--precision must be one of these"),
        (["--model", "blom"], "No model is named blom"),
    ],
)
def test_wrong_use_is_told(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert cli.run(["inference", *words]) != 0
    out = capsys.readouterr()
    assert said in " ".join((out.out + out.err).split())
