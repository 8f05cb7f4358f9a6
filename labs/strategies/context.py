"""Context parallelism: one sequence over N ranks, with ring attention (Liu, Zaharia and Abbeel 2023).

Every rank has the whole model and 1/N of the positions of each sequence. All of the model but attention looks at one
position at a time. For attention, keys and values go round a ring: in N turns the queries of a rank meet the keys of
all. Softmax needs the sum over all keys, but it can be made block by block: with the logarithm of each block's sum
("log-sum-exp"), two results merge exactly. No rank ever holds S x S scores, or the keys of all.

    naive     chunk r of N on rank r: what comes later is hidden, so the first ranks have little to do
    zigzag    chunks r and 2N - 1 - r of 2N on rank r: every rank has the same to do in every turn

    Shapes on a rank:  B sequences, H heads, K values a head, L positions in all, C positions of one chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.nn import functional as F
from torch.profiler import record_function

ORDERS = ("naive", "zigzag")
PADDING = -100
"""The target of a position that is only padding: no loss counts it."""


# --- which positions lie on which rank


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where the positions of a sequence lie: in chunks of equal size, one on each rank or (zigzag) two.

    A length that does not divide is padded at its end. No position looks at what comes later, so padding is never
    seen. Raises ValueError for a length, ranks or an order that make no sense.
    """

    length: int
    ranks: int
    order: str = "zigzag"

    def __post_init__(self) -> None:
        if min(self.length, self.ranks) < 1:
            raise ValueError(f"a sequence of {self.length} positions on {self.ranks} ranks: both must be at least 1")
        if self.order not in ORDERS:
            raise ValueError(f"the order of a ring is one of {', '.join(ORDERS)}, not {self.order}")

    def chunks(self, rank: int) -> tuple[int, ...]:
        """The numbers of the chunks on a rank. The first and the last of 2N make a pair, and so on inwards."""
        return (rank,) if self.order == "naive" else (rank, 2 * self.ranks - 1 - rank)

    @property
    def chunk(self) -> int:
        """C: positions of a chunk, padding included."""
        return -(-self.length // (self.ranks * len(self.chunks(0))))

    @property
    def local(self) -> int:
        """L: positions on a rank, padding included."""
        return self.chunk * len(self.chunks(0))

    def true(self, rank: int) -> int:
        """How many of a rank's positions are no padding: the first of them, as chunks lie in order."""
        return sum(max(0, min(self.chunk, self.length - number * self.chunk)) for number in self.chunks(rank))

    def positions(self, rank: int) -> Tensor:
        """(L,) where in the whole sequence each position of the rank stands; from `length` on it is padding."""
        return torch.cat([torch.arange(number * self.chunk, (number + 1) * self.chunk) for number in self.chunks(rank)])

    def blocks(self, rank: int, source: int) -> Iterator[tuple[int, int, bool]]:
        """Which of its chunks a rank weighs against which of `source`'s: (i, j, whether they are the same chunk).

        What decides is where the two stand in the sequence: a later chunk sees all of an earlier one, a chunk sees
        itself up to the diagonal, and nothing sees what comes later.
        """
        for i, queries in enumerate(self.chunks(rank)):
            for j, keys in enumerate(self.chunks(source)):
                if keys <= queries:
                    yield i, j, keys == queries

    def work(self, rank: int, source: int) -> int:
        """How many pairs of a query and a key those blocks hold, in one head of one sequence."""
        size = self.chunk
        return sum(size * (size + 1) // 2 if same else size * size for _, _, same in self.blocks(rank, source))


# --- the mathematics of one block


def scores_of(q_BHCK: Tensor, k_BHCK: Tensor, *, diagonal: bool) -> Tensor:
    """How well each key answers each query (scaled); minus infinity where, on the diagonal, a key comes later."""
    scores_BHCC: Tensor = q_BHCK @ k_BHCK.mT
    if diagonal:
        future_CC = torch.ones(scores_BHCC.shape[-2:], dtype=torch.bool, device=q_BHCK.device).triu(1)
        scores_BHCC.masked_fill_(future_CC, -torch.inf)
    return scores_BHCC


def merge(out_BHCK: Tensor, lse_BHC1: Tensor, scores_BHCC: Tensor, v_BHCK: Tensor) -> None:
    """Take a block of keys into `out`, the mean of the values so far, and `lse`, the logarithm of their weights' sum.

    new lse = log(exp(lse) + sum of exp(scores)), all taken relative to the largest, so that no exponential overflows.
    What was there keeps exp(lse - new lse) of the sum. `out` and `lse` change in place; the scores are used up.
    """
    top_BHC1 = torch.maximum(lse_BHC1, scores_BHCC.amax(-1, keepdim=True))
    weights_BHCC = scores_BHCC.sub_(top_BHC1).exp_()
    new_BHC1 = top_BHC1 + ((lse_BHC1 - top_BHC1).exp() + weights_BHCC.sum(-1, keepdim=True)).log()
    out_BHCK.mul_((lse_BHC1 - new_BHC1).exp()).add_((weights_BHCC @ v_BHCK).mul_((top_BHC1 - new_BHC1).exp()))
    lse_BHC1.copy_(new_BHC1)


# --- the ring


class Passing:
    """A buffer that goes to the right neighbour while another of its shape comes from the left."""

    def __init__(self, outgoing: Tensor, *, group: dist.ProcessGroup) -> None:
        rank, ranks = dist.get_rank(group), dist.get_world_size(group)
        with record_function("communication"):
            self.incoming = torch.empty_like(outgoing)
            # Both begin before either is waited for, or every rank would wait for its neighbour to receive.
            self.works = dist.batch_isend_irecv(
                [
                    dist.P2POp(dist.isend, outgoing, group=group, group_peer=(rank + 1) % ranks),
                    dist.P2POp(dist.irecv, self.incoming, group=group, group_peer=(rank - 1) % ranks),
                ]
            )

    def wait(self) -> Tensor:
        for work in self.works:
            work.wait()
        return self.incoming


class RingAttention(torch.autograd.Function):
    """Causal attention of this rank's queries to the keys of all ranks: three times (B, H, L, K) to (B, H, L, K).

    In turn t a rank holds the keys and values of rank r - t. It passes them on before it computes with them, so that
    the next ones travel meanwhile. In backward they go round once more, and behind them their gradients, which every
    rank adds to and which are home again after N passes. All is added up in at least single precision.
    """

    @staticmethod
    def forward(ctx: FunctionCtx, q_BHLK: Tensor, k_BHLK: Tensor, v_BHLK: Tensor, ring: Ring) -> Tensor:
        wide = torch.promote_types(q_BHLK.dtype, torch.float32)
        out_BHLK = torch.zeros_like(q_BHLK, dtype=wide)
        lse_BHL1 = torch.full_like(out_BHLK[..., :1], -torch.inf)
        scaled_BHLK = q_BHLK.to(wide) * q_BHLK.size(-1) ** -0.5
        queries, outs, lses = (ring.cut(each) for each in (scaled_BHLK, out_BHLK, lse_BHL1))
        with record_function("communication"):
            kv = torch.stack([k_BHLK, v_BHLK])
        for turn, source in enumerate(ring.sources):
            following = Passing(kv, group=ring.group) if turn < ring.ranks - 1 else None
            keys, values = (ring.cut(each) for each in kv.to(wide))
            for i, j, diagonal in ring.places.blocks(ring.rank, source):
                merge(outs[i], lses[i], scores_of(queries[i], keys[j], diagonal=diagonal), values[j])
            if following is not None:
                kv = following.wait()
        result = out_BHLK.to(q_BHLK.dtype)
        ctx.save_for_backward(q_BHLK, k_BHLK, v_BHLK, result, lse_BHL1)
        ctx.ring = ring  # type: ignore[attr-defined]
        return result

    @staticmethod
    def backward(ctx: FunctionCtx, dout_BHLK: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        q_BHLK, k_BHLK, v_BHLK, out_BHLK, lse_BHL1 = ctx.saved_tensors  # type: ignore[attr-defined]
        ring: Ring = ctx.ring  # type: ignore[attr-defined]
        wide = lse_BHL1.dtype
        scale = q_BHLK.size(-1) ** -0.5
        dq_BHLK = torch.zeros_like(q_BHLK, dtype=wide)
        # Backward of softmax subtracts the weighted mean of a row's gradients: one number for all of its blocks.
        mean_BHL1 = (dout_BHLK.to(wide) * out_BHLK).sum(-1, keepdim=True)
        queries, douts, dqs, lses, means = (
            ring.cut(each) for each in (q_BHLK.to(wide) * scale, dout_BHLK.to(wide), dq_BHLK, lse_BHL1, mean_BHL1)
        )
        with record_function("communication"):
            kv = torch.stack([k_BHLK, v_BHLK])
        returning: Passing | None = None
        for turn, source in enumerate(ring.sources):
            following = Passing(kv, group=ring.group) if turn < ring.ranks - 1 else None
            with record_function("communication"):
                dkv = torch.zeros_like(kv, dtype=wide)
            keys, values = (ring.cut(each) for each in kv.to(wide))
            dkeys, dvalues = (ring.cut(each) for each in dkv)
            for i, j, diagonal in ring.places.blocks(ring.rank, source):
                weights_BHCC = scores_of(queries[i], keys[j], diagonal=diagonal).sub_(lses[i]).exp_()
                dscores_BHCC = (douts[i] @ values[j].mT).sub_(means[i]).mul_(weights_BHCC)
                dvalues[j].add_(weights_BHCC.mT @ douts[i])
                dkeys[j].add_(dscores_BHCC.mT @ queries[i])
                dqs[i].add_(dscores_BHCC @ keys[j])
            if returning is not None:
                dkv += returning.wait()
            if ring.ranks > 1:
                returning = Passing(dkv, group=ring.group)
            if following is not None:
                kv = following.wait()
        dk_BHLK, dv_BHLK = (dkv if returning is None else returning.wait()).to(k_BHLK.dtype)
        return dq_BHLK.mul_(scale).to(q_BHLK.dtype), dk_BHLK, dv_BHLK, None


class Ring:
    """What a model needs in three places so that a rank can hold some positions only: attention, positions, loss.

    `sources[t]` is the rank whose keys and values are here in turn t.
    """

    def __init__(self, places: Places, *, group: dist.ProcessGroup) -> None:
        self.places, self.group = places, group
        self.rank, self.ranks = dist.get_rank(group), dist.get_world_size(group)
        self.sources = [(self.rank - turn) % self.ranks for turn in range(self.ranks)]

    def cut(self, x_BHLK: Tensor) -> tuple[Tensor, ...]:
        """The chunks of this rank: windows, not copies."""
        return x_BHLK.chunk(len(self.places.chunks(self.rank)), dim=2)

    def share(self, tokens_BS: Tensor, targets_BS: Tensor) -> tuple[Tensor, Tensor]:
        """This rank's positions of whole sequences, twice (B, S) to (B, L); the targets of padding are PADDING."""
        if tokens_BS.size(1) != self.places.length:
            raise ValueError(f"the ring was made for {self.places.length} positions, not {tokens_BS.size(1)}")
        more = self.places.local * self.ranks - self.places.length
        positions_L = self.places.positions(self.rank).to(tokens_BS.device)
        tokens_BL = F.pad(tokens_BS, (0, more))[:, positions_L]
        return tokens_BL, F.pad(targets_BS, (0, more), value=PADDING)[:, positions_L]

    # --- what takes the place of the model's own

    def attend(self, q_BHLK: Tensor, k_BHLK: Tensor, v_BHLK: Tensor) -> Tensor:
        """Attention over the whole sequence. The heads may be some of the model's only."""
        out_BHLK: Tensor = RingAttention.apply(q_BHLK, k_BHLK, v_BHLK, self)  # type: ignore[no-untyped-call]
        return out_BHLK

    def positions(self, _local: int, *, device: torch.device) -> Tensor:
        """(L,) where this rank's positions stand in the sequence; padding counts as its last one and learns nothing."""
        return self.places.positions(self.rank).clamp(max=self.places.length - 1).to(device)

    def loss(self, logits_NV: Tensor, targets_N: Tensor) -> Tensor:
        """N times this rank's part of the mean loss over the true positions of all ranks.

        The mean over ranks is then the loss of whole sequences, and the mean of the ranks' gradients its gradient, also
        where ranks hold different numbers of true positions: a mean of their means would weigh those differently.
        """
        true = len(targets_N) // self.places.local * self.places.length
        logits_NV = logits_NV.to(torch.promote_types(logits_NV.dtype, torch.float32))
        return F.cross_entropy(logits_NV, targets_N, ignore_index=PADDING, reduction="sum") * self.ranks / true


def parallelize(model: nn.Module, *, group: dist.ProcessGroup, length: int, order: str = "zigzag") -> Ring:
    """Let `model`, or any piece of it, work on this rank's positions of sequences of `length`.

    Whatever has an `attend`, `positions` or `loss` to replace gets the ring's. Parameters stay as they are, whole on
    every rank of `group`, so their gradients are averaged over it as in data parallelism. Raises ValueError for a
    length or an order that make no sense, and for attention with dropout, since the ring keeps no weights.
    """
    ring = Ring(Places(length=length, ranks=dist.get_world_size(group), order=order), group=group)
    for module in model.modules():
        if hasattr(module, "attend") and getattr(getattr(module, "dropout", None), "share", False):
            raise ValueError("ring attention has no dropout: it keeps no attention weights that could be dropped")
        for name in ("attend", "positions", "loss"):
            if hasattr(module, name):
                setattr(module, name, getattr(ring, name))
    return ring
