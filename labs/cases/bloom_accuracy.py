"""What tells fp16 from bf16: `python labs/cases/bloom_accuracy.py --scale 16`, on one process.

A small BLOOM in fp32 writes the right answers. Then its weights go to bf16 and to fp16, as they are, and once more with
the values of one layer 2^16 times as large, which the next matrix takes back: the same function, with activations as
large models have them. bf16 does not notice; fp16 has no numbers above 65,504.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import asdict
from typing import Any

import torch

from labs import training
from labs.cases.accuracy import compare, expected
from labs.cases.bloom import Bloom, BloomShape, prompts, taught
from labs.cases.rows import Row, rows_of
from labs.catalogue import run_lab
from labs.model import parameter_count
from labs.options.bloom import BloomAccuracyOptions
from labs.runner import rank as this


def with_large_values(model: Bloom, *, layer: int, scale: int) -> Bloom:
    """The same function: the values of one layer times 2^scale, the matrix after them divided by it. A power of two
    changes no digit of a weight.
    """
    other = deepcopy(model)
    attention: Any = other.blocks[layer].attention
    hidden = attention.out.weight.size(1)
    with torch.no_grad():
        attention.qkv.weight[2 * hidden :] *= 2.0**scale
        attention.qkv.bias[2 * hidden :] *= 2.0**scale
        attention.out.weight /= 2.0**scale
    return other


def train(options: BloomAccuracyOptions) -> dict[str, Any]:
    """What was found."""
    shape = BloomShape(
        layers=options.layers,
        hidden=options.hidden,
        heads=options.heads,
        sequence=options.prompt_length + options.new_tokens,
    )
    with this.group():
        plain = taught(shape, steps=options.taught, seed=options.seed).to(this.device())
        large = with_large_values(plain, layer=options.layers // 2, scale=options.scale)
        asked = prompts(options.prompts, length=options.prompt_length, seed=options.seed)
        right = expected(plain, asked, new=options.new_tokens)
        differences = {
            f"{precision}-{name}": [
                asdict(compare(deepcopy(model).to(training.DTYPES[precision]), each)) for each in right
            ]
            for name, model in (("plain", plain), ("large", large))
            for precision in ("fp32", "bf16", "fp16")
        }
    return {
        "rank": 0,
        "parameters": parameter_count(plain),
        "losses": [],
        "whole": {
            "differences": differences,
            "results": [row.as_dict() for row in rows(differences)],
        },
    }


def rows(differences: dict[str, list[dict[str, Any]]]) -> Iterator[Row]:
    """Prompts by what became of them, and the largest gap between scores where these are numbers."""
    for name, found in differences.items():
        kinds = Counter(each["kind"] for each in found)
        precision, _, scale = name.partition("-")
        yield Row(name=f"accuracy-{scale}-equal", value=kinds["equal"], of=precision)
        for kind in ("tie", "fault", "overflow"):
            if kinds[kind]:
                yield Row(name=f"accuracy-{scale}-{kind}", value=kinds[kind], of=precision)
        gaps = [each["gap"] for each in found if each["kind"] != "overflow"]
        if gaps:
            yield Row(name=f"accuracy-{scale}-gap", value=max(gaps), of=precision)


def results() -> list[Row]:
    """For the table of all cases."""
    return rows_of(run_lab("bloom-accuracy").data)


if __name__ == "__main__":
    training.main(BloomAccuracyOptions, train)
