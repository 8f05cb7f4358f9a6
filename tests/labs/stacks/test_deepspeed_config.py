"""The reader of ds_config.json: what it refuses and where, the batch, memory; and that DeepSpeed itself agrees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from labs.planner.deepspeed_config import Effect, Settings, effects, held, read
from labs.runner import run
from labs.stacks import deepspeed_keys
from labs.stacks.environment import needs
from shardwise.cli import run as shardwise
from translations import CourseError, translator

RIGHT = {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4, "gradient_clipping": 1.0}


def said(config: dict[str, Any] | str, *, ranks: int = 8) -> list[str]:
    """The errors, each with its line."""
    text = config if isinstance(config, str) else json.dumps(config, indent=1)
    english = translator("en")
    return [f"{each.line}: {english(each.id, **each.values)}" for each in read(text, ranks=ranks).errors]


def test_a_right_file_has_no_errors_and_its_batch_is_solved() -> None:
    zero = {"stage": 2, "reduce_bucket_size": 5e8, "overlap_comm": True, "offload_optimizer": {"device": "cpu"}}
    config = {**RIGHT, "zero_optimization": zero, "bf16": {"enabled": True}}
    reading = read(json.dumps(config), ranks=8)
    assert reading.errors == reading.notes == ()
    assert reading.batch is not None
    assert reading.batch.accumulation == 2
    assert reading.settings == Settings(stage=2, precision="bf16", offload_optimizer="cpu", overlap_comm=True)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"gradient_acumulation_steps": 2}, "5: There is no gradient_acumulation_steps. Nearest: gradient_accum"),
        ({"zero_optimization": {"stage": 1, "overlap_com": True}}, "7: There is no zero_optimization.overlap_com. "),
        ({"zero_optimization": {"stage": 1, "overlap_com": True}}, "Nearest: overlap_comm. DeepSpeed refuses"),
        ({"zero_optimization": {"stage": 4}}, "6: zero_optimization.stage is one of 0, 1, 2, 3; it is 4"),
        ({"zero_optimization": {"stage": "2"}}, 'whole number; it is "2"'),
        ({"zero_optimization": {"stage": 2, "overlap_comm": 1}}, "true or false; it is 1"),
        ({"zero_optimization": {"stage": 2, "reduce_bucket_size": 0}}, "more than 0; it is 0"),
        ({"zero_optimization": {"stage": 2, "offload_optimizer": {"ratio": 1.5}}}, "at most 1.0; it is 1.5"),
        ({"zero_optimization": {"stage": 2, "cpu_offload": True}}, "out of date. Take offload_optimizer"),
        ({"zero_optimization": True}, "an old form"),
        ({"zero_optimization": []}, "a section of its own"),
        ({"zero_optimization": {"stage": 2, "mics_shard_size": 4}}, "in earlier versions and is not in DeepSpeed"),
        ({"stage": 2}, "5: stage doesn't belong here: DeepSpeed looks for it in zero_optimization"),
        ({"fp16": {"enabled": False, "zzz": 1}}, "nothing that looks like it. DeepSpeed refuses"),
        ({"zzz": 1}, "nothing that looks like it. DeepSpeed doesn't look"),
        ({"amp": {}}, "amp was in earlier versions"),
        ({"gradient_clipping": -1}, "at least 0; it is -1"),
        ({"gradient_clipping": "1"}, "is a number"),
        ({"communication_data_type": 16}, "is a word in quotes"),
        ({"data_types": {"grad_accum_dtype": "fp32"}, "optimizer": {"type": "Adam", "parms": {}}}, "Nearest: params"),
        ({"bf16": {"enabled": True}, "fp16": {"enabled": True}}, "both on"),
        ({"zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}}, "from stage 3 on, and this"),
        ({"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme"}}}, "no nvme_path"),
        ({"gradient_accumulation_steps": 4}, "64 is not micro-batch 4 × accumulation 4 × 8 ranks, which is 128"),
        ({"train_batch_size": 60}, "60 is not micro-batch 4 × accumulation 1 × 8 ranks, which is 32"),
        ({"train_batch_size": None, "train_micro_batch_size_per_gpu": None}, "Neither train_batch_size"),
    ],
)  # fmt: skip
def test_every_error_says_where_it_is_and_what_to_do(changes: dict[str, Any], expected: str) -> None:
    found = said({**RIGHT, **changes})
    assert len(found) == 1, found
    assert expected in found[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{\n "a": 1,\n}', r"line 3, column 1|line 2"),
        ('{"a": {"x": 1},\n"b": {"x": 1,\n"x": 2}}', r"x stands twice in one section \(lines 2, 3\)"),
        ("[1]", "an object in braces"),
    ],
)
def test_what_is_no_configuration_is_refused_with_its_line(text: str, expected: str) -> None:
    with pytest.raises(CourseError, match=expected):
        read(text, ranks=2)
    with pytest.raises(CourseError, match="at least 1"):
        read("{}", ranks=0)


def test_auto_and_the_silent_clipping_are_said() -> None:
    config = {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto"}}
    reading = read(json.dumps(config), ranks=8)
    assert reading.errors == ()
    assert reading.batch is None
    assert [each.id.partition(".")[2] for each in reading.notes] == ["deepspeed-auto"] * 2 + ["deepspeed-clipping"]


@given(
    micro=some.integers(1, 64),
    accumulation=some.integers(1, 64),
    ranks=some.integers(1, 4096),
    gone=some.integers(0, 3),
)
def test_any_two_of_the_batch_give_the_third(micro: int, accumulation: int, ranks: int, gone: int) -> None:
    values = {
        "train_batch_size": micro * accumulation * ranks,
        "train_micro_batch_size_per_gpu": micro,
        "gradient_accumulation_steps": accumulation,
    }
    kept = {name: value for place, (name, value) in enumerate(values.items()) if place != gone}
    batch = read(json.dumps(kept), ranks=ranks).batch
    assert batch is not None
    assert (batch.train, batch.micro, batch.accumulation) == tuple(values.values())


def test_each_setting_has_the_bytes_of_its_formula() -> None:
    """By hand, for 8 million parameters on 4 ranks."""
    base = Settings(stage=1, precision="bf16", reduce_bucket_size=1000)
    found = held(base, parameters=8_000_000, ranks=4)
    assert (found.parameters, found.gradients, found.optimizer_states) == (16_000_000, 4_000_000, 24_000_000)
    assert found.bucket == 2000
    assert found.device == 16_000_000 + 4_000_000 + 24_000_000 + 2000
    told = {each.key: each for each in effects(base, parameters=8_000_000, ranks=4)}
    assert told["reduce_bucket_size"] == Effect(
        key="reduce_bucket_size", value=1000, device=2 * (1000 - 500_000_000), host=0
    )
    away = held(
        Settings(stage=3, precision="bf16", offload_optimizer="cpu", offload_param="cpu"), parameters=8, ranks=4
    )
    assert away.parameters == away.gradients == away.optimizer_states == 0
    assert away.host == (12 + 4 + 2) * 2


def test_the_command_says_all_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "ds_config.json"
    file.write_text(json.dumps({**RIGHT, "zero_optimization": {"stage": 2, "stag": 3}}, indent=1))
    assert shardwise(["deepspeed-config", str(file), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["errors"][0]["id"] == "deepspeed-refused-near"
    assert told["batch"] == {"train": 64, "micro": 4, "accumulation": 2, "ranks": 8}
    file.write_text(json.dumps({**RIGHT, "zero_optimization": {"stage": 2}}))
    assert shardwise(["deepspeed-config", str(file)]) == 0
    assert "reads all of it" in capsys.readouterr().out
    assert shardwise(["deepspeed-config", str(tmp_path / "none.json")]) == 2


@pytest.mark.stacks
def test_the_keys_are_those_of_the_installed_deepspeed() -> None:
    assert deepspeed_keys.FILE.read_text(encoding="utf-8") == deepspeed_keys.text(deepspeed_keys.installed())


ASKS = """
from labs.runner import rank as this
from labs.stacks.zero_engine import deepspeed_here
deepspeed_here()
from deepspeed.runtime.config import DeepSpeedConfig
found = {}
base = {"train_micro_batch_size_per_gpu": 2}
for name, more in {
    "misspelt at the top": {"zero_optimisation": {"stage": 3}},
    "misspelt in a section": {"zero_optimization": {"stag": 3}},
    "kind": {"zero_optimization": {"stage": 2, "overlap_comm": "maybe"}},
    "bound": {"zero_optimization": {"stage": 2, "reduce_bucket_size": 0}},
    "removed": {"amp": {"enabled": True}},
    "both": {"bf16": {"enabled": True}, "fp16": {"enabled": True}},
}.items():
    try:
        config = DeepSpeedConfig({**base, **more})
        found[name] = int(config.zero_optimization_stage)
    except Exception as error:
        found[name] = type(error).__name__
found["clipping"] = DeepSpeedConfig(base).gradient_clipping
this.report(found)
"""


@pytest.mark.stacks
def test_deepspeed_itself_ignores_and_refuses_what_the_reader_says() -> None:
    found: Any = run(ASKS, ranks=1, python=needs("deepspeed"), timeout=120).ranks[0].value
    assert found.pop("misspelt at the top") == 0, "it trains without ZeRO and says nothing"
    assert found.pop("clipping") == 1.0
    assert all(isinstance(each, str) for each in found.values()), found
