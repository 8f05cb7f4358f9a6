"""Which collective an operation of torch is, and the bytes of its unsharded buffer.

Both ways in are covered: `torch.distributed` (namespace c10d) and the functional collectives (_c10d_functional). The
unsharded buffer is all_gather's output and reduce_scatter's input; an all_reduce counts its buffer twice, since it is a
reduce_scatter followed by an all_gather.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

Measure = Callable[[Sequence[Any]], int]


def bytes_of(value: Any) -> int:
    """Bytes of a tensor, or of all tensors in nested lists."""
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, list | tuple):
        return sum(bytes_of(item) for item in value)
    return 0


def elements_of(value: Any) -> int:
    if isinstance(value, torch.Tensor):
        return value.numel()
    return sum(elements_of(item) for item in value) if isinstance(value, list | tuple) else 0


def buffers_of(arguments: Sequence[Any]) -> list[torch.Tensor]:
    """Every tensor among the arguments, also in nested lists."""
    found: list[torch.Tensor] = []
    for value in arguments:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found.extend(buffers_of(value))
    return found


def group_of(arguments: Sequence[Any]) -> dist.ProcessGroup | None:
    """The group that a collective is called on: an object in namespace c10d, a name among the functional ones."""
    for value in arguments:
        if isinstance(value, torch.ScriptObject):
            return dist.ProcessGroup.unbox(value)
    names = [value for value in arguments if isinstance(value, str)]
    if not names:
        return None
    found: dist.ProcessGroup = distributed_c10d._resolve_process_group(names[-1])  # type: ignore[attr-defined, arg-type]
    return found


def _first(arguments: Sequence[Any]) -> int:
    return bytes_of(arguments[0])


def _second(arguments: Sequence[Any]) -> int:
    return bytes_of(arguments[1])


def _twice(arguments: Sequence[Any]) -> int:
    return 2 * bytes_of(arguments[0])


def _larger(arguments: Sequence[Any]) -> int:
    """gather and scatter: only the root has the unsharded buffer, the others count their own part."""
    return max(bytes_of(arguments[0]), bytes_of(arguments[1]))


def _times_ranks(arguments: Sequence[Any]) -> int:
    """The functional all_gather says its input and the number of ranks."""
    return bytes_of(arguments[0]) * int(arguments[1])


def _nothing(_: Sequence[Any]) -> int:
    return 0


_OPERATIONS: dict[str, tuple[str, Measure]] = {
    "c10d::allreduce_": ("all_reduce", _twice),
    "c10d::allreduce_coalesced_": ("all_reduce", _twice),
    "c10d::_allgather_base_": ("all_gather", _first),
    "c10d::allgather_": ("all_gather", _first),
    "c10d::allgather_coalesced_": ("all_gather", _first),
    "c10d::allgather_into_tensor_coalesced_": ("all_gather", _first),
    "c10d::_reduce_scatter_base_": ("reduce_scatter", _second),
    "c10d::reduce_scatter_": ("reduce_scatter", _second),
    "c10d::reduce_scatter_tensor_coalesced_": ("reduce_scatter", _second),
    "c10d::broadcast_": ("broadcast", _first),
    "c10d::send": ("send", _first),
    "c10d::recv_": ("receive", _first),
    "c10d::recv_any_source_": ("receive", _first),
    "c10d::alltoall_base_": ("all_to_all", _second),
    "c10d::alltoall_": ("all_to_all", _second),
    "c10d::reduce_": ("reduce", _first),
    "c10d::gather_": ("gather", _larger),
    "c10d::scatter_": ("scatter", _larger),
    "c10d::barrier": ("barrier", _nothing),
    "c10d::monitored_barrier_": ("barrier", _nothing),
    "_c10d_functional::all_reduce": ("all_reduce", _twice),
    "_c10d_functional::all_reduce_": ("all_reduce", _twice),
    "_c10d_functional::all_reduce_coalesced": ("all_reduce", _twice),
    "_c10d_functional::all_reduce_coalesced_": ("all_reduce", _twice),
    "_c10d_functional::all_gather_into_tensor": ("all_gather", _times_ranks),
    "_c10d_functional::all_gather_into_tensor_out": ("all_gather", _times_ranks),
    "_c10d_functional::all_gather_into_tensor_coalesced": ("all_gather", _times_ranks),
    "_c10d_functional::reduce_scatter_tensor": ("reduce_scatter", _first),
    "_c10d_functional::reduce_scatter_tensor_out": ("reduce_scatter", _first),
    "_c10d_functional::reduce_scatter_tensor_coalesced": ("reduce_scatter", _first),
    "_c10d_functional::broadcast": ("broadcast", _first),
    "_c10d_functional::broadcast_": ("broadcast", _first),
    "_c10d_functional::all_to_all_single": ("all_to_all", _first),
    "_c10d_functional::isend": ("send", _first),
    "_c10d_functional::irecv": ("receive", _first),
}


def collective(operation: str) -> tuple[str, Measure] | None:
    """The collective's name and the measure of its arguments, for a name such as "c10d::allreduce_"; None for any other
    operation.
    """
    return _OPERATIONS.get(operation)
