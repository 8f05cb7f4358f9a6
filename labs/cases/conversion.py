"""The labs' small BLOOM in the words of Transformers, and back: other names, and another order in one matrix.

Queries, keys and values are computed by one matrix. In the labs its rows are all queries, then all keys, then all
values; in Megatron and in Transformers each head has its three together. The numbers are the same, so a converted model
has all the right shapes with either order, and writes nonsense with the wrong one.

    Shapes:  D hidden, H heads of size K = D / H.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from labs.cases.bloom import BloomShape
from labs.model import VOCABULARY

EMBEDDING = {
    "embedding.token": "transformer.word_embeddings",
    "embedding.norm": "transformer.word_embeddings_layernorm",
    "head.norm": "transformer.ln_f",
}
BLOCK = {
    "attention_norm": "input_layernorm",
    "attention.qkv": "self_attention.query_key_value",
    "attention.out": "self_attention.dense",
    "mlp_norm": "post_attention_layernorm",
    "up": "mlp.dense_h_to_4h",
    "down": "mlp.dense_4h_to_h",
}
THREE = "attention.qkv"


def configuration(shape: BloomShape) -> dict[str, Any]:
    """What `BloomConfig` is asked for."""
    return {
        "vocab_size": VOCABULARY,
        "hidden_size": shape.hidden,
        "n_layer": shape.layers,
        "n_head": shape.heads,
        "layer_norm_epsilon": 1e-5,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
    }


def names(shape: BloomShape) -> dict[str, str]:
    """Transformers' name of every parameter, by the labs'. The output layer is the embedding and has no name."""
    modules = EMBEDDING | {
        f"blocks.{layer}.{ours}": f"transformer.h.{layer}.{theirs}"
        for layer in range(shape.layers)
        for ours, theirs in BLOCK.items()
    }
    found = {f"{ours}.{kind}": f"{theirs}.{kind}" for ours, theirs in modules.items() for kind in ("weight", "bias")}
    del found["embedding.token.bias"]
    return found


def by_head(rows: Tensor, *, heads: int) -> Tensor:
    """(3, H, K) -> (H, 3, K) rows: each head's query, key and value together."""
    return torch.unflatten(rows, 0, (3, heads, -1)).transpose(0, 1).flatten(0, 2)


def by_kind(rows: Tensor, *, heads: int) -> Tensor:
    """`by_head` undone."""
    return torch.unflatten(rows, 0, (heads, 3, -1)).transpose(0, 1).flatten(0, 2)


def to_transformers(weights: Mapping[str, Tensor], shape: BloomShape) -> dict[str, Tensor]:
    """A whole model's parameters. Raises KeyError where one is missing."""
    return {
        theirs: (by_head(weights[ours], heads=shape.heads) if THREE in ours else weights[ours]).contiguous()
        for ours, theirs in names(shape).items()
    }


def from_transformers(weights: Mapping[str, Tensor], shape: BloomShape) -> dict[str, Tensor]:
    """`to_transformers` undone."""
    return {
        ours: (by_kind(weights[theirs], heads=shape.heads) if THREE in ours else weights[theirs]).contiguous()
        for ours, theirs in names(shape).items()
    }
