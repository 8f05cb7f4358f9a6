"""Data, pipeline, tensor and context parallelism at once, over one device mesh (Narayanan et al. 2021, section 3;
Grattafiori et al. 2024, section 3.3.2).

Each of the four cuts something else, so that each stays what it is alone:

    pipeline    the list of layers       data      the batch
    tensor      each layer's matrices    context   the sequences

What is new is where they meet, all of it after the last backward: whose gradients make one gradient together.

    data and context    ranks that hold the same parameters: the mean (or its shard, in ZeRO-1)
    pipeline            a weight that two stages use: the sum
    tensor              what each rank computed one summand of (sequence parallelism): the sum
    all axes            the norm by which gradients are clipped: every parameter once

    Shapes:  B sequences in a micro-batch, L positions of this context rank, l of this tensor rank, D hidden,
    N = B L, v this rank's part of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.profiler import record_function

from labs.strategies import context, tensor_parallel
from labs.strategies.layout import AXES, Layout
from labs.strategies.pipeline import Executor, stages_of, tied_weights
from labs.strategies.recompute import recompute
from labs.strategies.schedules import Order
from labs.strategies.sequence import sum_partial_gradients
from labs.strategies.tensor import shard_of
from labs.strategies.units import MicroBatch, Recipe, Unit, units_of

Loss = Callable[[Tensor, Tensor], Tensor]


def mesh_of(layout: Layout, *, device: str) -> DeviceMesh:
    """All ranks on four named axes. Every rank must call it."""
    return init_device_mesh(device, tuple(layout.degrees().values()), mesh_dim_names=AXES)


class Parallel:
    """Rank (pipeline i, data j, context k, tensor l) trains the l-th part of the matrices of stage i, on the k-th part
    of the sequences of the j-th part of the batch.

    Takes a model's pieces, whole and the same on every rank, and keeps its part of its own stages. `hidden` is D,
    `length` the positions of a sequence, `loss` the mean loss of (N, V) logits and (N) targets.
    """

    def __init__(
        self,
        pieces: Sequence[nn.Module],
        *,
        layout: Layout,
        mesh: DeviceMesh,
        orders: Sequence[Order],
        hidden: int,
        length: int,
        loss: Loss,
        recipe: Recipe,
        recomputed: str = "none",
    ) -> None:
        self.layout, self.orders, self.clip = layout, orders, recipe.clip
        self.hidden, self.length, self.loss = hidden, length, loss
        self.groups = {axis: mesh.get_group(axis) for axis in AXES}
        if layout.cp > 1:
            self.groups["data"] = group_of(layout, "data", "context", name="data")
        self.pipeline, self.data, self.tensor = (self.groups[axis] for axis in ("pipeline", "data", "tensor"))
        self.everyone = group_of(layout, *(AXES if layout.zero else ("pipeline", "tensor")), name="world")
        stage = dist.get_rank(self.pipeline)

        stages = stages_of(pieces, stages=len(orders) * layout.chunks)
        self.tied = tied_weights(stages, group=self.pipeline)
        mine = stages[stage :: layout.pp]
        self.model = nn.ModuleList(nn.Sequential(*pieces) for pieces in mine)
        if layout.tp > 1:
            tensor_parallel.parallelize(self.model, group=self.tensor, sequence=layout.sequence)
            if stage == layout.pp - 1:
                self.loss = tensor_parallel.loss_of(self.model, group=self.tensor)
        if layout.cp > 1:
            self.ring = context.parallelize(self.model, group=self.groups["context"], length=length)
        if recomputed != "none":
            recompute(self.model, mode=recomputed)

        self.units = units_of([piece for pieces in mine for piece in pieces], group=self.data)
        self.trained = [unit for unit in self.units if unit.trainable]
        for unit in self.trained:
            unit.keep_gradients()
            unit.keep_master(unit.shard if layout.zero else unit.whole, recipe)

    def train_step(self, micro_batches: Sequence[MicroBatch]) -> Tensor | None:
        """One optimizer step on the micro-batches of this data rank, whole sequences. On ranks of the last stage their
        mean loss over this rank's positions, weighted so that the mean over context ranks is that of all; else None.
        """
        if self.layout.cp > 1:
            micro_batches = [self.ring.share(tokens, targets) for tokens, targets in micro_batches]
        tokens = [tokens for tokens, _ in micro_batches]
        executor = Executor(
            list(self.model),
            orders=self.orders,
            group=self.pipeline,
            shape=self.message_shape(tokens[0]),
            dtype=self.units[0].whole.dtype,
        )
        loss = executor.step(tokens, [partial(self.loss_of, targets) for _, targets in micro_batches])
        with record_function("optimizer"):
            self.update()
        return loss

    def message_shape(self, tokens_BL: Tensor) -> tuple[int, int, int]:
        """(B, l, D): what goes from stage to stage. With sequence parallelism each tensor rank has its part of it."""
        sequences, positions = tokens_BL.shape
        return sequences, positions // self.layout.tp if self.layout.sequence else positions, self.hidden

    def loss_of(self, targets_BL: Tensor, logits_BLv: Tensor) -> Tensor:
        """The mean over true positions, and the mean over context ranks is then that of whole sequences."""
        if self.layout.cp == 1:
            return self.loss(logits_BLv.flatten(0, 1), targets_BL.flatten())
        true = self.ring.places.true(self.ring.rank)
        share = self.layout.cp * true / self.length
        return self.loss(logits_BLv[:, :true].flatten(0, 1), targets_BL[:, :true].flatten()) * share

    # --- after the last backward

    def update(self) -> None:
        """What each rank made becomes the gradient of the whole batch; then each updates what it keeps states of."""
        for tied in self.tied:
            tied.reduce()
        sum_partial_gradients(self.model.parameters(), group=self.tensor)
        gradients = [self.reduce(unit) for unit in self.trained]
        if self.clip is not None:
            self.clip_by(self.clip, gradients)
        for unit, gradient in zip(self.trained, gradients, strict=True):
            unit.update(gradient)
            if self.layout.zero and unit.ranks > 1:
                unit.all_gather()

    def reduce(self, unit: Unit) -> Tensor:
        """The mean over all ranks that hold the same parameters: whole, or in ZeRO-1 this rank's shard."""
        if unit.ranks == 1:
            return unit.gradients
        if self.layout.zero:
            return unit.reduce_scatter(unit.gradients)
        unit.all_reduce()
        return unit.gradients

    def clip_by(self, limit: float, gradients: Sequence[Tensor]) -> None:
        """Scale all gradients so that the norm of the whole model's gradient is at most `limit`."""
        counted = [
            part
            for unit, gradient in zip(self.trained, gradients, strict=True)
            for p, part in parts(unit, gradient)
            if self.counts(p)
        ]
        precision = torch.promote_types(gradients[0].dtype, torch.float32)
        squares = sum(
            (torch.linalg.vector_norm(part, dtype=precision) ** 2 for part in counted),
            start=gradients[0].new_zeros((), dtype=precision),
        )
        with record_function("clipping"):
            dist.all_reduce(squares, group=self.everyone)
        scale = (limit / (squares.sqrt() + 1e-6)).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(scale)

    def counts(self, p: nn.Parameter) -> bool:
        """Whether this rank counts a parameter: of those that hold the same one, the first on each axis does."""
        first_stage = all(tied.weight is not p or tied.ranks[0] == dist.get_rank(self.pipeline) for tied in self.tied)
        return first_stage and (shard_of(p).dim is not None or dist.get_rank(self.tensor) == 0)


def parts(unit: Unit, gradient: Tensor) -> Iterator[tuple[nn.Parameter, Tensor]]:
    """What of each parameter lies in a unit's gradient, whole or this rank's shard of it."""
    offset = 0 if len(gradient) == unit.padded else -unit.rank * len(gradient)
    for p in unit.parameters:
        yield p, gradient[max(0, offset) : max(0, offset + p.numel())]
        offset += p.numel()


def group_of(layout: Layout, *axes: str, name: str) -> dist.ProcessGroup:
    """The group of this rank along several axes at once. `name` says which axis its traffic is of."""
    ranks = layout.group(dist.get_rank(), *axes)
    group = dist.new_group(ranks, use_local_synchronization=True, group_desc=f"mesh_{name}")
    assert isinstance(group, dist.ProcessGroup)
    return group
