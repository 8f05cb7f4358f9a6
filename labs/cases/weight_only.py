"""Weights in 8 and 4 bits: `python labs/cases/weight_only.py`. Bytes and errors of a small BLOOM, on one process.

Eight bits a weight, rounded to the nearest, for the whole model; what outliers do where activations are rounded too;
and in one layer four bits, by round to nearest, GPTQ and AWQ.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from labs import training
from labs.cases.bloom import Bloom, BloomShape, prompts, taught
from labs.cases.quantization import (
    OUTLIER,
    awq,
    error,
    gptq,
    held,
    nearest,
    product,
    quantize,
    with_outliers,
)
from labs.cases.rows import Row, rows_of
from labs.cases.serving import Generator, generate
from labs.catalogue import run_lab
from labs.data import global_batch
from labs.model import parameter_count
from labs.options.bloom import WeightOnlyOptions
from labs.runner import rank as this

LENGTH, PROMPTS, CALIBRATION = 24, 4, 32
"""Bytes of a prompt, prompts, and sequences of calibration data; as many others measure the error."""


def train(options: WeightOnlyOptions) -> dict[str, Any]:
    """What was found. Nothing is trained but the model itself."""
    room = LENGTH + options.new_tokens
    shape = BloomShape(layers=options.layers, hidden=options.hidden, heads=options.heads, sequence=room)
    model = taught(shape, steps=options.taught, seed=options.seed).to(this.device())
    with this.group(), torch.no_grad():
        found = [*whole_model(model, options, room), *outliers(model, options), *four_bits(model, options)]
    return {
        "rank": 0,
        "parameters": parameter_count(model),
        "losses": [],
        "whole": {"results": [row.as_dict() for row in found]},
    }


def whole_model(model: Bloom, options: WeightOnlyOptions, room: int) -> Iterator[Row]:
    """Every matrix of the blocks in 8 bits: bytes, scores, and the tokens that it writes."""
    asked = prompts(PROMPTS, length=LENGTH, seed=options.seed)
    batch = global_batch(options.taught, size=CALIBRATION, sequence=room, seed=options.seed)
    tokens, targets = (each.to(this.device()) for each in batch)
    before, loss = model.scores(tokens), model(tokens, targets)
    written = generate(Generator(deepcopy(model), slots=PROMPTS, room=room), asked, new=options.new_tokens)
    small = quantize(deepcopy(model))
    answers = generate(Generator(small, slots=PROMPTS, room=room), asked, new=options.new_tokens)
    after = quantize(deepcopy(model))
    matrices = sum(p.nbytes for block in model.blocks for p in block.parameters() if p.dim() == 2)
    rest = held(model) - matrices
    yield Row(name="model-16-bits", value=held(model) // 2, unit="B")
    yield Row(name="model-int8", value=held(small) - rest // 2, unit="B")
    yield Row(name="int8-logits-error", value=relative(after.scores(tokens), before), unit="share")
    yield Row(name="int8-loss-change", value=float(after(tokens, targets) - loss), unit="")
    same = sum(a == b for a, b in zip(chain(*written), chain(*answers), strict=True))
    yield Row(name="int8-tokens-equal", value=same / (PROMPTS * options.new_tokens), unit="share")


def outliers(model: Bloom, options: WeightOnlyOptions) -> Iterator[Row]:
    """A layer of the same function with a few large inputs: weights alone in 8 bits, both, and both without these."""
    block: Any = deepcopy(model).blocks[options.layers // 2]
    features = list(range(options.outliers))
    with_outliers(block.mlp_norm, block.up, features=features, factor=options.factor)
    x_ND = block.mlp_norm(inputs(model, options, calibration=False))
    weight_FD = block.up.weight
    right = x_ND @ weight_FD.T
    yield Row(name="outlier-features", value=int((x_ND.abs() > OUTLIER).any(0).sum()))
    yield Row(
        name="outliers-weight-only", value=error(weight_FD, nearest(weight_FD, bits=8).weight(), x_ND), unit="share"
    )
    yield Row(name="outliers-both-int8", value=relative(product(x_ND, weight_FD), right), unit="share")
    apart = product(x_ND, weight_FD, threshold=OUTLIER)
    yield Row(name="outliers-apart", value=relative(apart, right), unit="share")


def four_bits(model: Bloom, options: WeightOnlyOptions) -> Iterator[Row]:
    """One layer in 4 bits, three ways. Calibration data is other text than what measures the error."""
    block: Any = model.blocks[options.layers // 2]
    norm, weight_FD, group = block.mlp_norm, block.up.weight.detach(), options.group
    known, x_ND = (norm(inputs(model, options, calibration=each)) for each in (True, False))
    plain = nearest(weight_FD, bits=4, group=group)
    scaled, s_D = awq(weight_FD, known, group=group)
    yield Row(name="int4-bytes", value=plain.bytes, unit="B")
    yield Row(name="int4-nearest", value=error(weight_FD, plain.weight(), x_ND), unit="share")
    yield Row(name="int4-awq", value=error(weight_FD, scaled.weight() / s_D, x_ND), unit="share")
    yield Row(
        name="int4-gptq", value=error(weight_FD, gptq(weight_FD, known, group=group).weight(), x_ND), unit="share"
    )


def inputs(model: Bloom, options: WeightOnlyOptions, *, calibration: bool) -> Tensor:
    """What comes to the network of the middle block, (N, D), before its norm."""
    step = options.taught + 1 + (not calibration)
    tokens, _ = global_batch(step, size=CALIBRATION, sequence=LENGTH + options.new_tokens, seed=options.seed)
    x = model.embedding(tokens.to(this.device()))
    for block in model.blocks[: options.layers // 2]:
        x = block(x)
    last: Any = model.blocks[options.layers // 2]
    stream: Tensor = x + last.attention(last.attention_norm(x))
    return stream.flatten(0, 1)


def relative(found: Tensor, right: Tensor) -> float:
    return float((found - right).norm() / right.norm())


def results() -> list[Row]:
    """For the table of all cases."""
    return rows_of(run_lab("weight-only").data)


if __name__ == "__main__":
    training.main(WeightOnlyOptions, train)
