"""torch's own layout of the course's GPT: FSDP2 on the data axis, `parallelize_module` on the tensor axis, and our 1F1B
between stages, on real ranks or on ranks that the simulation makes up.

FSDP2 keeps every parameter as a shard, and a step has ZeRO's traffic all the same, by what it does between backwards:

    ZeRO-1   gathered once a step, whole gradients added up, one reduce-scatter after the last backward
    ZeRO-2   gathered once a step, a reduce-scatter after each backward
    ZeRO-3   gathered for each forward and each backward, a reduce-scatter after each backward

    Shapes:  B sequences in a micro-batch, S positions, l of them on this tensor rank, D hidden, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.profiler import record_function
from torch.utils.checkpoint import checkpoint

from labs.model import Attention, Block, Embedding, Head, mean_loss
from labs.planner.fake import ShardedTracker
from labs.strategies.pipeline import Executor
from labs.strategies.schedules import Action, Order
from labs.strategies.units import MicroBatch


class FullySharded:
    """Takes the pieces of one pipeline stage, whole and the same on every rank of the stage, and keeps its shards.

    `mesh` has the axes pipeline, data and tensor. `policy` says in which precision parameters are gathered and
    gradients reduced; shards, their gradients and Adam's states stay in that of the pieces. Queries, keys and values
    stand in their matrix rank by rank of the tensor axis, as Megatron keeps them.
    """

    def __init__(
        self,
        pieces: Sequence[nn.Module],
        *,
        mesh: DeviceMesh,
        zero: int,
        hidden: int,
        policy: MixedPrecisionPolicy,
        sequence: bool = False,
        recompute: str = "none",
        tied: bool = False,
    ) -> None:
        self.mesh, self.zero, self.hidden, self.sequence = mesh, zero, hidden, sequence
        self.orders: Sequence[Order] = ()
        self.pipeline, self.tensor = mesh.get_group("pipeline"), mesh["tensor"]
        self.first, self.last = isinstance(pieces[0], Embedding), isinstance(pieces[-1], Head)
        self.dtype = policy.param_dtype or next(pieces[0].parameters()).dtype
        self.model = nn.Sequential(*pieces)
        if recompute != "none":
            recomputed(self.model, whole=recompute == "full")
        if self.tensor.size() > 1:
            split(self.model, self.tensor, sequence=sequence)
        if tied and self.first and self.last:
            cast("Any", pieces[-1]).linear.weight = cast("Any", pieces[0]).token.weight
            groups: list[Any] = [[pieces[0], pieces[-1]], *pieces[1:-1]]
        else:
            groups = list(pieces)
        for part in (*groups, self.model):
            fully_shard(part, mesh=mesh["data"], mp_policy=policy, reshard_after_forward=zero == 3)
        self.table = self.tied_table() if tied and self.first != self.last else None
        self.adam = torch.optim.Adam(by_mesh(self.model.parameters()), lr=1e-3, eps=1e-6, fused=True)

    def train_step(self, micro_batches: Sequence[MicroBatch]) -> Tensor | None:
        """One optimizer step; the mean loss on ranks of the last stage, None on the others."""
        tokens = [tokens for tokens, _ in micro_batches]
        sequences, positions = tokens[0].shape
        executor = ShardedExecutor(
            [self.model],
            orders=self.orders,
            group=self.pipeline,
            shape=(sequences, positions // self.tensor.size() if self.sequence else positions, self.hidden),
            dtype=self.dtype,
        )
        executor.zero = self.zero
        with loss_parallel() if self.tensor.size() > 1 else nullcontext():
            loss = executor.step(tokens, [partial(loss_of, targets) for _, targets in micro_batches])
        with record_function("optimizer"):
            if self.table is not None:
                weight, ends = self.table
                assert isinstance(weight.grad, DTensor)
                dist.all_reduce(weight.grad.to_local(), group=ends)
            with record_function("optimizer_states"):
                self.adam.step()
            self.adam.zero_grad()
        return loss

    def tied_table(self) -> tuple[nn.Parameter, dist.ProcessGroup]:
        """The copy of a table that the first stage and the last share, and the group of the two ranks with the same
        shard of it: they add up their gradients.
        """
        ranks = dist.get_process_group_ranks(self.pipeline)
        ends = dist.new_group([ranks[0], ranks[-1]], use_local_synchronization=True, group_desc="mesh_pipeline")
        piece = cast("Any", self.model[0 if self.first else -1])
        return (piece.token if self.first else piece.linear).weight, cast("dist.ProcessGroup", ends)

    def watched(self, tracker: ShardedTracker) -> None:
        """Let a tracker count what of it is parameters, gradients and optimizer states, also while it is gathered."""
        tracker.adopt(self.model.parameters(), "parameters")
        for axis in ("pipeline", "data", "tensor"):
            tracker.name_axis(self.mesh.get_group(axis), axis)
        followed: set[nn.Parameter] = set()

        def follow(module: nn.Module, _: object = None) -> None:
            for p in module.parameters():
                if p not in followed:
                    followed.add(p)
                    tracker.follow(p)

        follow(self.model)
        for piece in self.model:
            piece.register_forward_pre_hook(follow)  # its parameters are the gathered ones now


class ShardedExecutor(Executor):
    """1F1B that tells FSDP2 which backward is the last of the step."""

    zero: int

    def backward(self, action: Action) -> None:
        stage = self.chunks[0]
        assert isinstance(stage, FSDPModule)
        last = action.micro_batch == len(self.losses) - 1
        stage.set_requires_gradient_sync(last or self.zero >= 2)
        stage.set_reshard_after_backward(last or self.zero == 3)
        super().backward(action)


def loss_of(targets_BS: Tensor, logits_BSV: Tensor) -> Tensor:
    """The mean loss of a micro-batch; on the tensor axis each rank has its part of the logits."""
    loss = mean_loss(logits_BSV.flatten(0, 1), targets_BS.flatten())
    return loss.to_local() if isinstance(loss, DTensor) else loss


def split(model: nn.Sequential, mesh: DeviceMesh, *, sequence: bool) -> None:
    """Column- and row-parallel layers, the embedding by rows and the head by columns of the vocabulary; with `sequence`
    what lies between them is cut along the positions.
    """
    stream = Shard(1) if sequence else Replicate()
    styles: dict[str, Any] = {
        "token": RowwiseParallel(input_layouts=Replicate(), output_layouts=stream),
        "attention.qkv": ColwiseParallel(input_layouts=stream),
        "attention.out": RowwiseParallel(output_layouts=stream),
        "up": ColwiseParallel(input_layouts=stream),
        "down": RowwiseParallel(output_layouts=stream),
        "linear": ColwiseParallel(input_layouts=stream, output_layouts=Shard(-1), use_local_output=False),
    }
    if sequence:
        styles["position"] = RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(0))
        norms = ("attention_norm", "mlp_norm", "norm")
        styles |= {name: SequenceParallel(use_local_output=True) for name in norms}
    for piece in model:
        names = {name for name, _ in piece.named_modules()}
        parallelize_module(piece, mesh, {name: style for name, style in styles.items() if name in names})
    for module in model.modules():
        if isinstance(module, Attention):
            module.heads //= mesh.size()


def recomputed(model: nn.Module, *, whole: bool) -> None:
    """Compute blocks, or the attention in them, again in backward. What that allocates counts as in forward."""

    def again(function: Callable[..., Any]) -> Callable[..., Any]:
        def contexts() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
            return nullcontext(), record_function("activations")

        return partial(checkpoint, function, use_reentrant=False, preserve_rng_state=False, context_fn=contexts)

    for module in model.modules():
        if whole and isinstance(module, Block):
            cast("Any", module).forward = again(module.forward)
        elif not whole and isinstance(module, Attention):
            module.attend = again(module.attend)


def by_mesh(parameters: Any) -> list[dict[str, list[nn.Parameter]]]:
    """Groups of parameters that lie on the same axes: one fused update takes no others."""
    groups: dict[object, list[nn.Parameter]] = {}
    for p in parameters:
        groups.setdefault(p.device_mesh, []).append(p)
    return [{"params": group} for group in groups.values()]
