"""Weights in files: the whole model in one, or each tensor rank's part in its own.

Of a whole file every rank reads everything, to keep a t-th of it. Files that were cut once, beforehand, are read by one
rank each. What is read is counted as it is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load, save_file
from torch import Tensor, nn

from labs.cases.bloom import Bloom

HEADER = 8
"""Bytes in which safetensors says how long its header is."""


def save(model: nn.Module, path: Path) -> None:
    """The parameters that a model holds here, each once."""
    save_file({name: p.detach().contiguous() for name, p in model.named_parameters()}, path)


def read(path: Path) -> tuple[dict[str, Tensor], int]:
    """The tensors of a file, and how many bytes of it they were."""
    content = path.read_bytes()
    return load(content), len(content) - HEADER - int.from_bytes(content[:HEADER], "little")


@torch.no_grad()
def fill(model: Bloom, weights: Mapping[str, Tensor]) -> None:
    """Every parameter takes its value. Raises ValueError where the names or a shape are not the model's."""
    parameters = dict(model.named_parameters())
    if parameters.keys() != weights.keys():
        missing, left = sorted(parameters.keys() - weights.keys()), sorted(weights.keys() - parameters.keys())
        raise ValueError(f"these are another model's weights: {missing[:3]} are missing, {left[:3]} are left over")
    for name, p in parameters.items():
        if p.shape != weights[name].shape:
            raise ValueError(
                f"{name} is {tuple(weights[name].shape)} in the file and {tuple(p.shape)} in the model: it was cut for"
                " another number of tensor ranks, or not cut"
            )
        p.copy_(weights[name])
