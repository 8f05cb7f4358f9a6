"""Counts every byte of tensor storage a rank holds, by category and phase, and every collective it calls.

A dispatch mode sees each operation of torch. What is new among its results is a storage that was just allocated; a weak
reference to it tells when it is freed. Strategies say what storages are for with `torch.profiler.record_function`,
which the mode sees too (docs/design.md, "A lab run" 3).

Of torch's private names telemetry needs these, here: `_cdata` of a storage, `_should_skip_dynamo`, the `_local_tensor`
of a DTensor, and the profiler's two operations; and in collectives.py the group of a name.
tests/labs/telemetry/test_torch_internals.py says what changed when torch is upgraded.
"""

from __future__ import annotations

import re
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from labs.telemetry.categories import CATEGORIES, PHASES, Bytes, Count
from labs.telemetry.collectives import Measure, buffers_of, collective, elements_of, group_of

_INDEX = {category: index for index, category in enumerate(CATEGORIES)}
_ACTIVATIONS, _COMMUNICATION, _TEMPORARY = _INDEX["activations"], _INDEX["communication"], _INDEX["temporary"]
_ELSEWHERE = -1  # instead of a category: what was allocated as "offloaded" rests outside the device

# What an operation can do to storages, decided once for each.
_NOTHING, _ALLOCATES, _RESIZES, _ENTERS, _LEAVES, _COMMUNICATES, _COPIES_FOR_FSDP = range(7)

# A slot of a pipeline's timetable: forward, backward or the weights' part of it, of a micro-batch, and the chunk.
_SLOT = re.compile(r"[FBW]\d+(@\d+)?\Z")


class Listener(Protocol):
    """What is told of every change: `labs.telemetry.rows.Writer`."""

    def change(self, phase: str, amounts: Sequence[int], total: int, peak: int | None = None) -> None: ...

    def mark(self, phase: str, amounts: Sequence[int], total: int) -> None: ...

    def slot(self, name: str, *, begins: bool) -> None: ...

    def moved(self, axis: str, total: int) -> None: ...


class _Storage(weakref.ref[torch.UntypedStorage]):
    """A storage that is counted: where, and with how many bytes."""

    __slots__ = ("category", "key", "size")
    category: int
    key: int
    size: int


