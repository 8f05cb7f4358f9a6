"""Samples from the labs' GPT, many at a time, with a cache of keys and values.

A token is computed once. Its key and value are kept, so the next token's forward sees one position only: T forwards of
one token in place of T forwards of the whole text so far.

    Shapes:  B sequences, S positions so far, T new tokens, H heads, K features of a head, V = 256.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import functional as F

from labs.model import GPT, Attention, Embedding


class Cache:
    """Keys and values (B, H, length, K) of one layer, filled from the left."""

    def __init__(self, length: int) -> None:
        self.length, self.filled = length, 0
        self.keys, self.values = torch.empty(0), torch.empty(0)

    def attend(self, q_BHSK: Tensor, k_BHSK: Tensor, v_BHSK: Tensor) -> Tensor:
        """In the place of a layer's `attend`: the new positions look at all that are kept, and at themselves."""
        if not self.filled:
            B, H, _, K = k_BHSK.shape
            self.keys, self.values = (k_BHSK.new_empty(B, H, self.length, K) for _ in range(2))
        before, self.filled = self.filled, self.filled + k_BHSK.size(2)
        self.keys[:, :, before : self.filled] = k_BHSK
        self.values[:, :, before : self.filled] = v_BHSK
        k_BHSK, v_BHSK = self.keys[:, :, : self.filled], self.values[:, :, : self.filled]
        return F.scaled_dot_product_attention(q_BHSK, k_BHSK, v_BHSK, is_causal=not before)


@contextmanager
def cached(model: GPT) -> Iterator[list[Cache]]:
    """Within it every forward of the model goes on where the last one ended."""
    length = model.embedding.position.num_embeddings
    layers = [module for module in model.modules() if isinstance(module, Attention)]
    attends, caches = [layer.attend for layer in layers], [Cache(length) for _ in layers]
    embedding: Embedding = model.embedding
    positions = embedding.positions
    for layer, cache in zip(layers, caches, strict=True):
        layer.attend = cache.attend

    def going_on(count: int, **words: object) -> Tensor:
        begun = caches[0].filled
        return positions(begun, begun + count, **words)

    embedding.positions = going_on
    try:
        yield caches
    finally:
        embedding.positions = positions
        for layer, attend in zip(layers, attends, strict=True):
            layer.attend = attend


@torch.no_grad()
def generate(model: GPT, prompts_BS: Tensor, *, chances_BT: Tensor, end: int) -> Tensor:
    """A completion (B, T) of each prompt, sampled from the model at temperature 1; after its `end` there are only ends.

    `chances_BT` are uniform numbers from 0 to 1, one for each token to come: the token is the first whose cumulative
    probability is above it. So who is asked for the same sequences with the same numbers writes the same, whatever the
    ranks are.
    """
    tokens_BT = torch.full_like(chances_BT, end, dtype=torch.long)
    ended_B = torch.zeros(len(prompts_BS), dtype=torch.bool, device=prompts_BS.device)
    x_BS = prompts_BS
    with cached(model):
        for step in range(chances_BT.size(1)):
            probabilities_BV = logits(model, x_BS)[:, -1].float().softmax(-1)
            new_B = sampled(probabilities_BV, chances_BT[:, step])
            tokens_BT[:, step] = torch.where(ended_B, end, new_B)
            ended_B |= new_B == end
            if bool(ended_B.all()):
                break
            x_BS = tokens_BT[:, step : step + 1]
    return tokens_BT


def sampled(probabilities_BV: Tensor, chance_B: Tensor) -> Tensor:
    """The first token whose cumulative probability is above the chance."""
    sums_BV = probabilities_BV.cumsum(-1)
    return torch.searchsorted(sums_BV, (chance_B * sums_BV[:, -1])[:, None], right=True)[:, 0].clamp(max=255)


def logits(model: GPT, tokens_BS: Tensor) -> Tensor:
    """The scores of each next token (B, S, V)."""
    x: Tensor = tokens_BS
    for piece in model.pieces:
        x = piece(x)
    return x
