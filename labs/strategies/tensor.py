"""Tensor parallelism: one matrix product split over ranks, inside a layer (Shoeybi et al. 2019, section 3).

The two-layer network Y = gelu(X A) B is split so that nothing is exchanged in its middle: A by columns, so that each
rank computes its own hidden features and gelu acts on those alone; B by rows, so that each rank has one summand of Y.
Attention is the same with heads in the place of features. One all-reduce in forward (g), one in backward (f), for
each of the two.

    Shapes:  B micro-batch, S sequence, D hidden, F features, V vocabulary, N = B S, t ranks on the tensor axis.
    A small letter is this rank's t-th of the large one:  x_BSD  A_Df  h_BSf  B_fD  y_BSD
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F
from torch.profiler import record_function

# --- the wires: f and g


class Copy(torch.autograd.Function):
    """f: forward does nothing; backward sums, since every rank's branch adds to the gradient of the same x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return summed(grad, ctx.group), None


class Reduce(torch.autograd.Function):
    """g: forward sums the ranks' summands; backward does nothing, since each of them has the sum's gradient."""

    @staticmethod
    def forward(_: Any, x: Tensor, group: dist.ProcessGroup) -> Tensor:
        return summed(x, group)

    @staticmethod
    def backward(_: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad, None


def summed(x: Tensor, group: dist.ProcessGroup) -> Tensor:
    """The sum of all ranks' x, on every rank."""
    with record_function("communication"):
        total = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total, group=group)
    return total


# --- what a rank holds of a parameter


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """How a parameter lies on the tensor axis.

    Along `dim` the whole has `size` entries: `sections` of equal size one after the other, of each of which a rank has
    its t-th, filled up with zeros where t does not divide. `dim` None: every rank has the whole. `partial`: what a rank
    computes of its gradient is one summand of it (Megatron's sequence parallelism).
    """

    dim: int | None = None
    size: int = 0
    sections: int = 1
    partial: bool = False


