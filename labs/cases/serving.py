"""Greedy generation with a cache of keys and values: on one process, on tensor ranks, on ranks that each hold layers.

Of a token that was there before, a layer needs only its key and its value. They are kept, so that each step computes
the newest token of every sequence and nothing else.

    tensor ranks       all work on every step, each on its part of every matrix    (DeepSpeed-Inference)
    layers on ranks    one works, the others wait for their turn                   (Accelerate's device map)

    Shapes:  B sequences, s tokens of each that come in, T positions so far, D hidden, H heads of size K, V vocabulary,
    v this rank's part of it, L layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.profiler import record_function

from labs.cases.bloom import Bloom, split_slopes
from labs.strategies import tensor_parallel
from labs.strategies.tensor import shard_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """What comes in of some sequences: the slot of each, its tokens, their positions, and which of them is the last.
    Behind the last one, shorter sequences are filled up.
    """

    slots_B: Tensor
    tokens_Bs: Tensor
    at_Bs: Tensor
    last_B: Tensor

    @classmethod
    def of(cls, new: Sequence[Sequence[int]], *, slots: Sequence[int], at: Sequence[int], device: Any) -> Tokens:
        """`new` tokens for each of the `slots`, which stand from position `at` on."""
        longest = max(map(len, new))
        filled = [[*each, *[0] * (longest - len(each))] for each in new]
        return cls(
            slots_B=torch.tensor(slots, device=device),
            tokens_Bs=torch.tensor(filled, device=device),
            at_Bs=torch.tensor(at, device=device)[:, None] + torch.arange(longest, device=device),
            last_B=torch.tensor([len(each) - 1 for each in new], device=device),
        )


class Cache:
    """Keys and values of what was there, for the heads that a rank computes: 2 L slots room D / t values.

    A slot belongs to one sequence at a time. Who takes it next writes from its first position on, and nobody looks
    beyond what is written: it need not be emptied.
    """

    def __init__(self, blocks: Sequence[nn.Module], *, slots: int, room: int) -> None:
        self.attentions: list[Any] = [block.attention for block in blocks]
        self.attends = [attention.attend for attention in self.attentions]
        for layer, attention in enumerate(self.attentions):
            attention.attend = partial(self.attend, layer)
        if blocks:
            heads, weight = self.attentions[0].heads, self.attentions[0].qkv.weight.detach()
            with record_function("activations"):
                size = weight.size(0) // 3 // heads
                self.kept_2LBHTK = weight.new_zeros(2, len(blocks), slots, heads, room, size)

    def attend(self, layer: int, q_BHsK: Tensor, k_BHsK: Tensor, v_BHsK: Tensor) -> Tensor:
        """In the place of a layer's `attend`: keeps what is new, and looks at all of its sequence."""
        slots_B, at_Bs = self.now.slots_B, self.now.at_Bs
        keys_BHTK, values_BHTK = self.kept_2LBHTK[:, layer]
        keys_BHTK[slots_B[:, None], :, at_Bs] = k_BHsK.transpose(1, 2)
        values_BHTK[slots_B[:, None], :, at_Bs] = v_BHsK.transpose(1, 2)
        kept = keys_BHTK[slots_B, :, : self.upto], values_BHTK[slots_B, :, : self.upto]
        y_BHsK: Tensor = self.attends[layer](q_BHsK, *kept, at_Bs)
        return y_BHsK

    def look(self, now: Tokens) -> None:
        """What the next forward is about."""
        self.now, self.upto = now, int(now.at_Bs.max()) + 1

    def close(self) -> None:
        """The model is as it was."""
        for attention, attend in zip(self.attentions, self.attends, strict=True):
            attention.attend = attend


class Generator:
    """The whole model on one process. `step` takes what comes in of some sequences and gives each one's next token."""

    def __init__(self, model: Bloom, *, slots: int, room: int) -> None:
        self.model, self.pieces = model, list[Any](model.pieces)
        self.device = model.embedding.token.weight.device
        self.cache = Cache(self.own_blocks(), slots=slots, room=room)

    def own_blocks(self) -> list[nn.Module]:
        """Those that this rank computes."""
        return self.pieces[1:-1]

    @torch.no_grad()
    def logits(self, new: Tokens) -> Tensor:
        """The scores (B, V) of what comes after each sequence's last token."""
        self.cache.look(new)
        x = new.tokens_Bs
        for piece in self.pieces[:-1]:
            x = piece(x)
        return self.head(x, new)

    def head(self, x_BsD: Tensor, new: Tokens) -> Tensor:
        """Only the last token of each sequence is asked for a next one."""
        last_BD = x_BsD[torch.arange(len(x_BsD), device=x_BsD.device), new.last_B]
        logits_BV: Tensor = self.pieces[-1](last_BD)
        return logits_BV

    def step(self, new: Tokens) -> list[int]:
        chosen: list[int] = self.logits(new).argmax(-1).tolist()
        return chosen


