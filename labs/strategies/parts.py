"""What a rank holds, in words of the whole model: the parameter's own name, its whole shape, and a box in it.

A shard belongs to a layout, such as "elements 300 to 600 of unit 2, on 4 ranks". What is said so outlives the layout:
any number of ranks, cut in any way, finds in it what it needs.

    model.<parameter>                             what the model computes with
    optim.state.<parameter>.exp_avg, exp_avg_sq   Adam's momentum and variance
    optim.state.<parameter>.step                  how often Adam has stepped
    optim.state.<parameter>.master                the master copy, where it is not the parameter itself
    rng.<kind>.<rank>                             the random numbers of one rank

The names of parameters and of Adam's states are torch's own. Padding has no name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.profiler import record_function

from labs.strategies.tensor import Shard, shard_of
from labs.strategies.units import Unit

Sizes = tuple[int, ...]
Box = tuple[Sizes, Sizes]
"""Offsets and sizes, one of each for every dimension."""
STATE, MOMENTS = "optim.state.{}.", ("exp_avg", "exp_avg_sq")
MASTER = STATE + "master"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A box of a tensor of the whole model: `local` are its values, a window on this rank's memory.

    `saves` is False where another rank writes the same values.
    """

    name: str
    shape: Sizes
    offsets: Sizes
    local: Tensor
    saves: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The box of a rank's own parameter that begins at `here` in it and at `there` in the whole model's."""

    here: Sizes
    there: Sizes
    sizes: Sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a rank's own parameter lies in the whole model's, in several cuts where its rows come from several places.
    What no cut covers is padding. `saves` as in Part.
    """

    name: str
    shape: Sizes
    cuts: tuple[Cut, ...]
    saves: bool = True


Places = Mapping[nn.Parameter, Place]


# --- the places of a rank's parameters


def names_of(model: nn.Module) -> dict[nn.Parameter, str]:
    """The names of a whole model's parameters, whatever is done to them later. A tied weight has the first of its."""
    return {p: name for name, p in model.named_parameters()}


def shapes_in(units: Sequence[Unit]) -> dict[nn.Parameter, Sizes]:
    """The shapes of this rank's parameters, also of those that are not gathered now."""
    pairs = (pair for unit in units for pair in zip(unit.parameters, unit.shapes, strict=True))
    return {p: tuple(shape) for p, shape in pairs}


def places_of(
    shapes: Mapping[nn.Parameter, Sizes],
    names: Mapping[nn.Parameter, str],
    *,
    rank: int = 0,
    copies: Set[nn.Parameter] = frozenset(),
) -> dict[nn.Parameter, Place]:
    """The places of this rank's parameters, which have these shapes here. Where they are cut over a tensor axis, `rank`
    is the one on that axis. Another rank saves the `copies`, such as a weight that is tied over two stages.
    """
    return {p: place_of(names[p], shape, shard_of(p), rank=rank, saves=p not in copies) for p, shape in shapes.items()}


def place_of(name: str, here: Sizes, shard: Shard, *, rank: int, saves: bool = True) -> Place:
    """Of a parameter of shape `here`, which lies as `shard` says: the rank-th part of each section, and padding."""
    start = (0,) * len(here)
    if shard.dim is None:
        return Place(name=name, shape=here, cuts=(Cut(here=start, there=start, sizes=here),), saves=saves)
    dim, long = shard.dim, shard.size // shard.sections
    width = here[dim] // shard.sections
    true = max(0, min(width, long - rank * width))

    def at(number: int, of: Sizes) -> Sizes:
        return (*of[:dim], number, *of[dim + 1 :])

    cuts = [
        Cut(here=at(i * width, start), there=at(i * long + rank * width, start), sizes=at(true, here))
        for i in range(shard.sections)
    ]
    return Place(name=name, shape=at(shard.size, here), cuts=tuple(cuts), saves=saves)


# --- flat buffers, which forget where a row ends


