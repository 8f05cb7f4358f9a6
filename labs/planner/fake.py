"""What the simulation takes from torch without a promise, all of it here: a process group that reaches nobody, tensors
that have shapes and no values, and the names under which FSDP2 does its work.

tests/labs/planner/test_fake.py says what changed when torch is upgraded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor._sharding_prop import ShardingPropagator
from torch.distributed.tensor.debug import _clear_sharding_prop_cache
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import _disable_current_modes

from labs.telemetry.tracker import Tracker

SCOPES = {
    "FSDP::pre_forward": "communication",
    "FSDP::pre_backward": "communication",
    "FSDP::all_gather": "communication",
    "FSDP::all_gather_copy_out": "communication",
    "FSDP::post_backward_accumulate": "gradients",
    "FSDP::post_backward_reshard": "gradients",
    "FSDP::post_backward_reduce": "communication",
}
"""What FSDP2 allocates in a scope of that name: parameters gathered from their shards, gradients that wait in the
precision in which they are reduced, and what is sent.
"""

_DEVICE = torch.ops.prim.device.default


@contextmanager
def group(*, rank: int, ranks: int) -> Iterator[dist.ProcessGroup]:
    """A group of so many ranks, of which this process is one and the others are nobody. What DTensor remembers of
    another group's meshes is forgotten: it takes meshes of the same ranks for the same, and would call their groups.
    """
    _clear_sharding_prop_cache()  # type: ignore[no-untyped-call]
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=ranks)
    try:
        everyone = dist.group.WORLD
        assert everyone is not None
        yield everyone
    finally:
        dist.destroy_process_group()


@contextmanager
def no_values() -> Iterator[None]:
    """New tensors have shapes and no values. Two things of torch stay out of it.

    A device mesh has values: FSDP2 joins the data axis with the tensor axis in the middle of its work, and reads the
    ranks of the new one. And DTensor finds the shape of a result by computing it on shapes of the whole, which no rank
    holds and no tracker may see.
    """
    joined, shapes = DeviceMesh._concatenate, ShardingPropagator._propagate_tensor_meta_non_cached

    def with_values(meshes: list[DeviceMesh]) -> DeviceMesh:
        with unset_fake_temporarily():
            return joined(meshes)

    def unseen(propagator: ShardingPropagator, schema: Any) -> Any:
        with _disable_current_modes():
            return shapes(propagator, schema)

    with (
        patch.object(DeviceMesh, "_concatenate", staticmethod(with_values)),
        patch.object(ShardingPropagator, "_propagate_tensor_meta_non_cached", unseen),
        FakeTensorMode(),
    ):
        yield


class ShardedTracker(Tracker):  # type: ignore[no-untyped-call]
    """A tracker that knows what FSDP2's scopes are for, as it knows those of our own strategies."""

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """On which device a tensor lies is most of what autograd asks, and nothing to count."""
        if func is _DEVICE and isinstance(args[0], FakeTensor):
            return args[0].fake_device
        return super().__torch_dispatch__(func, types, args, kwargs)

    def _enters(self, name: str) -> None:
        super()._enters(SCOPES.get(name.split(" ")[0], name))

    def follow(self, tensor: Any) -> None:
        """Count the gradient of a parameter as one, as soon as backward has made it."""

        def made(own: Any) -> None:
            if own.grad is not None:
                self.retag(own.grad, "gradients")

        tensor.register_post_accumulate_grad_hook(made)
