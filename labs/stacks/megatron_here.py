"""Megatron Core in a rank, on a GPU or not: what of it calls torch.cuda in any case, and our weights in it."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from labs.model import GPT, VOCABULARY
from labs.options.base import TrainingOptions

PATCHES = {
    "torch.cuda.current_device": "device= of the buffers that the pipeline receives into, and of gathered tensors",
    "torch.cuda.synchronize": "after a batch of sends and receives (p2p_communication.py)",
    "torch.zeros": 'the count of tokens is made on "cuda" by name (schedules.py)',
}
"""What is replaced where there is no GPU, and where Megatron Core calls it. Nothing of its computation is."""


@contextmanager
def megatron_here(*, tensor: int, pipeline: int) -> Iterator[dict[str, int]]:
    """Megatron's groups on this process's world. Gives how often each patch was called; on a GPU there are none."""
    warnings.filterwarnings(
        "ignore", message=r".*(Transformer Engine|Apex|full scope|is deprecated\. Please use `torch\.distr)"
    )
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "1")
    called: dict[str, int] = {}
    with on_a_cpu(called):
        from megatron.core import parallel_state, tensor_parallel

        # Of its own: a tracker of random states that has none, for runs without dropout. The usual one asks CUDA.
        tensor_parallel.random.initialize_rng_tracker(inference_rng_tracker=True)
        parallel_state.initialize_model_parallel(
            tensor_model_parallel_size=tensor, pipeline_model_parallel_size=pipeline
        )
        try:
            yield called
        finally:
            parallel_state.destroy_model_parallel()


@contextmanager
def on_a_cpu(called: dict[str, int]) -> Iterator[None]:
    """The three patches, counted as they are called."""
    if torch.cuda.is_available():
        yield
        return

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            called[name] = called.get(name, 0) + 1
            return function(*arguments, **named)

        return call

    zeros = torch.zeros

    def zeros_here(*sizes: Any, **named: Any) -> Tensor:
        if named.get("device") != "cuda":
            return zeros(*sizes, **named)
        called["torch.zeros"] = called.get("torch.zeros", 0) + 1
        return zeros(*sizes, **{**named, "device": "cpu"})

    with (
        mock.patch("torch.cuda.current_device", counted("torch.cuda.current_device", lambda: "cpu")),
        mock.patch("torch.cuda.synchronize", counted("torch.cuda.synchronize", lambda *_: None)),
        mock.patch("torch.zeros", zeros_here),
    ):
        yield


def config_of(options: TrainingOptions, *, tensor: int, pipeline: int, dtype: torch.dtype) -> Any:
    """Megatron's TransformerConfig for the course's GPT, with every fused kernel of a GPU left out."""
    from megatron.core.transformer.transformer_config import TransformerConfig

    return TransformerConfig(
        num_layers=options.layers,
        hidden_size=options.hidden,
        num_attention_heads=options.heads,
        ffn_hidden_size=4 * options.hidden,
        tensor_model_parallel_size=tensor,
        pipeline_model_parallel_size=pipeline,
        params_dtype=dtype,
        pipeline_dtype=dtype,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        activation_func=functools.partial(F.gelu, approximate="tanh"),
        use_cpu_initialization=True,
        attention_softmax_in_fp32=False,
        masked_softmax_fusion=False,
        bias_activation_fusion=False,
        bias_dropout_fusion=False,
        gradient_accumulation_fusion=False,
    )


def gpt_of(options: TrainingOptions, config: Any) -> nn.Module:
    """This rank's part of Megatron's GPTModel, from its specification without Transformer Engine."""
    from megatron.core import parallel_state
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec

    model: nn.Module = GPTModel(
        config=config,
        transformer_layer_spec=get_gpt_layer_local_spec(),
        vocab_size=VOCABULARY,
        max_sequence_length=options.sequence,
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(),
        share_embeddings_and_output_weights=False,
        position_embedding_type="learned_absolute",
    )
    return model


# --- our weights in its names


@torch.no_grad()
def take_weights(model: nn.Module, whole: GPT, *, first_layer: int, tensor_rank: int, tensor_ranks: int) -> None:
    """Give this rank's part of Megatron's GPT the values of ours. A bias that ours has not is zero, and stays so."""
    for name, parameter in model.named_parameters():
        value = counterpart(name, whole, first_layer=first_layer)
        if value is None:
            parameter.zero_()
            parameter.requires_grad_(False)
            continue
        dim = getattr(parameter, "partition_dim", -1)
        if getattr(parameter, "tensor_model_parallel", False) and dim >= 0:
            value = value.chunk(tensor_ranks, dim=dim)[tensor_rank]
        parameter.copy_(value)


def counterpart(name: str, whole: GPT, *, first_layer: int) -> Tensor | None:
    """Our value of a parameter of Megatron's: the same under another name, but for queries, keys and values."""
    if name in _OUTSIDE:
        return whole.get_parameter(_OUTSIDE[name])
    _, _, number, own = name.split(".", 3)
    block = f"blocks.{first_layer + int(number)}."
    if own == "self_attention.linear_qkv.bias":
        return None
    if own == "self_attention.linear_qkv.weight":
        attention: Any = whole.blocks[0].attention
        return by_head(whole.get_parameter(block + "attention.qkv.weight"), attention.heads)
    module, _, kind = own.rpartition(".")
    return whole.get_parameter(f"{block}{_INSIDE[module]}.{kind}")


def by_head(weight: Tensor, heads: int) -> Tensor:
    """All queries, all keys, all values -> each head's query, key and value, so that a cut gives whole heads."""
    return weight.view(3, heads, -1, weight.size(1)).transpose(0, 1).reshape(weight.shape)


_OUTSIDE = {
    "embedding.word_embeddings.weight": "embedding.token.weight",
    "embedding.position_embeddings.weight": "embedding.position.weight",
    "decoder.final_layernorm.weight": "head.norm.weight",
    "decoder.final_layernorm.bias": "head.norm.bias",
    "output_layer.weight": "head.linear.weight",
}
_INSIDE = {
    "input_layernorm": "attention_norm",
    "self_attention.linear_proj": "attention.out",
    "pre_mlp_layernorm": "mlp_norm",
    "mlp.linear_fc1": "up",
    "mlp.linear_fc2": "down",
}