def part(whole: Tensor, shard: Shard, *, rank: int, ranks: int) -> Tensor:
    """What `rank` holds of a whole parameter."""
    if shard.dim is None:
        return whole
    sections = torch.unflatten(whole.movedim(shard.dim, 0), 0, (shard.sections, -1))
    width = -(-sections.size(1) // ranks)
    mine = sections[:, rank * width : (rank + 1) * width]
    filled = mine.new_zeros(shard.sections, width, *mine.shape[2:])
    filled[:, : mine.size(1)] = mine
    return filled.flatten(0, 1).movedim(0, shard.dim).contiguous()


def joined(parts: Sequence[Tensor], shard: Shard) -> Tensor:
    """The whole parameter from what ranks 0, 1, ... hold: `part` undone."""
    if shard.dim is None:
        return parts[0]
    sections = [torch.unflatten(each.movedim(shard.dim, 0), 0, (shard.sections, -1)) for each in parts]
    whole = torch.cat(sections, dim=1)[:, : shard.size // shard.sections]
    return whole.flatten(0, 1).movedim(0, shard.dim).contiguous()


def shard_of(parameter: Tensor) -> Shard:
    """How a parameter lies on the tensor axis; one that nobody has cut is whole on every rank."""
    found: Shard = getattr(parameter, "shard", Shard())
    return found


def cut(parameter: Tensor, shard: Shard, *, group: dist.ProcessGroup) -> Tensor:
    """Leave only this rank's part in a parameter, in place, and note how it lies. One that is cut already stays so:
    tied weights are met twice.
    """
    if not hasattr(parameter, "shard"):
        with record_function("parameters"), torch.no_grad():
            rank, ranks = dist.get_rank(group), dist.get_world_size(group)
            parameter.data = part(parameter.detach(), shard, rank=rank, ranks=ranks)
        parameter.shard = shard  # type: ignore[attr-defined]
    return parameter


def divides(size: int, what: str, *, group: dist.ProcessGroup) -> None:
    """Raises ValueError where the ranks cannot each have the same whole number of something."""
    ranks = dist.get_world_size(group)
    if size % ranks:
        raise ValueError(
            f"rank {dist.get_rank(group)}: {size} {what} do not divide by the {ranks} ranks of the tensor axis. Each"
            f" rank has to hold equally many: choose a number of ranks that divides {size}."
        )


# --- the layers


class ColumnParallelLinear(nn.Module):
    """y_BSf = x_BSD A_Df + b_f: whole input, split output, nothing exchanged in forward.

    `sections`: the output is so many things one after the other (queries, keys, values), each of them split.
    `filled`: zeros make up for features that t does not divide. Otherwise ValueError.
    """

    def __init__(self, linear: nn.Linear, *, group: dist.ProcessGroup, sections: int = 1, filled: bool = False) -> None:
        super().__init__()
        size = linear.out_features
        if not filled:
            divides(size // sections, "output features", group=group)
        # torch keeps A transposed: its columns are rows here
        columns = Shard(dim=0, size=size, sections=sections)
        self.group = group
        self.weight = cut(linear.weight, columns, group=group)
        self.bias = None if linear.bias is None else cut(linear.bias, columns, group=group)

    def forward(self, x_BSD: Tensor) -> Tensor:
        copied_BSD: Tensor = Copy.apply(x_BSD, self.group)  # type: ignore[no-untyped-call]
        return F.linear(copied_BSD, self.weight, self.bias)


class RowParallelLinear(nn.Module):
    """y_BSD = the sum over ranks of h_BSf B_fD, plus b_D once: split input, whole output, one all-reduce."""

    leave: ClassVar[type[torch.autograd.Function]] = Reduce

    def __init__(self, linear: nn.Linear, *, group: dist.ProcessGroup) -> None:
        super().__init__()
        divides(linear.in_features, "input features", group=group)
        self.group = group
        self.weight = cut(linear.weight, Shard(dim=1, size=linear.in_features), group=group)
        self.bias = linear.bias

    def forward(self, h_BSf: Tensor) -> Tensor:
        summand_BSD = F.linear(h_BSf, self.weight)
        y_BSD: Tensor = self.leave.apply(summand_BSD, self.group)  # type: ignore[no-untyped-call]
        return y_BSD if self.bias is None else y_BSD + self.bias


class VocabularyParallelEmbedding(nn.Module):
    """Each rank looks up the tokens that its v rows know, has zero for the others, and the sum is the embedding.

    Where t does not divide V, zero rows that no token asks for make the last ranks' parts as large as the others'.
    """

    leave: ClassVar[type[torch.autograd.Function]] = Reduce

    def __init__(self, embedding: nn.Embedding, *, group: dist.ProcessGroup) -> None:
        super().__init__()
        self.group = group
        self.weight = cut(embedding.weight, Shard(dim=0, size=embedding.num_embeddings), group=group)

    def forward(self, tokens_BS: Tensor) -> Tensor:
        row_BS, mine_BS = own_rows(tokens_BS, len(self.weight), self.group)
        summand_BSD = F.embedding(row_BS, self.weight) * mine_BS.unsqueeze(-1)
        x_BSD: Tensor = self.leave.apply(summand_BSD, self.group)  # type: ignore[no-untyped-call]
        return x_BSD


def own_rows(tokens: Tensor, rows: int, group: dist.ProcessGroup) -> tuple[Tensor, Tensor]:
    """For each token its row on this rank, and whether it is one; 0 for those that other ranks have."""
    row = tokens - dist.get_rank(group) * rows
    mine = (row >= 0) & (row < rows)
    return row.where(mine, 0), mine


# --- the loss


class VocabularyParallelCrossEntropy(torch.autograd.Function):
    """log(sum over V of exp z) - z[target], from logits split over ranks: all-reduces of three numbers a token, never
    the logits themselves.
    """

    @staticmethod
    def forward(ctx: Any, logits_Nv: Tensor, targets_N: Tensor, group: dist.ProcessGroup) -> Tensor:
        row_N, mine_N = own_rows(targets_N, logits_Nv.size(-1), group)
        top_N = logits_Nv.amax(-1)
        dist.all_reduce(top_N, op=dist.ReduceOp.MAX, group=group)
        exp_Nv = logits_Nv - top_N.unsqueeze(-1)
        hit_N = exp_Nv.gather(-1, row_N.unsqueeze(-1)).squeeze(-1).where(mine_N, 0)
        exp_Nv.exp_()
        sum_N, hit_N = both_2N = torch.stack([exp_Nv.sum(-1), hit_N])
        dist.all_reduce(both_2N, group=group)
        ctx.save_for_backward(exp_Nv.div_(sum_N.unsqueeze(-1)), row_N, mine_N)
        loss_N: Tensor = sum_N.log() - hit_N
        return loss_N

    @staticmethod
    def backward(ctx: Any, grad_N: Tensor) -> tuple[Tensor, None, None]:
        softmax_Nv, row_N, mine_N = ctx.saved_tensors
        grad_Nv = softmax_Nv * grad_N.unsqueeze(-1)
        grad_Nv.scatter_add_(-1, row_N.unsqueeze(-1), -(grad_N * mine_N).unsqueeze(-1))
        return grad_Nv, None, None


def parallel_loss(logits_Nv: Tensor, targets_N: Tensor, *, group: dist.ProcessGroup, vocabulary: int) -> Tensor:
    """The mean cross entropy of N predictions, the same on every rank, in at least single precision."""
    if logits_Nv.dtype.itemsize < 4:
        logits_Nv = logits_Nv.float()
    width = logits_Nv.size(-1)
    real = min(width, max(0, vocabulary - dist.get_rank(group) * width))
    if real < width:  # what zeros fill up is no token: probability 0
        logits_Nv = F.pad(logits_Nv[:, :real], (0, width - real), value=-torch.inf)
    loss_N: Tensor = VocabularyParallelCrossEntropy.apply(logits_Nv, targets_N, group)  # type: ignore[no-untyped-call]
    return loss_N.mean()
