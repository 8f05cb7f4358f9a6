"""Pipeline parallelism: each rank holds some of the layers, micro-batches go from rank to rank (Huang et al. 2019;
Narayanan et al. 2021, section 2.2).

`schedules` says what each rank does in which order, `messages` who sends what to whom; here it is done. Between two
stages move, for each micro-batch, the activations x_BSD on the way there and their gradients on the way back.

    Shapes:  B sequences in a micro-batch, S positions, D hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.profiler import record_function

from labs.strategies.messages import Receive, Send, programs
from labs.strategies.schedules import Action, Order, chunks_of, layers_of, split
from labs.strategies.split_backward import Kept, WeightsLater, weight_gradients
from labs.strategies.units import MicroBatch, Recipe, units_of


class Executor:
    """Runs a schedule on this rank's chunks and leaves the gradients of the mean loss in the parameters' `grad`.

    `shape` and `dtype` are those of what moves between stages.
    """

    def __init__(
        self,
        chunks: Sequence[nn.Module],
        *,
        orders: Sequence[Order],
        group: dist.ProcessGroup,
        shape: Sequence[int],
        dtype: torch.dtype,
    ) -> None:
        self.chunks, self.group, self.shape, self.dtype = chunks, group, tuple(shape), dtype
        self.rank, self.ranks = dist.get_rank(group), dist.get_world_size(group)
        self.device = next(chunks[0].parameters()).device
        self.last = self.ranks * chunks_of(orders) - 1
        self.program = programs(orders)[self.rank]
        self.split = any(rank == self.rank for rank, *_ in split(orders))

    def step(self, inputs: Sequence[Tensor], losses: Sequence[Callable[[Tensor], Tensor]]) -> Tensor | None:
        """Every micro-batch forward and backward: the mean loss on the rank of the last stage, None on the others.

        The first stage takes `inputs`, the last one `losses`, one for each micro-batch.
        """
        self.inputs, self.losses = inputs, losses
        self.means: list[Tensor] = []
        self.kept: dict[tuple[int, int], tuple[Tensor, GradientEdge]] = {}  # what went in; where backward begins
        self.later: dict[tuple[int, int], Kept] = {}  # gradients of weights that wait for their W
        self.made: dict[Action, Tensor] = {}
        self.coming: dict[Action, tuple[dist.Work, Tensor]] = {}
        self.going: dict[str, tuple[dist.Work, Tensor]] = {}
        run = {"F": self.forward, "B": self.backward, "W": self.weights}
        for step in self.program:
            if isinstance(step, Action):
                run[step.kind](step)
            elif isinstance(step, Send):
                self.send(step)
            elif isinstance(step, Receive):
                self.receive(step)
        for work, _ in self.going.values():
            work.wait()
        self.going.clear()
        return torch.stack(self.means).sum() if self.means else None

    # --- what a rank does

    def forward(self, action: Action) -> None:
        stage, k = self.stage(action), action.micro_batch
        x = self.inputs[k] if stage == 0 else self.arrived(action).requires_grad_()
        self.later[k, action.chunk] = []
        with self.doing(action, "forward"):
            y = self.chunks[action.chunk](x)
            if stage == self.last:
                y = self.losses[k](y) / len(self.losses)
        self.kept[k, action.chunk] = x, get_gradient_edge(y)  # without y itself, which the next stage has now
        if stage == self.last:
            self.means.append(y.detach())
        else:
            self.made[action] = y.detach()

    def backward(self, action: Action) -> None:
        gradient = None if self.stage(action) == self.last else self.arrived(action)
        x, output = self.kept.pop((action.micro_batch, action.chunk))
        with self.doing(action, "backward"):
            torch.autograd.backward(output, gradient)
        if x.grad is not None:
            self.made[action] = x.grad

    def weights(self, action: Action) -> None:
        with record_function(str(action)), record_function("backward"):
            weight_gradients(self.later.pop((action.micro_batch, action.chunk)))

    @contextmanager
    def doing(self, action: Action, phase: str) -> Iterator[None]:
        kept = self.later[action.micro_batch, action.chunk]
        with record_function(str(action)), record_function(phase), WeightsLater(kept) if self.split else nullcontext():
            yield

    def stage(self, action: Action) -> int:
        return action.chunk * self.ranks + self.rank

    # --- what it sends and receives

    def send(self, message: Send) -> None:
        """Without waiting for the other side, but for the message before, whose buffer can be let go then."""
        assert message.action is not None
        direction, tensor = message.action.kind, self.made.pop(message.action).contiguous()
        if direction in self.going:
            self.going[direction][0].wait()
        work = dist.isend(tensor, group=self.group, group_dst=message.to)
        assert work is not None
        self.going[direction] = work, tensor

    def receive(self, message: Receive) -> None:
        """Open a buffer for what comes. Who needs it waits for it, in `arrived`."""
        assert message.action is not None
        with record_function("activations" if message.action.kind == "F" else "communication"):
            tensor = torch.empty(self.shape, dtype=self.dtype, device=self.device)
        work = dist.irecv(tensor, group=self.group, group_src=message.source)
        assert work is not None
        self.coming[message.action] = work, tensor

    def arrived(self, action: Action) -> Tensor:
        work, tensor = self.coming.pop(action)
        work.wait()
        return tensor


class TiedWeight:
    """A weight that several stages use, as embedding and output layer do: a copy on each, which must stay one.

    Each stage has only its own part of the gradient; their sum is the weight's. Once all have the sum, all take the
    same step.
    """

    def __init__(self, weight: nn.Parameter, ranks: Sequence[int], *, group: dist.ProcessGroup) -> None:
        self.weight, self.ranks = weight, ranks
        members = [dist.get_global_rank(group, rank) for rank in ranks]
        self.group = dist.new_group(members, use_local_synchronization=True, group_desc="mesh_pipeline")

    def reduce(self) -> None:
        assert self.weight.grad is not None
        dist.all_reduce(self.weight.grad, group=self.group)


def stages_of(pieces: Sequence[nn.Module], *, stages: int) -> list[list[nn.Module]]:
    """A model's pieces (embedding, layers, head) by stage: the embedding with the first layers, the head with the last.

    Raises ValueError where there are fewer layers than stages.
    """
    embedding, *layers, head = pieces
    waiting = iter(layers)
    cut: list[list[nn.Module]] = [
        [next(waiting) for _ in range(count)] for count in layers_of(layers=len(layers), stages=stages)
    ]
    return [[embedding] * (i == 0) + stage + [head] * (i == stages - 1) for i, stage in enumerate(cut)]


def tied_weights(stages: Sequence[Sequence[nn.Module]], *, group: dist.ProcessGroup) -> list[TiedWeight]:
    """The weights that stages on several ranks share, of those on this rank. All ranks of the group must call it."""
    ranks = dist.get_world_size(group)
    users: dict[nn.Parameter, set[int]] = {}
    for i, stage in enumerate(stages):
        for p in nn.ModuleList(stage).parameters():
            users.setdefault(p, set()).add(i % ranks)
    return [
        TiedWeight(p, sorted(on), group=group)
        for p, on in users.items()
        if len(on) > 1 and p.requires_grad and dist.get_rank(group) in on
    ]


class PipelineParallel:
    """The executor with Adam on top: rank i holds stages i, p + i, ... of the model, and only these.

    `hidden` is D, `loss` the mean loss of a micro-batch from what the last piece makes and the targets.
    """

    def __init__(
        self,
        pieces: Sequence[nn.Module],
        *,
        orders: Sequence[Order],
        hidden: int,
        loss: Callable[[Tensor, Tensor], Tensor],
        group: dist.ProcessGroup,
        recipe: Recipe,
    ) -> None:
        if recipe.clip is not None:
            raise ValueError("a rank of a pipeline has the gradient of its own layers only: train without clip")
        self.orders, self.hidden, self.loss, self.group = orders, hidden, loss, group
        rank, ranks = dist.get_rank(group), dist.get_world_size(group)
        stages = stages_of(pieces, stages=ranks * chunks_of(orders))
        self.tied = tied_weights(stages, group=group)
        mine = stages[rank::ranks]
        self.model = nn.ModuleList(nn.Sequential(*stage) for stage in mine)
        alone = dist.new_group([dist.get_global_rank(group, rank)], use_local_synchronization=True)
        self.units = units_of([piece for stage in mine for piece in stage], group=alone)
        self.trained = [unit for unit in self.units if unit.trainable]
        for unit in self.trained:
            unit.keep_gradients()
            unit.keep_master(unit.whole, recipe)

    def train_step(self, micro_batches: Sequence[MicroBatch]) -> Tensor | None:
        """One optimizer step; the mean loss on the rank of the last stage, None on the others."""
        tokens = [tokens for tokens, _ in micro_batches]
        losses = [partial(self.loss_of, targets) for _, targets in micro_batches]
        executor = Executor(
            list(self.model),
            orders=self.orders,
            group=self.group,
            shape=(*tokens[0].shape, self.hidden),
            dtype=self.units[0].whole.dtype,
        )
        loss = executor.step(tokens, losses)
        for tied in self.tied:
            tied.reduce()
        with record_function("optimizer"):
            for unit in self.trained:
                unit.update(unit.gradients)
        return loss

    def loss_of(self, targets: Tensor, output: Tensor) -> Tensor:
        return self.loss(output, targets)
