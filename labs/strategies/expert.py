"""Expert parallelism: a mixture of experts over N ranks (Lepikhin et al. 2020, GShard; Fedus, Zoph and Shazeer 2021,
Switch Transformer).

In place of its two-layer network a block has E of them, the experts, and a router that sends each token to the k that
it scores highest: parameters grow with E, the work on a token only with k. Each rank holds E / N experts and brings
its own tokens. One all-to-all takes the tokens to their experts ("dispatch"), another the results back ("combine").

    capacity    an expert has C = ceil(factor * k * T / E) places for the tokens of each rank: all messages are alike
    dropped     a token that finds no place left: nothing is added to its stream
    balance     E * sum over experts of f P, the share of tokens times the mean probability: 1 where all get the same

    Shapes on a rank:  T tokens, D hidden, F features, E experts in all, X = E / N here, C places, M places taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.nn import functional as F
from torch.profiler import record_function

from labs.strategies.units import MicroBatch, Recipe, units_of

DEVIATION = 0.02


# --- which token goes where


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """Where a rank's tokens go: one entry for each place that is taken."""

    token_M: Tensor
    expert_M: Tensor
    place_M: Tensor
    gate_M: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How many of a rank's tokens wanted each expert, also those that found no place, and their balance: the auxiliary
    loss (Switch, equation 4), 0 without tokens.
    """

    wanted_E: Tensor
    balance: Tensor


def capacity(*, tokens: int, experts: int, top: int, factor: float) -> int:
    """C: places of one expert for the tokens of one rank (Switch, equation 3). With factor 1, just enough if all
    experts got the same."""
    return math.ceil(factor * top * tokens / experts)


def route(probability_TE: Tensor, *, top: int, places: int) -> tuple[Routes, Load]:
    """Each token's `top` experts, and its place in each: first choices come before second ones, then earlier tokens
    before later ones. The gate is the expert's probability (Switch, equation 2), of several their share (GShard).
    """
    tokens, experts = probability_TE.shape
    gate_TK, expert_TK = probability_TE.topk(top)
    if top > 1:
        gate_TK = gate_TK / gate_TK.sum(-1, keepdim=True)
    gate_P, expert_P = gate_TK.T.flatten(), expert_TK.T.flatten()
    wants_PE = F.one_hot(expert_P, experts)
    place_P = (wants_PE.cumsum(0) * wants_PE).sum(-1) - 1
    kept_M = (place_P < places).nonzero().squeeze(-1)

    share_E = wants_PE[:tokens].sum(0) / max(tokens, 1)  # of the tokens whose first choice it is
    mean_E = probability_TE.sum(0) / max(tokens, 1)
    load = Load(wanted_E=wants_PE.sum(0), balance=experts * (share_E * mean_E).sum())
    token_M = kept_M % max(tokens, 1)
    return Routes(token_M=token_M, expert_M=expert_P[kept_M], place_M=place_P[kept_M], gate_M=gate_P[kept_M]), load


def dispatch(x_TD: Tensor, routes: Routes, *, experts: int, places: int) -> Tensor:
    """(E, C, D): each token in its place at its expert; places that nobody took are zero."""
    given_ECD = x_TD.new_zeros(experts, places, x_TD.size(-1))
    return given_ECD.index_put((routes.expert_M, routes.place_M), x_TD[routes.token_M])


def combine(made_ECD: Tensor, routes: Routes, *, tokens: int) -> Tensor:
    """(T, D): the sum of what its experts made of each token, times their gates; zero for a token without a place."""
    parts_MD = made_ECD[routes.expert_M, routes.place_M] * routes.gate_M.to(made_ECD.dtype).unsqueeze(-1)
    return made_ECD.new_zeros(tokens, made_ECD.size(-1)).index_add(0, routes.token_M, parts_MD)


# --- the way to another rank and back


class AllToAll(torch.autograd.Function):
    """Part n of the buffer goes to rank n; what comes from rank n lies in part n. Gradients go the same way back.

    A rank whose tokens fill nothing sends zeros and is there all the same, in forward and in backward: the others wait
    for its part.
    """

    @staticmethod
    def forward(ctx: FunctionCtx, parts_ECD: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group  # type: ignore[attr-defined]
        with record_function("communication"):
            arrived_ECD = torch.empty_like(parts_ECD, memory_format=torch.contiguous_format)
            dist.all_to_all_single(arrived_ECD, parts_ECD.contiguous(), group=group)
        return arrived_ECD

    @staticmethod
    def backward(ctx: FunctionCtx, gradient_ECD: Tensor) -> tuple[Tensor, None]:
        return AllToAll.forward(ctx, gradient_ECD, ctx.group), None  # type: ignore[attr-defined]


def all_to_all(parts_ECD: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Part n of the buffer to rank n, what came from rank n in part n; and the gradients back."""
    arrived_ECD: Tensor = AllToAll.apply(parts_ECD, group)  # type: ignore[no-untyped-call]
    return arrived_ECD


