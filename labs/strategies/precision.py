"""Mixed precision: forward and backward in 16 bits, the optimizer in 32 (Micikevicius et al. 2018).

A number format has bits for the exponent, how large and how small numbers may be, and bits for the fraction, how close
two neighbours are:

    format       exponent   fraction   largest    smallest   next after 1
    fp32             8         23      3.4e38     1.4e-45    1 + 2^-23
    bf16             8          7      3.4e38     9.2e-41    1 + 2^-7
    fp16             5         10      65,504     6.0e-8     1 + 2^-10
    fp8 e4m3         4          3         448     2.0e-3     1 + 2^-3
    fp8 e5m2         5          2      57,344     1.5e-5     1 + 2^-2

Each 16-bit format has one fault, and each fault a cure. bf16 has room for every gradient but rounds coarsely: an update
of a parameter by less than 2^-9 of its value is lost, so that updates go to fp32 master weights. fp16 has no room: a
gradient below 3e-8 becomes zero, so that the loss, and all gradients with it, is scaled up, and scaled down again in
fp32. FP8 has neither room nor fraction; every tensor gets a scale of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F
from torch.profiler import record_function

from labs.strategies.units import MicroBatch, Recipe, clip, units_of


class LossScaler:
    """The factor on the loss. Halved after a step in which a gradient was too large for its format, which is skipped;
    doubled after `interval` steps in a row without one. Not `dynamic`: it stays as it is.

    All ranks of `group` skip the same steps: one that skipped alone would have other parameters from then on.
    """

    def __init__(
        self,
        *,
        scale: float = 2.0**16,
        dynamic: bool = True,
        growth: float = 2.0,
        backoff: float = 0.5,
        interval: int = 2000,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        if not (0 < scale < torch.inf and 0 < backoff < 1 < growth and interval >= 1):
            raise ValueError(
                f"a scale of {scale} x {growth} each {interval} steps, x {backoff} after an overflow: the scale must be"
                " above zero, growth above 1, backoff below 1, the interval at least 1"
            )
        self.scale, self.dynamic, self.group = scale, dynamic, group
        self.growth, self.backoff, self.interval = growth, backoff, interval
        self.good = 0  # steps in a row

    def scaled(self, loss: Tensor) -> Tensor:
        return loss * self.scale

    def unscale(self, gradients: Sequence[Tensor]) -> bool:
        """Divide gradients by the scale, in place. True where one of them, on any rank, is infinite or NaN. Raises
        ValueError for gradients of less than 32 bits: what the scale saved would become zero again.
        """
        for gradient in gradients:
            if gradient.dtype.itemsize < 4:
                raise ValueError(f"gradients are unscaled in fp32, not in {gradient.dtype}: convert them before")
            gradient.mul_(1 / self.scale)
        overflow = torch.stack([gradient.isfinite().logical_not().any() for gradient in gradients]).any().float()
        if self.group is not None:
            dist.all_reduce(overflow, op=dist.ReduceOp.MAX, group=self.group)
        return bool(overflow)

    def update(self, *, overflow: bool) -> None:
        """The scale of the next step."""
        if not self.dynamic:
            return
        self.good = 0 if overflow else self.good + 1
        if overflow:
            self.scale *= self.backoff
        elif self.good == self.interval:
            self.scale, self.good = self.scale * self.growth, 0


class MixedPrecision:
    """Data parallelism of a model in any precision. `recipe.master` is the optimizer's; where it is the model's too,
    there are no master weights.
    """

    def __init__(
        self,
        model: nn.Module,
        pieces: Sequence[nn.Module],
        *,
        group: dist.ProcessGroup,
        recipe: Recipe,
        scaler: LossScaler,
    ) -> None:
        self.model, self.group, self.clip, self.scaler = model, group, recipe.clip, scaler
        self.units = units_of(pieces, group=group)
        self.trained = [unit for unit in self.units if unit.trainable]
        for unit in self.trained:
            unit.keep_gradients()
            unit.keep_master(unit.whole, recipe)
        self.skipped = False

    def train_step(self, micro_batches: Sequence[MicroBatch]) -> Tensor:
        """One optimizer step on this rank's micro-batches, or none where a gradient overflows; their mean loss."""
        losses = []
        for tokens, targets in micro_batches:
            with record_function("forward"):
                loss = self.model(tokens, targets) / len(micro_batches)
            with record_function("backward"):
                self.scaler.scaled(loss).backward()  # type: ignore[no-untyped-call]
            losses.append(loss.detach())

        with record_function("optimizer"):
            for unit in self.trained:
                unit.all_reduce()
            with record_function("temporary"):
                gradients = [unit.gradients.float() for unit in self.trained]
            self.skipped = self.scaler.unscale(gradients)
            clip(gradients, self.clip, group=None)  # the norm that is limited is that of the true gradient
            for unit, gradient in zip(self.trained, gradients, strict=True):
                if self.skipped:
                    unit.gradients.zero_()
                else:
                    unit.update(gradient)
            self.scaler.update(overflow=self.skipped)
        return torch.stack(losses).sum()


# --- FP8, with a scale for each tensor


def quantize(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """x in 8 bits and the scale that it was multiplied by: the largest value becomes the largest of the format, unless
    it is so small that fp32 has no such scale.
    """
    most = torch.finfo(dtype).max
    largest = x.detach().abs().amax().float().clamp(min=2 * most / torch.finfo(torch.float32).max)
    scale = most / largest
    return (x.float() * scale).to(dtype), scale


def dequantize(values: Tensor, scale: Tensor, dtype: torch.dtype) -> Tensor:
    return (values.float() / scale).to(dtype)


def through(values: Tensor, dtype: torch.dtype, *, block: int) -> Tensor:
    """Quantized and back to fp32, with a scale for each `block` values of a vector."""
    parts = torch.split(values, block)
    return torch.cat([dequantize(*quantize(part, dtype), torch.float32) for part in parts])


class Linear8(torch.autograd.Function):
    """y = x A^T from e4m3 inputs; the gradient comes in e5m2, which has more room (Micikevicius et al. 2022).

    A tensor core would multiply the 8-bit numbers as they are; here they are widened first, which gives the same
    products. What is kept for backward has 8 bits.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        inputs = *quantize(x, torch.float8_e4m3fn), *quantize(weight, torch.float8_e4m3fn)
        ctx.save_for_backward(*inputs)
        ctx.dtype, ctx.biased = x.dtype, bias is not None
        x, weight = dequantize(*inputs[:2], x.dtype), dequantize(*inputs[2:], x.dtype)
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        x8, x_scale, weight8, weight_scale = ctx.saved_tensors
        x, weight = dequantize(x8, x_scale, ctx.dtype), dequantize(weight8, weight_scale, ctx.dtype)
        bias = grad.flatten(0, -2).sum(0) if ctx.biased else None
        grad = dequantize(*quantize(grad, torch.float8_e5m2), ctx.dtype)
        return grad @ weight, grad.flatten(0, -2).T @ x.flatten(0, -2), bias


def eight_bits(model: nn.Module) -> None:
    """Let every linear layer inside the blocks of `model` multiply 8-bit numbers; the model stays as it is."""
    for block in (module for module in model.modules() if hasattr(module, "attention")):
        for linear in (module for module in block.modules() if isinstance(module, nn.Linear)):
            linear.forward = partial(linear8, linear)  # type: ignore[method-assign]


def linear8(linear: nn.Linear, x: Tensor) -> Tensor:
    y: Tensor = Linear8.apply(x, linear.weight, linear.bias)  # type: ignore[no-untyped-call]
    return y
