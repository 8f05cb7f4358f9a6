"""Activation checkpointing: forward keeps what goes into a block and forgets what it computes there; backward computes
it again (Chen et al. 2016; Korthikanti et al. 2022, section 5).

Autograd saves tensors while forward runs and asks for them back in backward. Between the two we give it a number in
the place of each, so that nobody holds the tensors. The first number that comes back makes us run forward again, from
the same input and the same random numbers, and this time keep what autograd saves.

    mode        what runs again               what a block keeps, in bytes (16-bit values, with dropout)
    none        nothing                       s b h (34 + 5 a s / h)
    selective   the attention in each block   34 s b h
    full        each block                    2 s b h
    every       each k-th block               the one or the other

    s sequence, b micro-batch, h hidden, a heads. Whoever wraps a block in anything else (gathering its parameters,
    splitting its matrices, scheduling its micro-batches) need not know: what runs again runs inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.profiler import record_function

MODES = ("none", "full", "selective", "every")
Kind = tuple[torch.dtype, torch.Size, torch.device]


class RecomputedOtherwise(RuntimeError):
    """Running forward again did not save what it saved the first time, so that backward cannot use it."""


class Enough(Exception):
    """Everything that backward asks for is there; what is left of forward need not run."""


class Call:
    """One call of a function that is going to run twice: what it takes to do so, and no tensor that it saved."""

    def __init__(self, function: Callable[..., Any], arguments: Sequence[Any], *, name: str) -> None:
        self.function, self.arguments, self.name = function, arguments, name
        self.versions = [version(each) for each in arguments]
        self.device = next((each.device for each in arguments if isinstance(each, Tensor)), torch.device("cpu"))
        self.random = random_states(self.device)
        self.saved: list[Kind] = []
        self.again: dict[int, Tensor] = {}

    def pack(self, tensor: Tensor) -> int:
        """Forward saves a tensor: we note its kind and keep its number."""
        self.saved.append(kind(tensor))
        return len(self.saved) - 1

    def unpack(self, number: int) -> Tensor:
        """Backward asks for it: the first to be asked for brings them all, and each is handed out once."""
        if number not in self.again:
            self.run_again()
        return self.again.pop(number)

    def run_again(self) -> None:
        """Forward from the same arguments and random numbers, cut off from the graph around it."""
        if [version(each) for each in self.arguments] != self.versions:
            raise RecomputedOtherwise(
                f"{self.where}: an input was changed in place after forward, so that running it again would start from"
                " other values. Write x = x + y in the place of x += y."
            )
        again: list[Tensor] = []

        def keep(tensor: Tensor) -> Any:
            again.append(tensor.detach())
            self.compare(len(again) - 1, kind(tensor))
            if len(again) == len(self.saved):
                raise Enough

        inputs = [cut_off(each) for each in self.arguments]
        with record_function("activations"), same_random_numbers(self.random), torch.enable_grad():
            try:
                with saved_tensors_hooks(keep, keep):
                    self.function(*inputs)
            except Enough:
                pass
        if len(again) < len(self.saved):
            self.compare(len(again), None)
        self.again = dict(enumerate(again))

    def compare(self, number: int, found: Kind | None) -> None:
        """Raises RecomputedOtherwise where this saved tensor is of another dtype or shape than the first time."""
        if found != self.saved[number]:
            raise RecomputedOtherwise(
                f"{self.where}: forward saved {written(self.saved[number])} as number {number + 1} of"
                f" {len(self.saved)}; running it again saved {written(found)}. Both runs must take the same way. Look"
                " for what differs between them: random numbers of a generator of your own (a router's choice), a"
                " counter or another state that forward changes, a precision that holds for forward only (autocast)."
            )

    @property
    def where(self) -> str:
        rank = f" on rank {dist.get_rank()}" if dist.is_initialized() else ""
        return f"recomputing {self.name}{rank}"


def run(function: Callable[..., Any], name: str, *arguments: Any) -> Any:
    """`function(*arguments)`, keeping its arguments for backward and nothing of what it computes from them."""
    if not torch.is_grad_enabled():
        return function(*arguments)
    call = Call(function, arguments, name=name)
    with saved_tensors_hooks(call.pack, call.unpack):
        return function(*arguments)


def recompute(model: nn.Module, *, mode: str, every: int = 1) -> None:
    """Let the blocks of `model` (each module that has an `attention`) run again in backward; the model stays as it is.

    `every` is for the mode of that name: blocks number every, 2 x every, ... from 1. Raises ValueError for another mode
    and for a model in which there is nothing to recompute, or in which it is done already.
    """
    if mode not in MODES:
        raise ValueError(f"the modes of recomputation are {', '.join(MODES)}; {mode} is none of them")
    if every < 1:
        raise ValueError(f"every {every}: the first block that is recomputed has at least the number 1")
    blocks = [(name, block) for name, block in model.named_modules() if hasattr(block, "attention")]
    if mode == "none":
        return
    if not blocks:
        raise ValueError("this model has no block: no module in it has an attention")
    for number, (name, block) in enumerate(blocks, start=1):
        if mode == "selective":
            replace(block.attention, "attend", f"{name}.attention.attend")
        elif mode == "full" or number % every == 0:
            replace(block, "forward", name)


def replace(module: Any, attribute: str, name: str) -> None:
    """Put `run` in front of a function of `module`."""
    function = getattr(module, attribute)
    if getattr(function, "func", None) is run:
        raise ValueError(f"{name} is recomputed already: once is enough")
    setattr(module, attribute, partial(run, function, name))


# --- the same input


def kind(tensor: Tensor) -> Kind:
    return tensor.dtype, tensor.shape, tensor.device


def written(kind: Kind | None) -> str:
    if kind is None:
        return "nothing"
    dtype, shape, device = kind
    return f"{str(dtype).removeprefix('torch.')} {tuple(shape)} on {device}"


def version(value: Any) -> int:
    """How often a tensor was changed in place."""
    return value._version if isinstance(value, Tensor) and not value.is_inference() else 0


def cut_off(value: Any) -> Any:
    """A tensor of the same values and bytes that belongs to no graph."""
    return value.detach().requires_grad_(value.requires_grad) if isinstance(value, Tensor) else value


# --- the same random numbers


def random_states(device: torch.device) -> list[tuple[Any, Tensor]]:
    """The state of the CPU's generator and of the accelerator's, if that is where the tensors are."""
    places: list[Any] = [torch.random]
    if device.type not in ("cpu", "meta"):
        places.append(torch.get_device_module(device))
    return [(place, place.get_rng_state()) for place in places]


@contextmanager
def same_random_numbers(states: Sequence[tuple[Any, Tensor]]) -> Iterator[None]:
    """Within it, random numbers come again as they came after `states` were taken; after it, as if nothing had been."""
    now = [(place, place.get_rng_state()) for place, _ in states]
    for place, state in states:
        place.set_rng_state(state)
    try:
        yield
    finally:
        for place, state in now:
            place.set_rng_state(state)
