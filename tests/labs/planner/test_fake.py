"""What the simulation takes from torch without a promise. Each test names what to mend when an upgrade breaks it:
everything is in labs/planner/fake.py.
"""

from __future__ import annotations

import inspect
from contextlib import ExitStack
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor._sharding_prop import ShardingPropagator

from labs.planner import fake


def test_a_fake_group_has_any_number_of_ranks_and_reaches_nobody() -> None:
    with fake.group(rank=2999, ranks=3000) as everyone:
        assert (dist.get_rank(everyone), dist.get_world_size(everyone)) == (2999, 3000)
        dist.all_reduce(torch.ones(2))
    assert not dist.is_initialized()


def test_a_tensor_without_values_has_a_storage_of_its_size_and_no_memory() -> None:
    with fake.no_values():
        huge = torch.zeros(1 << 45)
        assert huge.untyped_storage().nbytes() == 4 << 45
        assert (huge @ huge).shape == ()
    assert type(torch.zeros(1)) is torch.Tensor


def test_a_mesh_joined_without_values_has_values() -> None:
    """`DeviceMesh._concatenate` joins the axes of FSDP2 and of tensor parallelism. Where it is gone, see what
    `_fsdp_param.py` calls in its place; where this passes without the patch, take the patch away.
    """
    assert list(inspect.signature(DeviceMesh._concatenate).parameters) == ["device_mesh_list"]
    with fake.group(rank=5, ranks=8):
        mesh = init_device_mesh("cpu", (4, 2), mesh_dim_names=("data", "tensor"))
        with fake.no_values():
            joined = DeviceMesh._concatenate([mesh["data"], mesh["tensor"]])
        assert joined.mesh.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_dtensor_finds_shapes_in_one_method_that_is_called_unseen() -> None:
    """`ShardingPropagator._propagate_tensor_meta_non_cached` computes on shapes of the whole. Where it is gone, find
    what calls `gen_fake_args`.
    """
    assert "gen_fake_args" in inspect.getsource(ShardingPropagator._propagate_tensor_meta_non_cached)
    original = ShardingPropagator._propagate_tensor_meta_non_cached
    with fake.no_values():
        assert ShardingPropagator._propagate_tensor_meta_non_cached is not original
    assert ShardingPropagator._propagate_tensor_meta_non_cached is original


class Scopes(fake.ShardedTracker):  # type: ignore[no-untyped-call]
    seen: set[str]

    def _enters(self, name: str) -> None:
        self.seen.add(name.split(" ")[0])
        super()._enters(name)


def test_fsdp_works_in_the_scopes_whose_bytes_are_counted() -> None:
    """`SCOPES` says what is allocated in each; where a name is missing, see `_fsdp_param_group.py` for the new one."""
    with fake.group(rank=0, ranks=4), ExitStack() as stack:
        mesh = init_device_mesh("cpu", (4,))
        stack.enter_context(fake.no_values())
        scopes = stack.enter_context(Scopes(fake=True))
        scopes.seen = set()
        model = nn.Sequential(nn.Linear(8, 8))
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        fully_shard(model, mesh=mesh, mp_policy=policy)
        model(torch.zeros(2, 8)).mean().backward()
    assert fake.SCOPES.keys() <= scopes.seen


def test_what_dtensor_remembers_of_one_group_does_not_reach_the_next() -> None:
    """`_clear_sharding_prop_cache`: without it, the second group is asked for a group of the first."""
    for rank in (0, 3):
        with fake.group(rank=rank, ranks=4):
            mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))["tensor"]
            with fake.no_values():
                half: Any = DTensor.from_local(torch.zeros(4, 2), mesh, [Shard(1)])
                assert (half @ half.redistribute(mesh, [Replicate()])).full_tensor().shape == (4, 4)
