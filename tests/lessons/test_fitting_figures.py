"""The figures of Accelerate and of the precision gap have the numbers of their runs, in every language."""

from __future__ import annotations

from typing import Any

import pytest

from lessons.figures.fitting import behind_fp32, largest_batches
from translations import language


def way(batch: int, *, optimizer_states: int, ran: str = "as-asked") -> dict[str, Any]:
    kept = {"parameters": 400_000, "gradients": 0, "optimizer_states": optimizer_states, "communication": 0}
    return {"kept": kept, "ran": ran, "wrapped": "Wrapper", "micro_batch": batch, "peaks": {str(batch): 1_900_000}}


FITTING = {
    "layout": {"budget": 2.0},
    "ways": {
        "ddp": way(3, optimizer_states=800_000),
        "accelerate-fsdp2": way(3, optimizer_states=800_000, ran="replicated"),
        "trainer-zero-2": way(5, optimizer_states=600_000),
        "zero-2": way(6, optimizer_states=400_000),
    },
}
GAP = {
    "reference_losses": [3.0, 2.5],
    "ways": {"fsdp2-upcast": {"losses": [3.0, 2.51]}, "fsdp2-bf16": {"losses": [3.0, 2.9]}},
    "results": [
        {"name": "gap-loss", "of": "fp32", "value": 2.5},
        {"name": "gap-loss", "of": "fsdp2-bf16", "value": 2.9},
        {"name": "gap-lost", "of": "fsdp2-bf16", "value": 0.884},
    ],
}


def test_the_titles_compare() -> None:
    fitting, gap = largest_batches(FITTING)(language("en")), behind_fp32(GAP)(language("en"))
    assert "DDP trains a batch of 3, DeepSpeed's ZeRO-2 one of 5, ours one of 6" in fitting.alt
    assert "Wrapper" in fitting.table
    assert "rounds away 88% of the updates, and the fine-tune ends 0.40 behind fp32" in gap.alt


@pytest.mark.parametrize("code", ["nl", "ar"])
def test_every_language_draws_them(code: str) -> None:
    assert "accelerate-fsdp2" in largest_batches(FITTING)(language(code)).html
    assert "FSDP2" in behind_fp32(GAP)(language(code)).html
