"""Tells a rank's heart of every collective that its script calls.

The place is the methods of torch's ``ProcessGroup`` and ``Work.wait``, through which every Python function of
``torch.distributed`` goes, however the script imported it. Collectives that torch calls in C++ (DDP's reducer,
functional collectives) pass by unseen; their waits are bounded by the group's timeout.

``TORCH_DISTRIBUTED_DEBUG=DETAIL`` would find mismatches too, but costs some 14 ms a collective on 4 ranks and 2 cores,
makes asynchronous calls wait, and crashes DDP's constructor in torch 2.13 (``Logger.set_construction_data_and_log``).
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from torch import Tensor

from labs.runner.heartbeat import Heart

_OPERATIONS = {
    "allreduce": ("all_reduce", lambda a: a[0][0]),
    "allreduce_coalesced": ("all_reduce", lambda a: a[0][0]),
    "allgather": ("all_gather", lambda a: a[1][0]),
    "all_gather_single": ("all_gather", lambda a: a[1]),
    "_allgather_base": ("all_gather", lambda a: a[1]),
    "allgather_into_tensor_coalesced": ("all_gather", lambda a: a[1][0]),
    "all_gather_single_coalesced": ("all_gather", lambda a: a[1][0]),
    "reduce_scatter": ("reduce_scatter", lambda a: a[0][0]),
    "reduce_scatter_single": ("reduce_scatter", lambda a: a[0]),
    "_reduce_scatter_base": ("reduce_scatter", lambda a: a[0]),
    "reduce_scatter_tensor_coalesced": ("reduce_scatter", lambda a: a[0][0]),
    "reduce_scatter_single_coalesced": ("reduce_scatter", lambda a: a[0][0]),
    "broadcast": ("broadcast", lambda a: a[0][0]),
    "reduce": ("reduce", lambda a: a[0][0]),
    "gather": ("gather", None),
    "scatter": ("scatter", None),
    "alltoall": ("all_to_all", None),
    "alltoall_base": ("all_to_all", None),
    "all_to_all_single": ("all_to_all", None),
    "barrier": ("barrier", None),
}
"""Method -> the operation's name, and the tensor whose dtype and shape must be equal on all ranks."""


_ASIDE = "AsyncCheckpointExecutor"
"""The name of torch's thread that saves a checkpoint while its rank trains. Where that waits, the rank does not."""


def install(heart: Heart) -> None:
    """From here on, this process's collectives are noted in its heart. Call it once a process."""
    works: dict[int, bytes] = {}
    for method, (name, tensor) in _OPERATIONS.items():
        if hasattr(dist.ProcessGroup, method):
            _wrap(dist.ProcessGroup, method, heart, works, functools.partial(_collective, heart, name, tensor))
    _wrap(dist.ProcessGroup, "send", heart, works, functools.partial(_pair, heart, "send"))
    _wrap(dist.ProcessGroup, "recv", heart, works, functools.partial(_pair, heart, "receive"))
    _wrap(dist.ProcessGroup, "recv_anysource", heart, works, functools.partial(_any_source, heart))
    _wrap_wait(heart, works)
    for module in (dist, dist.distributed_c10d):
        for function in ("init_process_group", "new_group"):
            setattr(module, function, _waiting(heart, function, getattr(module, function)))


def aside() -> bool:
    return threading.current_thread().name.startswith(_ASIDE)


def _wrap(owner: Any, method: str, heart: Heart, works: dict[int, bytes], enter: Callable[..., bytes]) -> None:
    original = getattr(owner, method)

    @functools.wraps(original)
    def noted(*arguments: Any, **named: Any) -> Any:
        if aside():
            return original(*arguments, **named)
        operation = enter(*arguments, **named)
        work = _noted(heart, original, arguments, named)
        if len(works) > 4096:
            works.clear()
        works[id(work)] = operation
        return work

    setattr(owner, method, noted)


def _wrap_wait(heart: Heart, works: dict[int, bytes]) -> None:
    original = dist.Work.wait

    @functools.wraps(original)
    def wait(self: dist.Work, *arguments: Any, **named: Any) -> Any:
        if aside():
            return original(self, *arguments, **named)
        heart.wait(works.pop(id(self), b"wait"))
        return _noted(heart, original, (self, *arguments), named)

    dist.Work.wait = wait  # type: ignore[method-assign]


def _waiting(heart: Heart, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def noted(*arguments: Any, **named: Any) -> Any:
        heart.wait(name.encode())
        return _noted(heart, original, arguments, named)

    return noted


def _noted(heart: Heart, original: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    try:
        result = original(*arguments, **named)
    except BaseException:
        heart.lost()
        raise
    heart.go_on()
    return result


def _collective(
    heart: Heart, name: str, tensor: Callable[[Any], Tensor] | None, group: Any, *arguments: Any, **named: Any
) -> bytes:
    options = arguments[-1] if arguments else named.get("opts")
    words = [name]
    root = getattr(options, "rootRank", None)
    if root is not None:
        words.append(f"from {root}" if name in ("broadcast", "scatter") else f"to {root}")
    reduction = getattr(options, "reduceOp", None)
    if reduction is not None and name != "barrier":
        words.append(reduction.op.name)
    if tensor is not None:
        words.append(_shape(tensor(arguments)))
    operation = " ".join(words).encode()
    heart.call(group.group_name.encode(), operation, operation)
    return operation


def _pair(heart: Heart, name: str, group: Any, tensors: list[Tensor], peer: int, tag: int) -> bytes:
    content = _shape(tensors[0])
    operation = f"{name} {'to' if name == 'send' else 'from'} {peer} {content}".encode()
    ends = (group.rank(), peer) if name == "send" else (peer, group.rank())
    heart.call(f"{group.group_name} {ends} {tag}".encode(), operation, content.encode())
    return operation


def _any_source(heart: Heart, _group: Any, tensors: list[Tensor], _tag: int) -> bytes:
    operation = f"receive from any {_shape(tensors[0])}".encode()
    heart.wait(operation)
    return operation


def _shape(tensor: Tensor) -> str:
    return f"{str(tensor.dtype)[6:]} {list(tensor.shape)}"
