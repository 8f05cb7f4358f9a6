"""`shardwise hardware` in words and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labs.planner.hardware import accelerators
from shardwise import cli

Printed = pytest.CaptureFixture[str]


def test_the_json_has_every_accelerator_with_every_field_and_its_aliases(capsys: Printed) -> None:
    assert cli.run(["hardware", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    names = {each["name"] for each in data["accelerators"]}
    assert names == {each.name for each in accelerators().values()}
    for each in data["accelerators"]:
        assert each["source"]
        assert each["memory"] > 0
    assert next(each for each in data["accelerators"] if each["name"] == "a100-80")["aliases"] == [
        "a100",
        "a100-sxm-80gb",
    ]
    assert {"bytes_per_element", "torch", "source", "name"} == set(data["formats"][0])
    assert {"id", "what", "changes", "nvidia", "amd", "told", "source"} == set(data["amd"][0])


@pytest.mark.parametrize("language", ["en", "nl", "ar"])
@pytest.mark.parametrize(
    ("words", "shown"),
    [([], "mi300x"), (["gb200"], "gb200-nvl72"), (["--formats"], "nvfp4"), (["--amd"], "torch.version.hip")],
)
def test_it_is_shown_in_every_language(words: list[str], shown: str, language: str, capsys: Printed) -> None:
    assert cli.run(["hardware", *words, "--lang", language]) == 0
    assert shown in capsys.readouterr().out


def test_one_of_ones_own_stands_beside_them(tmp_path: Path, capsys: Printed) -> None:
    file = tmp_path / "own.yaml"
    row = "{name: mine, memory: 48, bandwidth: 960, peak: 100, fp8: 200, link: 30, node: 2, source: me}"
    file.write_text(f"accelerators: [{row}]", encoding="utf-8")
    assert cli.run(["hardware", "mine", "--file", str(file), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["accelerators"]
    assert found["narrow"] == {"fp8": 2e14}


def test_an_unknown_one_is_named_with_the_nearest(capsys: Printed) -> None:
    assert cli.run(["hardware", "mi30"]) != 0
    assert "mi300x" in capsys.readouterr().err


def test_throughput_in_a_narrower_format(capsys: Printed) -> None:
    words = ["throughput", "--model", "gpt-175b", "--tp", "8", "--pp", "8", "--dp", "2", "--gpu", "gb200", "--json"]
    found = {}
    for precision in ("bf16", "fp8", "fp4"):
        assert cli.run([*words, "--precision", precision]) == 0
        found[precision] = json.loads(capsys.readouterr().out)["seconds_per_step"]
    assert found["bf16"] > found["fp8"] > found["fp4"]
    assert cli.run(["throughput", "--model", "gpt-1.7b", "--gpu", "a100", "--precision", "fp8"]) != 0
    assert "fp8" in capsys.readouterr().err
