"""A backward in two parts (Qi et al. 2023, section 2): B, for which another stage waits, and W, for which none does.

For a linear layer y = x A^T, backward needs dx = dy A and dA = dy^T x: two products of equal cost. B makes dx, and dy
and x are kept until W makes dA. What else has weights (norms, embeddings) costs little and stays in B.

    Shapes:  N examples (everything but the last dimension), D features of x, F features of y.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

Kept = list[tuple[Tensor, Tensor | None, Tensor, Tensor]]  # weight, bias, x, gradient of y


class WeightsLater(TorchFunctionMode):
    """Within it, every linear layer is one whose backward leaves the gradients of its weights in `kept`."""

    def __init__(self, kept: Kept) -> None:
        super().__init__()
        self.kept = kept

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if function is F.linear:
            return self.linear(*args, **(kwargs or {}))
        return function(*args, **(kwargs or {}))

    def linear(self, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        if not weight.requires_grad:
            return F.linear(input, weight, bias)
        y: Tensor = Linear.apply(input, weight, bias, self.kept)  # type: ignore[no-untyped-call]
        return y


class Linear(Function):
    """y = x A^T + b, whose backward makes the gradient of x alone."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, kept: Kept) -> Tensor:
        # The parameters themselves: what autograd gives back of a saved tensor may be another one on the same values,
        # whose gradient nobody sees once this graph is gone.
        ctx.save_for_backward(x)
        ctx.weight, ctx.bias, ctx.kept = weight, bias, kept
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, None, None]:
        (x,) = ctx.saved_tensors
        # Cut off: x itself would keep the graph behind it, and with that the stage's input and its gradient.
        ctx.kept.append((ctx.weight, ctx.bias, x.detach(), grad))
        return grad @ ctx.weight if ctx.needs_input_grad[0] else None, None, None, None


def weight_gradients(kept: Kept) -> None:
    """W: add what was left to the gradients of the weights."""
    for weight, bias, x, grad in kept:
        x_ND, grad_NF = x.flatten(0, -2), grad.flatten(0, -2)
        weight.backward(grad_NF.T @ x_ND)  # type: ignore[no-untyped-call]
        if bias is not None and bias.requires_grad:
            bias.backward(grad_NF.sum(0))  # type: ignore[no-untyped-call]
    kept.clear()