class TensorGenerator(Generator):
    """Every rank has its part of every matrix and its heads' part of the cache; all of them work on every token."""

    def __init__(self, model: Bloom, *, slots: int, room: int, group: dist.ProcessGroup) -> None:
        self.group = group
        tensor_parallel.parallelize(model, group=group)
        split_slopes(model, rank=dist.get_rank(group), ranks=dist.get_world_size(group))
        super().__init__(model, slots=slots, room=room)

    def step(self, new: Tokens) -> list[int]:
        """Each rank finds the best of its own tokens. Two numbers for each sequence are exchanged, not the scores."""
        logits_Bv, rank = self.logits(new), dist.get_rank(self.group)
        vocabulary = shard_of(self.pieces[-1].linear.weight).size
        real = min(logits_Bv.size(-1), vocabulary - rank * logits_Bv.size(-1))  # rows that fill up are no tokens
        best = logits_Bv[:, :real].double().max(-1)
        mine_2B = torch.stack([best.values, (best.indices + rank * logits_Bv.size(-1)).double()])
        all_t2B = mine_2B.new_empty(dist.get_world_size(self.group), *mine_2B.shape)
        dist.all_gather_single(all_t2B.flatten(0, 1), mine_2B, group=self.group)
        winner_B = all_t2B[:, 0].argmax(0)
        chosen: list[int] = all_t2B[winner_B, 1, torch.arange(len(winner_B), device=self.device)].long().tolist()
        return chosen


class PlacedGenerator(Generator):
    """Every rank has some whole layers; what a rank made is handed to the next, while all others wait.

    `places` names the rank of each piece. The head is where the embedding is, whose weight it shares. Only that rank
    knows the tokens; the others give zeros.
    """

    def __init__(self, model: Bloom, *, slots: int, room: int, places: Sequence[int], group: dist.ProcessGroup) -> None:
        self.group, self.places, self.rank = group, list(places), dist.get_rank(group)
        if self.places[-1] != self.places[0]:
            raise ValueError(
                f"rank {self.rank}: the head is placed on rank {self.places[-1]} and the embedding on rank"
                f" {self.places[0]}, and they share one weight: place both on one rank"
            )
        weight = model.embedding.token.weight
        self.hidden, self.dtype = weight.size(1), weight.dtype
        super().__init__(model, slots=slots, room=room)
        for index, place in enumerate(self.places):
            if place != self.rank:
                self.pieces[index] = nn.Identity()  # the layers of other ranks go
        del self.model

    def own_blocks(self) -> list[nn.Module]:
        pairs = zip(self.pieces[1:-1], self.places[1:-1], strict=True)
        return [block for block, place in pairs if place == self.rank]

    @torch.no_grad()
    def step(self, new: Tokens) -> list[int]:
        self.cache.look(new)
        x, holder = new.tokens_Bs, self.places[0]
        for piece, place in zip(self.pieces[:-1], self.places[:-1], strict=True):
            x = self.handed(x, new, holder, place)
            holder = place
            if place == self.rank:
                x = piece(x)
        x = self.handed(x, new, holder, self.places[-1])
        if self.places[-1] != self.rank:
            return [0] * len(new.tokens_Bs)
        chosen: list[int] = self.head(x, new).argmax(-1).tolist()
        return chosen

    def handed(self, x: Tensor, new: Tokens, holder: int, place: int) -> Tensor:
        """x_BsD from the rank that made it to the one that needs it."""
        if holder == place:
            return x
        if holder == self.rank:
            dist.send(x, group=self.group, group_dst=place)
        elif place == self.rank:
            with record_function("communication"):
                x = torch.empty(*new.tokens_Bs.shape, self.hidden, dtype=self.dtype, device=self.device)
            dist.recv(x, group=self.group, group_src=holder)
        return x


def placed(sizes: Sequence[int], room: Sequence[int]) -> list[int]:
    """The rank of each piece, in order: the first that still has room, and none before it comes into question again
    (Accelerate's device map). The last piece shares a weight with the first, is on its rank, and takes no room.

    Raises ValueError where a piece finds none.
    """
    places, rank, free = [], 0, list(room)
    for number, size in enumerate(sizes[:-1]):
        while rank < len(free) and free[rank] < size:
            rank += 1
        if rank == len(free):
            raise ValueError(
                f"piece {number} of {size} bytes finds no room on {len(free)} ranks of {list(room)} bytes: take more"
                " ranks, or leave less room on each for the cache"
            )
        free[rank] -= size
        places.append(rank)
    return [*places, places[0]]


def balanced(sizes: Sequence[int], *, ranks: int) -> list[int]:
    """The smallest equal room on every rank in which all pieces are placed, and where they are then."""
    low, high = max(sizes[:-1]), sum(sizes)
    while low < high:
        middle = (low + high) // 2
        try:
            placed(sizes, [middle] * ranks)
            high = middle
        except ValueError:
            low = middle + 1
    return placed(sizes, [low] * ranks)


def generate(generator: Generator, prompts: Sequence[Sequence[int]], *, new: int) -> list[list[int]]:
    """`new` tokens after each prompt, all prompts at once, each in a slot of its own."""
    slots, device = range(len(prompts)), generator.device
    told = [generator.step(Tokens.of(prompts, slots=slots, at=[0] * len(prompts), device=device))]
    for number in range(new - 1):
        at = [len(prompt) + number for prompt in prompts]
        told.append(generator.step(Tokens.of([[token] for token in told[-1]], slots=slots, at=at, device=device)))
    return [list(each) for each in zip(*told, strict=True)]


@torch.no_grad()
def without_cache(model: Bloom, prompt: Sequence[int], *, new: int) -> list[int]:
    """The same for one prompt, as training computes it: everything anew for each token."""
    tokens = list(prompt)
    for _ in range(new):
        asked = torch.tensor([tokens], device=model.embedding.token.weight.device)
        tokens.append(int(model.scores(asked)[0, -1].argmax()))
    return tokens[len(prompt) :]