class Tracker(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """`now.total` is the bytes of all living storages that torch allocated in this thread, or that were adopted.

    A storage is counted once, however many tensors look at it, in the category of the innermost `record_function` scope
    in which it was allocated; outside such a scope as activations in the forward phase, else as temporary. Grown again
    after `resize_(0)` it keeps its category.

    model, optimizer
        For torch's own strategies, which mark nothing: parameters, `.grad`, Adam's states, DDP's buckets and FSDP2's
        gathered parameters are categorised by hooks, and `optimizer.step` is the optimizer phase.
    writer
        Is told of every change.
    pause
        Slow motion: seconds to wait as each phase and each "communication" scope begins, so that one can watch; in a
        pipeline as each slot begins, and nowhere else, so that slots take the longest by far.
    """

    def __init__(
        self,
        *,
        model: nn.Module | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        writer: Listener | None = None,
        pause: float = 0.0,
        fake: bool = False,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._model, self._optimizer, self._writer, self._pause = model, optimizer, writer, pause
        self._hooked, self._fake = model is not None, fake
        self._known: dict[int, _Storage] = {}
        self._freed: deque[weakref.ref[torch.UntypedStorage]] = deque()
        self._now, self._peak = [0] * len(CATEGORIES), [0] * len(CATEGORIES)
        self._total = self._peak_total = 0
        self._rest: Bytes | None = None
        self._scopes: list[tuple[str, str, int | None, bool, bool]] = []
        self._phase, self._default = "", _TEMPORARY
        self._tag: int | None = None
        self._hidden = self._clipping = self._slotted = False
        self._kinds: dict[Any, int] = {}
        self._measures: dict[Any, tuple[str, Measure]] = {}
        self._collectives: dict[str, Count] = {}
        self._axes: dict[str, dict[str, Count]] = {}
        self._axis_names: dict[str, str] = {}
        self._moved: dict[str, int] = {}  # by axis, since the tracker was made
        self._undo: list[Callable[[], None]] = []

    # --- what it knows

    @property
    def now(self) -> Bytes:
        self._settle()
        return _bytes(self._now)

    @property
    def rest(self) -> Bytes:
        """As the latest "optimizer" phase began: what a rank holds between backward and the update. Before the first
        one, as it is now.
        """
        return self.now if self._rest is None else self._rest

    @property
    def peak(self) -> Bytes:
        """The most that each category held since `reset_peak()`; not all at the same moment."""
        return _bytes(self._peak)

    @property
    def peak_total(self) -> int:
        """The most that all categories held together, at one moment, since `reset_peak()`."""
        return self._peak_total

    @property
    def phase(self) -> str:
        """forward, backward or optimizer; empty outside of them."""
        return self._phase

    @property
    def collectives(self) -> dict[str, Count]:
        """By name, since `reset_collectives()`: calls and bytes of the unsharded buffer."""
        return dict(self._collectives)

    @property
    def axes(self) -> dict[str, dict[str, Count]]:
        """The same by the axis of the device mesh on which each was called; "world" for a group without an axis."""
        return {axis: dict(counts) for axis, counts in self._axes.items()}

    def reset_peak(self) -> None:
        self._settle()
        self._peak, self._peak_total = list(self._now), self._total

    def reset_collectives(self) -> None:
        self._collectives, self._axes = {}, {}

    # --- what it is told

    def adopt(self, tensors: Iterable[Tensor], category: str) -> None:
        """Count storages that were allocated before, or out of sight of, the tracker. One that is counted already only
        changes its category.
        """
        for tensor in tensors:
            self.retag(tensor, category)

    def retag(self, tensor: Tensor, category: str) -> None:
        """From now on the storage of `tensor` counts as `category`. Raises KeyError for one that does not exist."""
        self._settle()
        self._categorise(tensor, _INDEX[category])

    def name_axis(self, group: dist.ProcessGroup, axis: str) -> None:
        """Collectives on `group` count under `axis`. Groups of a named device mesh bring their names along."""
        self._axis_names[group.group_name] = axis

    # --- entering and leaving

    def __enter__(self) -> Self:
        if self._model is not None:
            self.watch(self._model, self._optimizer)
        original = torch.UntypedStorage.resize_
        tracker = weakref.ref(self)

        def resize_(storage: torch.UntypedStorage, size: int) -> Any:
            result = original(storage, size)
            if (own := tracker()) is not None:
                own._resized(storage)
            return result

        inherited = "resize_" not in vars(torch.UntypedStorage)
        torch.UntypedStorage.resize_ = resize_  # type: ignore[method-assign, assignment]

        def restore() -> None:
            if inherited:
                del torch.UntypedStorage.resize_
            else:
                torch.UntypedStorage.resize_ = original  # type: ignore[method-assign]

        self._undo.append(restore)
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, traceback)  # type: ignore[no-untyped-call]
        while self._undo:
            self._undo.pop()()
        self._settle()
        self._mark()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Compiled code is not watched; torch's wrapper for it would load its compiler, seconds of work, at a rank's
        first operation.
        """
        return False

    # --- what it sees

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if types and any(kind.__name__ == "DTensor" for kind in types):
            return NotImplemented
        result = func(*args, **kwargs) if kwargs else func(*args)
        kind = self._kinds.get(func)
        if kind is None:
            kind = self._kinds[func] = self._kind(func)
        if kind == _NOTHING:
            return result
        if self._freed:
            self._settle()
        if kind == _ALLOCATES:
            if isinstance(result, Tensor):
                self._allocated(result)
            elif isinstance(result, list | tuple):
                for tensor in buffers_of(result):
                    self._allocated(tensor)
        elif kind == _ENTERS:
            self._enters(args[0])
        elif kind == _LEAVES:
            self._leaves()
        elif kind == _RESIZES:
            for tensor in buffers_of([*args, *(kwargs or {}).values()]):
                self._resized(tensor.untyped_storage())
        elif kind == _COMMUNICATES:
            self._communicates(func, args, result)
        elif kind == _COPIES_FOR_FSDP and self._hooked:
            self._buffers(buffers_of([args, list((kwargs or {}).values()), result]))
        return result

    def _kind(self, func: Any) -> int:
        name: str = func._schema.name
        if name == "profiler::_record_function_enter_new":
            return _ENTERS
        if name == "profiler::_record_function_exit":
            return _LEAVES
        if (known := collective(name)) is not None:
            self._measures[func] = known
            return _COMMUNICATES
        if name.startswith("fsdp::"):
            return _COPIES_FOR_FSDP
        if name in _RESIZING or any(argument.is_out for argument in func._schema.arguments):
            return _RESIZES
        if name in _SHARING:
            return _NOTHING
        fresh = any(returned.alias_info is None for returned in func._schema.returns)
        return _ALLOCATES if fresh or name in _FRESH else _NOTHING

    def _enters(self, name: str) -> None:
        self._scopes.append((name, self._phase, self._tag, self._hidden, self._clipping))
        if name in _INDEX:
            self._tag = _INDEX[name]
            if name == "communication" and self._pause and not self._slotted:
                self._mark()
                self._wait()
        elif name in PHASES:
            self._begin(name)
        elif name == "offloaded":
            self._tag = _ELSEWHERE
        elif name == "report":
            self._hidden = True
        elif name == "clipping":
            self._clipping = True
        elif _SLOT.match(name):
            if self._writer is not None:
                self._writer.slot(name, begins=True)
            self._slotted = True
            self._wait(slot=True)

    def _leaves(self) -> None:
        if not self._scopes:
            return
        name, phase, self._tag, self._hidden, self._clipping = self._scopes.pop()
        if name in PHASES:
            self._to_phase(phase)
            self._mark()
        elif self._writer is not None and _SLOT.match(name):
            self._writer.slot(name, begins=False)

    def _begin(self, phase: str) -> None:
        if phase == "optimizer" and self._phase != "optimizer":
            self._rest = self.now
        self._to_phase(phase)
        self._mark()
        self._wait()

    def _to_phase(self, phase: str) -> None:
        self._phase = phase
        self._default = _ACTIVATIONS if phase == "forward" else _TEMPORARY

    def _mark(self) -> None:
        if self._writer is not None:
            self._writer.mark(self._phase, self._now, self._total)

    def _wait(self, *, slot: bool = False) -> None:
        if self._pause and (slot or not self._slotted):
            time.sleep(self._pause)

    def _communicates(self, func: Any, args: Sequence[Any], result: Any) -> None:
        if self._hooked:
            self._buffers(buffers_of([args, result]))
        elif result is not None:
            for tensor in buffers_of([result]):
                self._allocated(tensor)
        if self._hidden:
            return
        name, measure = self._measures[func]
        if self._clipping and name == "all_reduce" and elements_of(args[0]) == 1:
            name = "clipping"
        moved, axis = Count(count=1, bytes=measure(args)), self._axis(args)
        for counts in (self._collectives, self._axes.setdefault(axis, {})):
            counts[name] = counts.get(name, Count()) + moved
        self._moved[axis] = self._moved.get(axis, 0) + moved.bytes
        if self._writer is not None:
            self._writer.moved(axis, self._moved[axis])

    def _axis(self, args: Sequence[Any]) -> str:
        group = group_of(args)
        if group is None:
            return "world"
        if group.group_name not in self._axis_names:
            described = group.group_desc
            self._axis_names[group.group_name] = (
                described.removeprefix("mesh_") if described.startswith("mesh_") else "world"
            )
        return self._axis_names[group.group_name]

    # --- the books

    def _settle(self) -> None:
        """Take what was freed since the last look from the books. Frees may come from any thread, so they are only
        noted there and booked here.
        """
        freed = self._freed
        if not freed:
            return
        while freed:
            storage = freed.popleft()
            assert isinstance(storage, _Storage)
            if self._known.get(storage.key) is storage:
                del self._known[storage.key]
            self._now[storage.category] -= storage.size
            self._total -= storage.size
        self._told()

    def _told(self) -> None:
        if self._writer is not None:
            self._writer.change(self._phase, self._now, self._total)

    def _allocated(self, tensor: Tensor) -> None:
        storage = _storage(tensor, fake=self._fake)
        if storage is not None and storage._cdata not in self._known:
            self._add(storage, self._default if self._tag is None else self._tag)

    def _add(self, storage: torch.UntypedStorage, category: int) -> None:
        if category == _ELSEWHERE:
            return
        size = storage.nbytes()
        counted = _Storage(storage, self._freed.append)
        counted.category, counted.key, counted.size = category, storage._cdata, size
        self._known[counted.key] = counted
        if size:
            self._grow(category, size)

    def _grow(self, category: int, size: int) -> None:
        self._total += size
        if self._total > self._peak_total:
            self._peak_total = self._total
        self._book(category, size)

    def _book(self, category: int, size: int) -> None:
        now = self._now[category] = self._now[category] + size
        highest = now > self._peak[category]
        if highest:
            self._peak[category] = now
        if self._writer is not None:
            self._writer.change(self._phase, self._now, self._total, category if highest else None)

    def _resized(self, storage: torch.UntypedStorage) -> None:
        self._settle()
        counted = self._known.get(storage._cdata)
        if counted is None:
            if storage.device.type != "meta":
                self._add(storage, self._default if self._tag is None else self._tag)
            return
        difference = storage.nbytes() - counted.size
        if difference:
            counted.size += difference
            self._grow(counted.category, difference)

    def _categorise(self, tensor: Tensor, category: int) -> None:
        storage = _storage(getattr(tensor, "_local_tensor", tensor), fake=self._fake)
        if storage is None:
            return
        counted = self._known.get(storage._cdata)
        if counted is None:
            self._add(storage, category)
        elif counted.category != category:
            self._now[counted.category] -= counted.size
            counted.category = category
            self._book(category, counted.size)

    def _buffers(self, tensors: Iterable[Tensor]) -> None:
        """What torch's own strategies send from or receive into is communication, if it is no model state."""
        for tensor in tensors:
            storage = _storage(tensor, fake=self._fake)
            counted = None if storage is None else self._known.get(storage._cdata)
            if counted is None or counted.category in (_ACTIVATIONS, _TEMPORARY):
                self._categorise(tensor, _COMMUNICATION)

    # --- torch's own strategies

    def watch(self, model: nn.Module, optimizer: torch.optim.Optimizer | None) -> None:
        """As if they had been given when the tracker was made: for one that had to be entered before them."""
        self._hooked = True
        parameters = list(model.parameters())
        self.adopt(parameters, "parameters")
        self.adopt(model.buffers(), "temporary")

        def gradients(parameter: Tensor | None = None) -> None:
            for p in parameters if parameter is None else [parameter]:
                if p.grad is not None:
                    self.retag(p.grad, "gradients")

        gradients()
        for parameter in parameters:
            if parameter.requires_grad:
                handle = parameter.register_post_accumulate_grad_hook(gradients)  # type: ignore[no-untyped-call]
                self._undo.append(handle.remove)
        if optimizer is None:
            return
        phases: list[str] = []

        def states() -> None:
            for own in (
                optimizer,
                getattr(optimizer, "optim", None),
            ):  # ZeroRedundancyOptimizer keeps its states in `optim`
                for state in own.state.values() if own is not None else ():
                    self.adopt((value for value in state.values() if isinstance(value, Tensor)), "optimizer_states")

        def before(*_: Any) -> None:
            gradients()
            phases.append(self._phase)
            self._begin("optimizer")

        def after(*_: Any) -> None:
            states()
            self._to_phase(phases.pop())
            self._mark()

        states()
        self._undo.append(optimizer.register_step_pre_hook(before).remove)
        self._undo.append(optimizer.register_step_post_hook(after).remove)


# Operations that give an existing storage another size.
_RESIZING = {"aten::resize_", "aten::resize_as_", "aten::resize_output_"}
# Operations whose schema promises a new tensor, but which only hand on an existing storage.
_SHARING = {"aten::_unsafe_view", "_c10d_functional::wait_tensor", "_c10d_functional::_wrap_tensor_autograd"}
# Operations whose schema promises an existing storage, but which show for the first time one that was made out of sight
# (torch.tensor, torch.load).
_FRESH = {"aten::lift_fresh", "aten::set_"}


def _bytes(amounts: Sequence[int]) -> Bytes:
    return Bytes(**dict(zip(CATEGORIES, amounts, strict=True)))


def _storage(tensor: Tensor, *, fake: bool) -> torch.UntypedStorage | None:
    """The storage of a tensor that holds bytes of this process; None for fake, meta and sparse ones."""
    if not fake and type(tensor) is not Tensor and type(tensor) is not nn.Parameter and hasattr(tensor, "fake_mode"):
        return None
    if tensor.is_meta:
        return None
    try:
        return tensor.untyped_storage()
    except NotImplementedError:
        return None