def boxes(shape: Sizes, first: int, last: int) -> Iterator[Box]:
    """Elements `first` to `last` of a tensor, counted row by row, as boxes in their order: the end of a row, whole rows
    and the beginning of a row. At most 2 d - 1 boxes in d dimensions.
    """
    if first >= last:
        return
    if len(shape) < 2:
        yield ((first,), (last - first,)) if shape else ((), ())
        return
    size = math.prod(shape[1:])
    begin, end = -(-first // size), last // size
    if begin > end:
        yield from in_row(end, boxes(shape[1:], first - end * size, last - end * size))
        return
    if first % size:
        yield from in_row(begin - 1, boxes(shape[1:], first % size, size))
    if begin < end:
        yield (begin, *(0 for _ in shape[1:])), (end - begin, *shape[1:])
    yield from in_row(end, boxes(shape[1:], 0, last % size))


def in_row(row: int, inner: Iterable[Box]) -> Iterator[Box]:
    """Boxes of one row as boxes of the tensor."""
    for offsets, sizes in inner:
        yield (row, *offsets), (1, *sizes)


def parts_of_flat(flat: Tensor, start: int, unit: Unit, places: Places, say: Callable[[str], str]) -> Iterator[Part]:
    """What `flat` holds of each parameter: it is elements `start` and on of a buffer laid out as the unit's `whole`.

    `say` makes the part's name of the parameter's. The padding behind the last parameter is in no part.
    """
    begin = -start  # of the parameter, in `flat`: below 0 for a shard that begins within it
    for p, shape in zip(unit.parameters, unit.shapes, strict=True):
        at = max(0, begin)
        for box in boxes(tuple(shape), at - begin, min(begin + shape.numel(), flat.numel()) - begin):
            values = flat[at : at + math.prod(box[1])].view(box[1])
            at += values.numel()
            yield from parts_of_box(values, box, places[p], say)
        begin += shape.numel()


def parts_of_box(values: Tensor, box: Box, place: Place, say: Callable[[str], str]) -> Iterator[Part]:
    """`values` fill a box of the rank's own parameter: what of it lies in the whole model, and where."""
    for cut in place.cuts:
        low = tuple(map(max, box[0], cut.here))
        ends = zip(box[0], box[1], cut.here, cut.sizes, strict=True)
        high = tuple(min(a + n, b + m) for a, n, b, m in ends)
        if all(a < b for a, b in zip(low, high, strict=True)):
            window = tuple(slice(a - c, b - c) for a, b, c in zip(low, high, box[0], strict=True))
            there = tuple(t + a - h for t, a, h in zip(cut.there, low, cut.here, strict=True))
            name, shape = say(place.name), place.shape
            yield Part(name=name, shape=shape, offsets=there, local=values[window], saves=place.saves)


# --- all that a rank holds


def parts_of(units: Sequence[Unit], places: Places) -> list[Part]:
    """The model states that this rank keeps in its units from one step to the next."""
    return [part for unit in units for part in parts_of_unit(unit, places)]


def parts_of_unit(unit: Unit, places: Places) -> Iterator[Part]:
    """The parameters, whole or this rank's shard of them, and of a trained unit Adam's states, whole or a shard."""
    start = unit.rank * (unit.padded // unit.ranks)
    values, at = (unit.shard, start) if keeps_shard(unit) else (unit.whole, 0)
    yield from parts_of_flat(values, at, unit, places, "model.{}".format)
    if not unit.trainable:
        return
    at = 0 if unit.master.numel() == unit.padded else start
    if unit.master.data_ptr() != unit.values.data_ptr():
        yield from parts_of_flat(unit.master.detach(), at, unit, places, MASTER.format)
    state = awake(unit.adam, unit.master)
    for name in MOMENTS:
        yield from parts_of_flat(state[name], at, unit, places, (STATE + name).format)
    for p in unit.parameters:
        yield counter(state["step"], places[p])


def parts_of_parameters(
    parameters: Sequence[nn.Parameter], masters: Sequence[Tensor], adam: torch.optim.Adam, places: Places
) -> Iterator[Part]:
    """The same for parameters that lie by themselves, each with its master copy, as tensor parallelism keeps them."""
    for p, master in zip(parameters, masters, strict=True):
        box, place, state = ((0,) * p.dim(), tuple(p.shape)), places[p], awake(adam, master)
        yield from parts_of_box(p.detach(), box, place, "model.{}".format)
        if master.data_ptr() != p.data_ptr():
            yield from parts_of_box(master.detach(), box, place, MASTER.format)
        for name in MOMENTS:
            yield from parts_of_box(state[name], box, place, (STATE + name).format)
        yield counter(state["step"], place)


def keeps_shard(unit: Unit) -> bool:
    """Whether the rank keeps a shard of the parameters that is no window on the whole buffer."""
    same: bool = unit.shard.untyped_storage()._cdata == unit.whole.untyped_storage()._cdata
    return not same


def awake(adam: torch.optim.Adam, master: Tensor) -> dict[str, Tensor]:
    """Adam makes its states in its first step. Before that they are zero; here they come to be."""
    state: dict[str, Tensor] = adam.state[master]
    if not state:
        with record_function("optimizer_states"):
            state["step"] = torch.zeros((), device=master.device)
            state.update({name: torch.zeros_like(master.detach()) for name in MOMENTS})
    return state


def counter(step: Tensor, place: Place) -> Part:
    """How often Adam has stepped, which it counts for each parameter."""
    return Part(name=(STATE + "step").format(place.name), shape=(), offsets=(), local=step, saves=place.saves)


def random_states(device: torch.device, *, rank: int) -> list[Part]:
    """Copies of the states of this rank's random number generators, for `set_random_states` to put back."""
    states = {"cpu": torch.get_rng_state()}
    if device.type != "cpu":
        states[device.type] = torch.get_device_module(device).get_rng_state(device).cpu()
    return [
        Part(name=f"rng.{kind}.{rank}", shape=tuple(state.shape), offsets=(0,), local=state)
        for kind, state in states.items()
    ]


def set_random_states(parts: Sequence[Part], device: torch.device) -> None:
    """Random numbers go on from the states in these parts."""
    for part in parts:
        if part.name.startswith("rng.cpu."):
            torch.set_rng_state(part.local)
        else:
            torch.get_device_module(device).set_rng_state(part.local, device)
