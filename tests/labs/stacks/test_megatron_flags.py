"""Megatron-LM's flags read as a configuration and written back; the launch files of published layouts."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as some

from labs.clusters.megatron import launch, rendered
from labs.planner.configuration import STACKS, Configuration
from labs.planner.hardware import accelerator
from labs.planner.layouts import layouts
from labs.planner.megatron_flags import published, read, same_layout, written
from labs.planner.models import gpt, model
from shardwise.cli import run as shardwise
from translations import CourseError

BASE = (
    "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --vocab-size 51200 "
    "--micro-batch-size 2 --make-vocab-size-divisible-by 1 "
)


@given(
    dp=some.sampled_from([1, 2, 8]),
    tp=some.sampled_from([1, 2, 4]),
    pp=some.sampled_from([1, 2, 4, 6]),
    cp=some.sampled_from([1, 2]),
    zero=some.sampled_from([0, 1]),
    micro_batches=some.integers(1, 12),
    interleave=some.sampled_from([1, 2]),
    recompute=some.sampled_from(["none", "selective", "full"]),
    sequence_parallel=some.booleans(),
    tied=some.booleans(),
)
def test_what_is_written_is_read_back(tied: bool, **degrees: object) -> None:
    shape = replace(gpt(layers=24, hidden=64, heads=8, vocabulary=512, sequence=32), tied=tied)
    plan = Configuration(model=shape, stack=STACKS["megatron"], **degrees)  # type: ignore[arg-type]
    assume(plan.interleave == 1 or plan.pp > 1)
    plan = replace(plan, sequence_parallel=plan.sequence_parallel and plan.tp > 1)
    assert same_layout(read(" ".join(written(plan)), ranks=plan.gpus).plan, plan)


@pytest.mark.parametrize("run", layouts(), ids=lambda run: run.model)
def test_every_published_layout_is_read_back_from_its_launch_file(run: object) -> None:
    name = run.model  # type: ignore[attr-defined]
    plan = published(name)[0].plan
    assert same_layout(read(launch(name), ranks=plan.gpus).plan, plan)


def test_blooms_layers_are_six_a_stage_with_embedding_and_loss_counted() -> None:
    plan = read(launch("bloom-176b"), ranks=384).plan
    assert plan.layers == (5, *[6] * 10, 5)
    assert plan.model.parameters == model("bloom-176b").parameters - 2 * 14336, "all but the norm of the embedding"


def test_variables_comments_and_lines_of_a_script_are_read() -> None:
    script = f"""#!/bin/bash
TP=2
export PP_SIZE=4
# --tensor-model-parallel-size 8
torchrun pretrain_gpt.py {BASE} \\
  --tensor-model-parallel-size $TP --pipeline-model-parallel-size=${{PP_SIZE}} \\
  --global-batch-size 32 --num-layers-per-virtual-pipeline-stage 3 --lr 1e-4 --save "$HOME/checkpoints"
"""
    found = read(script, ranks=16)
    plan = found.plan
    assert (plan.dp, plan.tp, plan.pp, plan.interleave, plan.micro_batches) == (2, 2, 4, 2, 8)
    assert found.unread == ("lr", "save")


@pytest.mark.parametrize(
    ("more", "ranks", "said"),
    [
        ("--tensor-model-paralel-size 2", 2, r"Nearest: --tensor-model-parallel-size"),
        ("--tensor-model-parallel-size 3", 4, r"product|tensor 3 × pipeline 1 × context 1 is 3"),
        ("--global-batch-size 7", 2, r"The nearest that is: 8"),
        ("--micro-batch-size 1.5", 1, r"--micro-batch-size is a whole number"),
        ("--pipeline-model-parallel-size 5", 5, r"24 layers do not divide by 5"),
        ("--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 5", 2, r"chunks of 5"),
        ("--recompute-granularity some", 1, r"selective, full"),
        ("--pipeline-model-parallel-size 4 --account-for-loss-in-pipeline-split", 4, r"25 layers do not divide"),
        ("--tensor-model-parallel-size 32", 32, r"16 heads|heads"),
    ],
)
def test_wrong_flags_are_refused_in_a_sentence(more: str, ranks: int, said: str) -> None:
    with pytest.raises(CourseError, match=said):
        read(BASE + more, ranks=ranks)


def test_what_is_missing_or_cannot_be_said_or_does_not_fit_is_refused() -> None:
    with pytest.raises(CourseError, match=r"doesn't say --hidden-size"):
        read("--num-layers 4", ranks=1)
    with pytest.raises(CourseError, match="ZeRO above stage 1"):
        written(Configuration(model=model("gpt-7.5b"), zero=3, dp=8))
    with pytest.raises(CourseError, match="could only fail"):
        rendered(
            Configuration(model=model("gpt-175b"), tp=8, stack=STACKS["megatron"]),
            gpu=accelerator("a100-80"),
            source="",
        )
    with pytest.raises(CourseError, match="bloom-176b"):
        launch("gpt-9t")


def test_the_file_is_a_shell_script_that_says_it_was_not_run(tmp_path: Path) -> None:
    file = tmp_path / "bloom.sh"
    file.write_text(launch("bloom-176b"))
    assert "Nobody ran this file" in file.read_text()
    assert "@{" not in file.read_text()
    subprocess.run([shutil.which("bash") or "bash", "-n", str(file)], check=True)


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shardwise(["megatron-launch", "mt-nlg-530b"]) == 0
    file = tmp_path / "launch.sh"
    file.write_text(capsys.readouterr().out)
    assert shardwise(["megatron-flags", str(file), "--ranks", "2240", "--gpu", "a100-80", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["layout"]["pp"] == 35
    assert told["memory"]["fits"] is True
    assert shardwise(["megatron-flags", str(file), "--ranks", "2240"]) == 0
    assert "data 8 × tensor 8 × pipeline 35" in " ".join(capsys.readouterr().out.split())
    assert shardwise(["megatron-flags", str(file), "--ranks", "2241"]) == 2
