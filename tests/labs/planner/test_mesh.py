"""The numbers of a mesh beside torch's own count, and beside what is written out."""

from __future__ import annotations

import torch

from labs.planner.mesh import axis_bytes, norm, rank_at


def test_ranks_are_counted_as_torch_counts_a_mesh() -> None:
    numbers = torch.arange(3 * 4 * 2).reshape(3, 4, 2)
    for i, j, k in ((0, 0, 0), (1, 3, 0), (2, 0, 1), (2, 3, 1)):
        assert rank_at(dp=4, tp=2, pipeline=i, data=j, tensor=k) == numbers[i, j, k]


def test_a_tensor_axis_moves_four_all_reduces_a_layer_and_one_for_the_embedding() -> None:
    def moved(axis: str) -> int:
        return axis_bytes(axis=axis, dp=2, pp=2, tp=2, layers=4, hidden=64, sequence=32, micro_batch=2, micro_batches=4)

    assert moved("tensor") == 4 * (4 * 2 + 1) * 2 * (2 * 32 * 64 * 4)
    assert moved("context") == 0


def test_the_norm_counts_every_value_once() -> None:
    parts = torch.arange(12, dtype=torch.float64).reshape(2, 2, 3)  # two stages, two tensor ranks
    same = torch.ones(2, 4, dtype=torch.float64)
    ours = torch.cat([parts.flatten(), same.flatten()]).norm() ** 2
    even = norm(split=float(parts.square().sum() / 4), whole=float(same.square().sum() / 2), tp=2, pp=2)
    assert abs(even**2 - float(ours)) < 1e-9