# --- the layer


class Experts(nn.Module):
    """Two-layer networks side by side: (X, places, D) to the same, every expert with what lies in its own places."""

    def __init__(self, *, experts: int, hidden: int, features: int) -> None:
        super().__init__()
        self.up = nn.Parameter(torch.empty(experts, hidden, features))
        self.up_bias = nn.Parameter(torch.zeros(experts, 1, features))
        self.down = nn.Parameter(torch.empty(experts, features, hidden))
        self.down_bias = nn.Parameter(torch.zeros(experts, 1, hidden))

    def forward(self, given_XCD: Tensor) -> Tensor:
        features_XCF = F.gelu(torch.baddbmm(self.up_bias, given_XCD, self.up), approximate="tanh")
        return torch.baddbmm(self.down_bias, features_XCF, self.down)

    def keep(self, part: int, parts: int) -> None:
        """Only this part of the experts from now on."""
        for p in self.parameters():
            p.data = p.data.chunk(parts)[part].clone()


class MixtureOfExperts(nn.Module):
    """x (..., D) to (..., D): what the experts of each token add to its stream.

    `tokens` is the most that a rank brings. The number of places depends on it alone and not on how many there are, so
    that a rank with fewer tokens, or none, still sends messages of the same shape as the others.
    """

    def __init__(self, *, hidden: int, features: int, experts: int, top: int, factor: float, tokens: int) -> None:
        super().__init__()
        self.count, self.top, self.tokens = experts, top, tokens
        self.places = capacity(tokens=tokens, experts=experts, top=top, factor=factor)
        self.router = nn.Linear(hidden, experts, bias=False)
        self.experts = Experts(experts=experts, hidden=hidden, features=features)
        self.group: dist.ProcessGroup | None = None
        self.load: Load | None = None

    def forward(self, x_BSD: Tensor) -> Tensor:
        x_TD = x_BSD.flatten(0, -2)
        if len(x_TD) > self.tokens:
            raise ValueError(f"{len(x_TD)} tokens, where the experts keep places for {self.tokens} a rank")
        # The router computes in at least single precision: near a tie, rounding would choose the expert.
        wide = torch.promote_types(x_TD.dtype, torch.float32)
        probability_TE = F.linear(x_TD.to(wide), self.router.weight.to(wide)).softmax(-1)
        routes, self.load = route(probability_TE, top=self.top, places=self.places)
        given_ECD = dispatch(x_TD, routes, experts=self.count, places=self.places)
        made_ECD = self.experts(given_ECD) if self.group is None else self.exchanged(given_ECD, self.group)
        return combine(made_ECD, routes, tokens=len(x_TD)).view_as(x_BSD)

    def take_load(self) -> Load:
        """That of the last forward, no longer the mixture's."""
        assert self.load is not None
        load, self.load = self.load, None
        return load

    def exchanged(self, given_ECD: Tensor, group: dist.ProcessGroup) -> Tensor:
        """The same with experts that live on many ranks: to the experts, through them, and back."""
        ranks = dist.get_world_size(group)
        arrived_ECD = all_to_all(given_ECD, group)
        # What came from each rank lies one below the other; the experts want it side by side, and back.
        arrived_XCD = torch.cat(arrived_ECD.chunk(ranks), dim=1)
        made_XCD: Tensor = self.experts(arrived_XCD)
        return all_to_all(torch.cat(made_XCD.chunk(ranks, dim=1)), group)


class ExpertBlock(nn.Module):
    """A block of the model in which a mixture of experts stands in the place of the two-layer network."""

    def __init__(self, block: nn.Module, mixture: MixtureOfExperts) -> None:
        super().__init__()
        self.attention_norm, self.attention = block.get_submodule("attention_norm"), block.get_submodule("attention")
        self.mlp_norm, self.mixture = block.get_submodule("mlp_norm"), mixture
        self.dropout = block.get_submodule("dropout")

    def forward(self, x_BSD: Tensor) -> Tensor:
        x_BSD = x_BSD + self.dropout(self.attention(self.attention_norm(x_BSD)))
        y_BSD: Tensor = x_BSD + self.dropout(self.mixture(self.mlp_norm(x_BSD)))
        return y_BSD


