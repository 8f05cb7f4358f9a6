"""The one small GPT that every lab trains: bytes in, the next byte out (Radford et al. 2019).

It knows nothing of ranks. What a strategy needs is its list of `pieces`: embedding, blocks, head, in the order in
which forward uses them.

    Shapes:  B sequences in a micro-batch, S positions, D hidden, H heads, V = 256 byte values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

VOCABULARY = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The sizes of a model. Raises ValueError where the heads do not divide the hidden size.

    `dropout` is the share of values set to zero where attention has weighted, and where something is added to the
    stream. With `fused` attention one operation does it all; without, the weights (B, H, S, S) are written out.
    """

    layers: int = 4
    hidden: int = 128
    heads: int = 4
    sequence: int = 64
    tied: bool = False
    dropout: float = 0.0
    fused: bool = True

    def __post_init__(self) -> None:
        if min(self.layers, self.hidden, self.heads, self.sequence) < 1:
            raise ValueError("layers, hidden, heads and sequence must be at least 1")
        if self.hidden % self.heads:
            raise ValueError(f"hidden {self.hidden} does not divide by {self.heads} heads")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is a share from 0 to below 1, not {self.dropout}")
        if self.dropout and self.fused:
            raise ValueError("dropout needs the attention weights: take fused=False with it")


class Embedding(nn.Module):
    """A vector for each byte, plus one for its position."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, shape.hidden)
        self.position = nn.Embedding(shape.sequence, shape.hidden)
        # Where a number of tokens stand in their sequence. A strategy may put its own in this place.
        self.positions: Callable[..., Tensor] = torch.arange

    def forward(self, tokens_BS: Tensor) -> Tensor:
        positions_S = self.positions(tokens_BS.size(1), device=tokens_BS.device)
        x_BSD: Tensor = self.token(tokens_BS) + self.position(positions_S)
        return x_BSD


class Dropout(nn.Module):
    """Sets a share of the values to zero and scales the others up. Backward needs to know which: one byte a value."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Tensor) -> Tensor:
        if not self.share or not self.training:
            return x
        dropped: Tensor = torch.native_dropout(x, self.share, True)[0]
        return dropped


def attend(q_BHSK: Tensor, k_BHSK: Tensor, v_BHSK: Tensor) -> Tensor:
    """Each position's mean of the values up to it, weighted by how well their keys answer its query."""
    return F.scaled_dot_product_attention(q_BHSK, k_BHSK, v_BHSK, is_causal=True)


def attend_in_steps(q_BHSK: Tensor, k_BHSK: Tensor, v_BHSK: Tensor, *, dropout: Dropout) -> Tensor:
    """The same, each step by itself, as before there were fused kernels: S x S weights a head, kept for backward."""
    future_SS = torch.full([q_BHSK.size(-2)] * 2, -torch.inf, dtype=q_BHSK.dtype, device=q_BHSK.device).triu(1)
    weights_BHSS: Tensor = (q_BHSK @ k_BHSK.transpose(-2, -1) * q_BHSK.size(-1) ** -0.5 + future_SS).softmax(-1)
    weights_BHSS = dropout(weights_BHSS)
    y_BHSK: Tensor = weights_BHSS @ v_BHSK
    return y_BHSK


class Attention(nn.Module):
    """Every position looks at itself and at what came before it, once in each head."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.dropout = Dropout(shape.dropout)
        # No bias: the gradient of a key's bias is zero but for rounding, which Adam would blow up into steps.
        self.qkv = nn.Linear(shape.hidden, 3 * shape.hidden, bias=False)
        self.out = nn.Linear(shape.hidden, shape.hidden)
        # A strategy may put its own in this place.
        self.attend: Callable[[Tensor, Tensor, Tensor], Tensor] = (
            attend if shape.fused else partial(attend_in_steps, dropout=self.dropout)
        )

    def forward(self, x_BSD: Tensor) -> Tensor:
        q_BHSK, k_BHSK, v_BHSK = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x_BSD).chunk(3, dim=-1)
        )
        y_BHSK = self.attend(q_BHSK, k_BHSK, v_BHSK)
        y_BSD: Tensor = self.out(y_BHSK.transpose(1, 2).flatten(-2))
        return y_BSD


class Block(nn.Module):
    """Attention mixes positions, the two-layer network mixes features; each adds to the stream."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(shape.hidden)
        self.attention = Attention(shape)
        self.mlp_norm = nn.LayerNorm(shape.hidden)
        self.up = nn.Linear(shape.hidden, 4 * shape.hidden)
        self.down = nn.Linear(4 * shape.hidden, shape.hidden)
        self.dropout = Dropout(shape.dropout)

    def forward(self, x_BSD: Tensor) -> Tensor:
        x_BSD = x_BSD + self.dropout(self.attention(self.attention_norm(x_BSD)))
        y_BSD: Tensor = x_BSD + self.dropout(self.down(F.gelu(self.up(self.mlp_norm(x_BSD)), approximate="tanh")))
        return y_BSD


class Head(nn.Module):
    """A score for each next byte."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(shape.hidden)
        self.linear = nn.Linear(shape.hidden, VOCABULARY, bias=False)

    def forward(self, x_BSD: Tensor) -> Tensor:
        logits_BSV: Tensor = self.linear(self.norm(x_BSD))
        return logits_BSV


def mean_loss(logits_NV: Tensor, targets_N: Tensor) -> Tensor:
    """The mean over all predictions of -log p(target), in at least single precision."""
    if logits_NV.dtype.itemsize < 4:
        logits_NV = logits_NV.float()
    return F.cross_entropy(logits_NV, targets_N)


class GPT(nn.Module):
    """tokens (B, S) and targets (B, S) -> the mean loss over the B x S predictions, in at least single precision.

    The same `seed` gives the same parameters on every rank, and in every precision up to rounding.
    """

    def __init__(self, shape: Shape, *, seed: int = 0, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.embedding = Embedding(shape)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.head = Head(shape)
        # A strategy may put its own in this place.
        self.loss: Callable[[Tensor, Tensor], Tensor] = mean_loss
        if not next(self.parameters()).is_meta:
            self.initialise(shape, seed)
        self.to(dtype)
        if shape.tied:
            self.head.linear.weight = self.embedding.token.weight

    @property
    def pieces(self) -> list[nn.Module]:
        return [self.embedding, *self.blocks, self.head]

    def forward(self, tokens_BS: Tensor, targets_BS: Tensor) -> Tensor:
        x = tokens_BS
        for piece in self.pieces:
            x = piece(x)
        return self.loss(x.flatten(0, 1), targets_BS.flatten())

    @torch.no_grad()
    def initialise(self, shape: Shape, seed: int) -> None:
        """Normal with deviation 0.02; what adds to the stream is scaled by 1 / sqrt(2 layers), as in GPT-2."""
        generator = torch.Generator(device="cpu").manual_seed(seed)
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
            elif "norm" in name:
                parameter.fill_(1.0)
            else:
                deviation = 0.02
                if name.endswith(("attention.out.weight", "down.weight")):
                    deviation /= (2 * shape.layers) ** 0.5
                parameter.copy_(torch.randn(parameter.shape, generator=generator, device="cpu") * deviation)


def parameter_count(model: nn.Module) -> int:
    """P: every parameter once, however many names it has."""
    return sum(parameter.numel() for parameter in model.parameters())
