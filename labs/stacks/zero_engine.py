"""DeepSpeed's engine in a rank: started quietly, watched by our tracker, told from its own attributes what is what."""

from __future__ import annotations

import gc
import logging
import os
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from labs.telemetry import Tracker


def deepspeed_here() -> Any:
    """The module `deepspeed`, ready for this rank's device.

    On a CPU it would compile collectives over shared memory with g++ as the process group begins; a compilation that
    was killed leaves a lock on which every later run waits for ever. Nothing that these labs need is compiled.
    """
    if not torch.accelerator.is_available():
        os.environ["DS_ACCELERATOR"] = "cpu"
    os.environ.setdefault("DS_BUILD_OPS", "0")
    os.environ.setdefault("DS_SKIP_CUDA_CHECK", "1")
    warnings.filterwarnings(
        "ignore", message=r".*is deprecated\. Please use `torch.distributed", category=FutureWarning
    )
    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    import deepspeed
    import deepspeed.ops
    from deepspeed.utils import logger

    logger.setLevel(logging.ERROR)
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    return deepspeed


def attribute(tracker: Tracker, engine: Any) -> None:
    """Give every storage that DeepSpeed's optimizer holds now its category, found by the names of its attributes.

    Stage 1 and 2 (`stage_1_and_2.py`) and 3 (`stage3.py`) keep different ones; where it wraps nothing, the parameters
    and torch's Adam are all there is.
    """
    gc.collect()  # the flattened copy of a reduced bucket lies in a cycle: how long it stays would be left to chance
    zero, model = engine.optimizer, engine.module
    for category, tensors in holdings(zero, model):
        tracker.adopt((each for each in tensors if each.device.type != "meta" and each.numel()), category)


def holdings(zero: Any, model: torch.nn.Module) -> Iterator[tuple[str, list[Tensor]]]:
    """The tensors of each category."""
    parameters = list(model.parameters())
    shards = [each.ds_tensor for each in parameters if hasattr(each, "ds_tensor")]
    adam = getattr(zero, "optimizer", zero)
    buckets = getattr(zero, "ipg_buckets", {}).values()
    yield "communication", tensors_in([getattr(each, "buffer", None) for each in buckets])
    yield "communication", tensors_in([getattr(zero, name, None) for name in _STAGING])
    yield "parameters", tensors_in([parameters, shards, getattr(zero, "bit16_groups_flat", None)])
    yield "parameters", tensors_in(getattr(zero, "fp16_partitioned_groups_flat", None))
    yield "gradients", tensors_in([each.grad for each in parameters])
    yield "gradients", tensors_in([getattr(zero, name, None) for name in _GRADIENTS])
    masters = tensors_in([group["params"] for group in adam.param_groups])
    masters += tensors_in(getattr(zero, "fp32_partitioned_groups_flat", None))
    if not {id(each) for each in masters} & {id(each) for each in parameters}:
        yield "optimizer_states", masters
        yield "gradients", tensors_in([each.grad for each in masters])
    yield "optimizer_states", tensors_in([list(state.values()) for state in adam.state.values()])


_STAGING = (
    "param_buffer_of_bit16_for_cpu_offload_groups",
    "temp_grad_buffer_for_cpu_offload",
    "temp_grad_buffer_for_gpu_offload",
)
"""Buffers through which values cross between host and device, or between precisions."""
_GRADIENTS = ("averaged_gradients", "all_grad_tensors", "grad_partitions_flat_buffer", "accumulated_grads_in_cpu")


def tensors_in(value: Any) -> list[Tensor]:
    """Every tensor of nested lists, tuples and dictionaries."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [tensor for each in value for tensor in tensors_in(each)]
    return []
