"""`shardwise quiz export|import|exam`: files in, files out, nothing written over, and every loss said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from quiz import items
from quiz.exam.banks import UNFINISHED
from shardwise import cli
from tests.quiz.exam.making import blueprint_file, private_bank, private_item
from translations import languages

UNIT = "04-zero-1"


@pytest.fixture(autouse=True)
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDWISE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("SHARDWISE_LANG", "en")


@pytest.mark.parametrize("form", ["gift", "moodle", "qti"])
def test_a_unit_goes_out_and_its_questions_come_back(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, back = tmp_path / "out", tmp_path / "back.yaml"
    assert cli.run(["quiz", "export", "4", "--format", form, "--out", str(out), "--seed", "3", "--lang", "nl"]) == 0
    said = capsys.readouterr().out
    assert str(out) in said
    assert "zero-1-state-bytes" in said, "what is lost is listed"
    assert cli.run(["quiz", "export", "4", "--format", form, "--out", str(out)]) == 2, "nothing is written over"
    capsys.readouterr()
    assert cli.run(["quiz", "import", str(out), "--format", form, "--unit", "4", "--out", str(back), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    held = yaml.safe_load(back.read_text(encoding="utf-8"))["items"]
    assert told["questions"] == len(held) == len(items(UNIT))
    assert ["zero-1-order", "unfinished"] in told["lost"]


def test_every_language_is_exported(tmp_path: Path) -> None:
    seen = set()
    for language in languages():
        out = tmp_path / f"{language.code}.xml"
        assert cli.run(["quiz", "export", UNIT, "--format", "moodle", "--out", str(out), "--lang", language.code]) == 0
        seen.add(out.read_bytes())
    assert len(seen) == len(languages())


def test_an_author_begins_a_bank_finishes_it_brings_more_in_and_an_exam_is_drawn_from_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "bank"
    assert cli.run(["quiz", "exam", "template", str(folder), "--unit", UNIT]) == 0
    assert cli.run(["quiz", "exam", "template", str(folder), "--unit", UNIT]) == 2
    path = folder / f"{UNIT}.yaml"
    policy = tmp_path / "policy.yaml"
    blueprint_file(tmp_path / "plan.yaml", [{"unit": UNIT, "items": 7}])
    policy.write_text("version: 1\nexam: {blueprint: plan.yaml, banks: [bank], practical: null}\n")
    assert cli.run(["quiz", "exam", "check", "--policy", str(policy)]) == 2, "a text is still to be written"
    assert "still has a text" in capsys.readouterr().err
    path.write_text(path.read_text().replace(UNFINISHED, "This is what an author writes here."))
    assert cli.run(["quiz", "exam", "check", "--policy", str(policy)]) == 1, "six of seven"
    assert "6" in capsys.readouterr().out
    more = tmp_path / "more.gift"
    more.write_text("::own-choice:: Which? {=a#Because it is so and not otherwise. ~b#No, for it is not so at all. ~c}")
    arguments = ["quiz", "exam", "import", str(more), "--format", "gift", "--unit", UNIT, "--folder", str(folder)]
    assert cli.run(arguments) == 0
    held = yaml.safe_load(path.read_text())["items"]
    assert [each["id"] for each in held][-1] == "own-choice-2", "an id that is taken stays its owner's"
    path.write_text(path.read_text().replace(UNFINISHED, "This is what an author writes here."))
    capsys.readouterr()
    assert cli.run(["quiz", "exam", "check", "--policy", str(policy), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {"ready": True, "items": 7, "asked": 7, "public": False, "short": [], "waiting": []}


def test_the_course_s_own_exam_can_be_drawn_once_a_policy_allows_the_public_bank(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["quiz", "exam", "check", "--json"]) == 1, "no bank, no exam"
    capsys.readouterr()
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\nexam: {public_bank: true}\n")
    assert cli.run(["quiz", "exam", "check", "--policy", str(policy)]) == 0
    said = capsys.readouterr().out
    assert "anybody can read" in said


def test_a_private_bank_is_exported_by_its_file(tmp_path: Path) -> None:
    folder = private_bank(tmp_path / "bank", [private_item("own")])
    out = tmp_path / "own.gift"
    assert cli.run(["quiz", "export", str(folder / f"{UNIT}.yaml"), "--format", "gift", "--out", str(out)]) == 0
    assert "::own::" in out.read_text()


@pytest.mark.parametrize(
    "words",
    [
        ["export", "99", "--format", "gift", "--out", "x"],
        ["export", "4", "--format", "word", "--out", "x"],
        ["export", "4", "--format", "gift", "--out", "nowhere/x"],
        ["import", "none.gift", "--format", "gift", "--unit", "4", "--out", "x.yaml"],
        ["import", __file__, "--format", "qti", "--unit", "4", "--out", "x.yaml"],
        ["import", __file__, "--format", "gift", "--unit", "4", "--objective", "nothing", "--out", "x.yaml"],
        ["exam", "check", "nowhere"],
        ["exam", "check", "--policy", "nowhere.yaml"],
        ["exam", "template", "bank", "--unit", "19"],
    ],
)
def test_wrong_use_is_said_and_writes_nothing(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.run(["quiz", *words]) == 2
    assert capsys.readouterr().err
    assert not [path for path in tmp_path.iterdir() if path.name != "data"]
