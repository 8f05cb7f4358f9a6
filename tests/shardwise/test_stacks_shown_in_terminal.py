"""What the terminal says of DeepSpeed beside ours: each difference with the bytes that it comes to."""

from __future__ import annotations

from typing import Any

from shardwise import lab_terminal
from translations import translator


def one(traffic: int, bucket: int = 0) -> dict[str, Any]:
    return {"traffic": traffic, "predicted": {"communication": bucket}}


def said(stages: list[dict[str, Any]], *, precision: str = "fp32") -> str:
    data = {"stages": stages, "parameters": 1_000_000, "ranks": [{}, {}], "layout": {"precision": precision}}
    return " ".join(lab_terminal._why(data, translator("en")))


def test_each_difference_has_its_bytes() -> None:
    second = {"stage": 2, "ours": one(8_000_000), "deepspeed": one(12_000_000, 4_000_000)}
    third = {"stage": 3, "ours": one(12_000_000), "deepspeed": one(8_000_000, 4_000_000)}
    told = said([second, third]).replace("\u202f", " ")
    assert "a rank’s part beside the weights: 2.00 MB" in told
    assert "takes 4.00 MB however small" in told
    assert "it would be 2.00 GB" in told
    assert "4.00 MB more than a reduce-scatter" in told
    assert "4.00 MB less to move" in told


def test_nothing_is_said_that_was_not_found() -> None:
    assert said([{"stage": 0, "ours": one(8), "deepspeed": one(8)}]) == ""
    alike = {"stage": 3, "ours": one(8), "deepspeed": one(8, 2_000)}
    assert "master copy" not in said([alike], precision="bf16")
    assert "less to move" not in said([{**alike, "deepspeed": one(9, 2_000)}], precision="bf16")
