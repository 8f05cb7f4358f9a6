"""Weights in 8 and in 4 bits, for generation: what a token waits for is the reading of weights, so fewer bytes are less
waiting. Activations stay as they are.

    round to nearest   each output channel by its own largest weight     (Dettmers et al. 2022, section 2.1)
    outliers           a few input features, 20 times as large as the others, kept in 16 bits    (section 3)
    GPTQ               weights that are not rounded yet make up for the error of those that are  (Frantar et al. 2022)
    AWQ                channels with large inputs get finer steps    (Lin et al. 2023)

    Shapes:  N tokens, D input features, F output features, G input features in a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Model = TypeVar("Model", bound=nn.Module)
OUTLIER = 6.0
"""From this magnitude on a feature counts as an outlier (Dettmers et al. 2022, section 3.2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantized:
    """Whole numbers and, for each group of G input features of an output channel, the size of a step."""

    steps_FD: Tensor
    scale_FDG: Tensor
    bits: int

    @property
    def bytes(self) -> int:
        """As it would be stored: two 4-bit numbers in a byte."""
        return self.steps_FD.numel() * self.bits // 8 + self.scale_FDG.nbytes

    def weight(self) -> Tensor:
        """The matrix (F, D) that the numbers stand for."""
        groups = torch.unflatten(self.steps_FD, 1, (self.scale_FDG.size(1), -1)).to(self.scale_FDG.dtype)
        return (groups * self.scale_FDG.unsqueeze(-1)).flatten(1)


def scales(weight_FD: Tensor, *, bits: int, group: int | None = None) -> Tensor:
    """The step of each group (all of a channel where `group` is None): the largest weight is the largest number."""
    groups = torch.unflatten(weight_FD, 1, (-1, group or weight_FD.size(1)))
    largest: Tensor = groups.abs().amax(-1).clamp(min=1e-12)
    return largest / most_of(bits)


def nearest(weight_FD: Tensor, *, bits: int, group: int | None = None) -> Quantized:
    """Every weight to the nearest step."""
    scale = scales(weight_FD, bits=bits, group=group)
    wide = scale.repeat_interleave(weight_FD.size(1) // scale.size(1), dim=1)
    return Quantized(steps_FD=rounded(weight_FD / wide, bits).to(torch.int8), scale_FDG=scale, bits=bits)


def most_of(bits: int) -> int:
    """The largest whole number: 127 in 8 bits, 7 in 4."""
    return int(2 ** (bits - 1)) - 1


def rounded(values: Tensor, bits: int) -> Tensor:
    return values.round().clamp(-most_of(bits), most_of(bits))


class QuantizedLinear(nn.Module):
    """y = x W with W in 8 bits at rest, and in x's own type for as long as the product takes."""

    def __init__(self, linear: nn.Linear, *, bits: int = 8, group: int | None = None) -> None:
        super().__init__()
        self.steps_FD: Tensor
        self.scale_FDG: Tensor
        found = nearest(linear.weight.detach(), bits=bits, group=group)
        self.bits, self.bias = bits, linear.bias
        self.register_buffer("steps_FD", found.steps_FD)
        self.register_buffer("scale_FDG", found.scale_FDG)

    @property
    def weight(self) -> Tensor:
        """The matrix (F, D) that the numbers stand for."""
        return Quantized(steps_FD=self.steps_FD, scale_FDG=self.scale_FDG, bits=self.bits).weight()

    def forward(self, x_ND: Tensor) -> Tensor:
        return F.linear(x_ND, self.weight, self.bias)


def quantize(model: Model, *, names: Sequence[str] = ("qkv", "out", "up", "down")) -> Model:
    """The blocks' matrices in 8 bits, in place. Embedding, norms and biases, a small part of a large model, stay."""
    for module in list(model.modules()):
        for name in names:
            child = getattr(module, name, None)
            if isinstance(child, nn.Linear):
                setattr(module, name, QuantizedLinear(child))
    return model


def held(model: nn.Module) -> int:
    """Bytes of all that a model keeps, each storage once."""
    kept = [*model.parameters(), *model.buffers()]
    return sum({each.untyped_storage().data_ptr(): each.nbytes for each in kept}.values())


# --- activations in 8 bits as well: LLM.int8()


def product(x_ND: Tensor, weight_FD: Tensor, *, threshold: float | None = None) -> Tensor:
    """x W with both in 8 bits, a scale for each token and each channel. Input features of which a token has more than
    `threshold` are taken out, and multiplied as they are.
    """
    outside_D = x_ND.new_zeros(x_ND.size(1), dtype=torch.bool)
    if threshold is not None:
        outside_D = (x_ND.abs() > threshold).any(0)
    x, w = nearest(x_ND[:, ~outside_D], bits=8), nearest(weight_FD[:, ~outside_D], bits=8)
    inside = (x.steps_FD.to(torch.int32) @ w.steps_FD.to(torch.int32).T).to(x_ND.dtype)
    return inside * x.scale_FDG * w.scale_FDG.T + x_ND[:, outside_D] @ weight_FD[:, outside_D].T


def with_outliers(norm: nn.LayerNorm, linear: nn.Linear, *, features: Sequence[int], factor: float) -> None:
    """The same function, in place, with outliers: what the norm makes larger, the matrix after it takes back. Large
    models have grown such features by themselves (Dettmers et al. 2022, section 3.3).
    """
    with torch.no_grad():
        for feature in features:
            norm.weight[feature] *= factor
            norm.bias[feature] *= factor
            linear.weight[:, feature] /= factor


# --- 4 bits: what calibration data is good for


def gptq(weight_FD: Tensor, x_ND: Tensor, *, bits: int = 4, group: int = 32, damping: float = 0.01) -> Quantized:
    """Input feature by feature: round, and let the features to come make up for the error in x W.

    How they do it best follows from H = x^T x: an error e of feature i is made up for by e H^-1[i, j] / H^-1[i, i] of
    feature j.
    """
    hessian_DD = x_ND.T.double() @ x_ND.double()
    hessian_DD += damping * hessian_DD.diagonal().mean() * torch.eye(len(hessian_DD), device=x_ND.device)
    # Row i of this Cholesky factor is, but for its scale, row i of the inverse once the features before i are settled.
    inverse_DD = torch.linalg.cholesky(torch.linalg.inv(hessian_DD), upper=True).to(weight_FD.dtype)
    left_FD, steps_FD, taken = weight_FD.clone(), torch.zeros_like(weight_FD), []
    for i in range(weight_FD.size(1)):
        if i % group == 0:
            taken.append(scales(left_FD[:, i : i + group], bits=bits))
        steps_FD[:, i] = rounded(left_FD[:, i] / taken[-1][:, 0], bits)
        error_F = (left_FD[:, i] - steps_FD[:, i] * taken[-1][:, 0]) / inverse_DD[i, i]
        left_FD[:, i + 1 :] -= error_F[:, None] * inverse_DD[i, i + 1 :]
    return Quantized(steps_FD=steps_FD.to(torch.int8), scale_FDG=torch.cat(taken, dim=1), bits=bits)


def awq(weight_FD: Tensor, x_ND: Tensor, *, bits: int = 4, group: int = 32) -> tuple[Quantized, Tensor]:
    """Round W s in place of W, where s_D is the mean input of a feature to some power: the matrix, and the s by which
    what comes in is divided. The power is the one with the least error in x W.
    """
    mean_D = x_ND.abs().mean(0).clamp(min=1e-6)
    tried = []
    for power in (i / 20 for i in range(20)):
        s_D = mean_D**power
        s_D = s_D / (s_D.max() * s_D.min()).sqrt()
        found = nearest(weight_FD * s_D, bits=bits, group=group)
        tried.append((error(weight_FD, found.weight() / s_D, x_ND), found, s_D))
    _, best, s_D = min(tried, key=lambda each: each[0])
    return best, s_D


def error(weight_FD: Tensor, other_FD: Tensor, x_ND: Tensor) -> float:
    """How far x W is off, as a share of its size."""
    right = x_ND @ weight_FD.T
    return float((x_ND @ other_FD.T - right).norm() / right.norm())
