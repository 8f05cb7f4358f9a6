"""BLOOM in small, from the blocks of the labs' GPT (Le Scao et al. 2022, section 3.2).

Where it is another model than the GPT:

    ALiBi               no table of positions: scores fall with the distance, in each head at its own slope
    norm of embedding   a LayerNorm before the first layer, which kept training stable
    tied weights        the output layer is the embedding
    biases              of queries, keys and values as well

70 layers, 112 heads and a hidden size of 14336 have 14 as a common divisor: the default is a 14th of the layers and
heads, with heads of 16 in the place of 128.

    Shapes:  B sequences, S positions, s of them new, T keys so far, D hidden, H heads of size K, V = 256 byte values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from labs.data import TEXTS, global_batch
from labs.model import GPT, VOCABULARY, Block, Shape

PUBLISHED = {"layers": 70, "hidden": 14336, "heads": 112}


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomShape(Shape):
    """The sizes of a small BLOOM."""

    layers: int = 5
    hidden: int = 128
    heads: int = 8
    tied: bool = True


def slopes(heads: int) -> list[float]:
    """2^(-8/n), 2^(-16/n), ... of n heads; where n is no power of two, every other one of twice as many fills up (Press
    et al. 2021, section 3).
    """
    known = 2 ** math.floor(math.log2(heads))
    first = [2 ** (-8 * (i + 1) / known) for i in range(known)]
    return first + [2 ** (-4 * (i + 1) / known) for i in range(0, 2 * (heads - known), 2)]


class Alibi:
    """Attention in which a key that lies n positions back has n times the head's slope taken off its score.

    Has slopes for the heads of one rank. Without `at_Bs`, the queries stand at the last s of T positions. Raises
    ValueError where it is given the queries of other heads than its own.
    """

    def __init__(self, slopes: Sequence[float]) -> None:
        self.slopes = slopes

    def __call__(self, q_BHsK: Tensor, k_BHTK: Tensor, v_BHTK: Tensor, at_Bs: Tensor | None = None) -> Tensor:
        heads, positions, device = q_BHsK.size(1), k_BHTK.size(2), q_BHsK.device
        if heads != len(self.slopes):
            raise ValueError(
                f"{heads} heads come to attention, which has slopes for {len(self.slopes)}: after a model is split over"
                " the tensor axis, split_slopes gives each rank those of its own heads"
            )
        if at_Bs is None:
            at_Bs = torch.arange(positions - q_BHsK.size(2), positions, device=device)[None]
        back_BsT = torch.arange(positions, device=device) - at_Bs[:, :, None]
        slopes_H = torch.tensor(self.slopes, device=device)
        bias_BHsT = slopes_H[:, None, None] * back_BsT[:, None]
        bias_BHsT = bias_BHsT.masked_fill(back_BsT[:, None] > 0, -torch.inf).to(q_BHsK.dtype)
        return F.scaled_dot_product_attention(q_BHsK, k_BHTK, v_BHTK, attn_mask=bias_BHsT)


def split_slopes(model: nn.Module, *, rank: int, ranks: int) -> None:
    """After the heads of a model, or of pieces of one, were split over a tensor axis: each keeps its own slopes."""
    for module in model.modules():
        attend = getattr(module, "attend", None)
        if isinstance(attend, Alibi):
            heads = len(attend.slopes) // ranks
            attend.slopes = attend.slopes[rank * heads : (rank + 1) * heads]


class NormedEmbedding(nn.Module):
    """A vector for each byte, normalized. Where a byte stands, attention alone knows."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, shape.hidden)
        self.norm = nn.LayerNorm(shape.hidden)

    def forward(self, tokens_BS: Tensor) -> Tensor:
        x_BSD: Tensor = self.norm(self.token(tokens_BS))
        return x_BSD


class Bloom(GPT):
    """As GPT: tokens and targets (B, S) -> the mean loss. `scores` gives the logits."""

    def __init__(self, shape: BloomShape, *, seed: int = 0, dtype: torch.dtype = torch.float32) -> None:
        with torch.device("meta"):
            super().__init__(shape)
        embedding = NormedEmbedding(shape)
        self.embedding = embedding  # type: ignore[assignment]
        self.blocks = nn.ModuleList(block(shape) for _ in range(shape.layers))
        self.head.to_empty(device=embedding.token.weight.device)
        if not next(self.parameters()).is_meta:
            self.initialise(shape, seed)
        self.to(dtype)
        if shape.tied:
            self.head.linear.weight = self.embedding.token.weight

    def scores(self, tokens_BS: Tensor) -> Tensor:
        """The logits (B, S, V); of a model that is split over a tensor axis, those of this rank's tokens."""
        x = tokens_BS
        for piece in self.pieces:
            x = piece(x)
        return x


def block(shape: Shape) -> Block:
    """The GPT's block with ALiBi and a bias for queries, keys and values."""
    made = Block(shape)
    made.attention.qkv = nn.Linear(shape.hidden, 3 * shape.hidden)
    made.attention.attend = Alibi(slopes(shape.heads))
    return made


def taught(
    shape: BloomShape, *, steps: int, seed: int = 0, lr: float = 3e-3, then: Callable[[], None] = lambda: None
) -> Bloom:
    """A BLOOM that has read some of the course's own text, so that its answers depend on what it is asked. After each
    step `then` is called.
    """
    model = Bloom(shape, seed=seed)
    adam = torch.optim.Adam(model.parameters(), lr=lr, eps=1e-6)
    for step in range(steps):
        loss: Tensor = model(*global_batch(step, size=8, sequence=shape.sequence, seed=seed))
        adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        adam.step()
        then()
    return model


def prompts(count: int, *, length: int, seed: int = 0) -> list[list[int]]:
    """Beginnings of words in the English text, of different lengths up to `length`."""
    text = (TEXTS / "en.txt").read_bytes()
    starts = [at + 1 for at, byte in enumerate(text[:-length]) if byte == ord(" ")]
    drawn = torch.randperm(len(starts), generator=torch.Generator().manual_seed(seed))[:count].tolist()
    return [list(text[starts[i] :][: max(1, length - n * length // (2 * count))]) for n, i in enumerate(drawn)]
