"""Where the values of a rank lie in the whole model: every value in one place, none lost, no padding."""

from __future__ import annotations

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from labs.strategies.parts import boxes, parts_of_box, place_of
from labs.strategies.tensor import Shard, part

SHAPES = st.lists(st.integers(1, 5), max_size=4).map(tuple)


@given(shape=SHAPES, data=st.data())
def test_boxes_are_the_elements_in_their_order(shape: tuple[int, ...], data: st.DataObject) -> None:
    size = math.prod(shape)
    first = data.draw(st.integers(0, size))
    last = data.draw(st.integers(first, size))
    numbers = torch.arange(size).view(shape)
    found = list(boxes(shape, first, last))
    taken = [
        numbers[tuple(slice(o, o + n) for o, n in zip(offsets, sizes, strict=True))].flatten()
        for offsets, sizes in found
    ]
    assert torch.cat([torch.arange(0), *taken]).tolist() == list(range(first, last))
    assert len(found) <= max(1, 2 * len(shape) - 1)
    assert all(all(n > 0 for n in sizes) for _, sizes in found)


@given(shape=SHAPES, ranks=st.integers(1, 5))
def test_shards_put_together_are_the_tensor(shape: tuple[int, ...], ranks: int) -> None:
    """Also where some ranks have padding only."""
    size = math.prod(shape)
    width = -(-size // ranks)
    whole, times = torch.zeros(shape), torch.zeros(shape)
    flat = torch.arange(1.0, size + 1)
    for rank in range(ranks):
        for offsets, sizes in boxes(shape, min(rank * width, size), min((rank + 1) * width, size)):
            window = tuple(slice(o, o + n) for o, n in zip(offsets, sizes, strict=True))
            times[window] += 1
            whole[window] = flat.view(shape)[window]
    assert bool((times == 1).all())
    assert torch.equal(whole, flat.view(shape))


@given(
    sections=st.integers(1, 3),
    each=st.integers(1, 7),
    other=st.integers(1, 3),
    dim=st.integers(0, 1),
    ranks=st.integers(1, 4),
)
def test_a_tensor_cut_over_an_axis_is_put_together_from_its_places(
    sections: int, each: int, other: int, dim: int, ranks: int
) -> None:
    """As tensor parallelism cuts it, with padding and with several sections."""
    size = sections * each
    whole = torch.arange(1.0, size * other + 1).view((size, other) if dim == 0 else (other, size))
    shard = Shard(dim=dim, size=size, sections=sections)
    again, times = torch.zeros_like(whole), torch.zeros_like(whole)
    for rank in range(ranks):
        mine = part(whole, shard, rank=rank, ranks=ranks)
        place = place_of("w", tuple(mine.shape), shard, rank=rank)
        for found in parts_of_box(mine, ((0, 0), tuple(mine.shape)), place, "model.{}".format):
            assert (found.name, found.shape) == ("model.w", tuple(whole.shape))
            window = tuple(slice(o, o + n) for o, n in zip(found.offsets, found.local.shape, strict=True))
            again[window] = found.local
            times[window] += 1
    assert bool((times == 1).all())
    assert torch.equal(again, whole)