def add_experts(
    blocks: nn.ModuleList, *, experts: int, tokens: int, top: int = 1, factor: float = 1.25, seed: int = 0
) -> None:
    """Give every block `experts` experts in place of its network, the same on every rank: all of them, for now.

    Raises ValueError for a `top` that is not 1 to `experts`, and a factor that is not positive.
    """
    if not 1 <= top <= experts:
        raise ValueError(f"a token goes to 1 to {experts} experts, not {top}")
    if not factor > 0:
        raise ValueError(f"the capacity factor is a positive number, not {factor}")
    generator = torch.Generator(device="cpu").manual_seed(seed)
    for number, block in enumerate(blocks):
        up = block.get_parameter("up.weight")
        features, hidden = up.shape
        with up.device:
            mixture = MixtureOfExperts(
                hidden=hidden, features=features, experts=experts, top=top, factor=factor, tokens=tokens
            )
        if not up.is_meta:
            depth = (2 * len(blocks)) ** -0.5
            for weight, scale in (
                (mixture.router.weight, 1.0),
                (mixture.experts.up, 1.0),
                (mixture.experts.down, depth),
            ):
                weight.data.copy_(torch.randn(weight.shape, generator=generator, device="cpu") * DEVIATION * scale)
        blocks[number] = ExpertBlock(block, mixture.to(up.dtype))


def mixtures(model: nn.Module) -> Iterator[MixtureOfExperts]:
    """The mixtures of experts of a model, or of a piece of it, in order."""
    for module in model.modules():
        if isinstance(module, MixtureOfExperts):
            yield module


def parallelize(model: nn.Module, *, group: dist.ProcessGroup) -> None:
    """Spread the experts of `model`, or of any piece of it, over the ranks of `group`: expert e lives on rank e // X.

    All else stays whole on every rank. Raises ValueError where the experts do not divide by the ranks.
    """
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    for mixture in mixtures(model):
        if mixture.count % ranks:
            raise ValueError(f"{mixture.count} experts do not divide by {ranks} ranks")
        mixture.experts.keep(rank, ranks)
        mixture.group = group


# --- the training step


class ExpertParallel:
    """Every rank its own examples, as in data parallelism, and E / N of each mixture's experts.

    The loss is the mean of the ranks' losses. Of all that is whole, each rank has the gradient of its own loss: their
    mean is the gradient. An expert lives once and gets, by way of the all-to-all, the gradients of every rank's loss:
    their sum is there without a collective, and the mean is an N-th of it.
    """

    def __init__(
        self,
        model: nn.Module,
        pieces: Sequence[nn.Module],
        *,
        group: dist.ProcessGroup,
        recipe: Recipe,
        balance: float = 0.01,
    ) -> None:
        if recipe.clip is not None:
            raise ValueError("clipping needs one norm of all experts, which no rank has: train without clip")
        self.model, self.group, self.balance = model, group, balance
        self.ranks = dist.get_world_size(group)
        self.mixtures = list(mixtures(model))
        experts = [mixture.experts for mixture in self.mixtures]
        # A parameter belongs to the first piece that has it, so what follows the experts is without them.
        self.units = units_of([*experts, *pieces], group=group)
        self.experts, self.dense = self.units[: len(experts)], self.units[len(experts) :]
        for unit in self.units:
            unit.keep_gradients()
            unit.keep_master(unit.whole, recipe)

    def train_step(self, micro_batches: Sequence[MicroBatch]) -> Tensor:
        """One optimizer step on this rank's micro-batches; their mean loss, without the balance.

        Afterwards `wanted` says how many of this rank's tokens wanted each expert: (micro-batches, layers, E).
        """
        losses, wanted = [], []
        for tokens, targets in micro_batches:
            with record_function("forward"):
                loss = self.model(tokens, targets) / len(micro_batches)
                loads = [mixture.take_load() for mixture in self.mixtures]
                unbalanced = torch.stack([load.balance for load in loads]).sum() / len(micro_batches)
            with record_function("backward"):
                (loss + self.balance * unbalanced).backward()
            losses.append(loss.detach())
            wanted.append(torch.stack([load.wanted_E for load in loads]))
        self.wanted = torch.stack(wanted)

        with record_function("optimizer"):
            for unit in self.dense:
                unit.all_reduce()
            for unit in self.experts:
                unit.gradients /= self.ranks
            for unit in self.units:
                unit.update(unit.gradients)
        return torch.stack(losses).sum()
