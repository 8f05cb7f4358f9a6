"""The bytes of activations: Korthikanti's formulas, and the same for the labs' own model, to the byte.

A layer keeps for backward what its operations need to make gradients: mostly their inputs. In 16-bit values, with one
byte a value to remember what dropout dropped, that is s b h (34 + 5 a s / h) bytes: 34 that grow with the sequence, and
the attention weights, which grow with its square (Korthikanti et al. 2022, "Reducing Activation Recomputation in Large
Transformer Models", equations 1 to 8 and table 2).

    s sequence, b micro-batch, h hidden, a heads, L layers, t tensor parallel, p pipeline stages, v vocabulary
"""

from __future__ import annotations

import math
from dataclasses import dataclass

MODES = ("none", "full", "selective", "every")


# --- the paper


def layer(
    *,
    sequence: int,
    batch: int,
    hidden: int,
    heads: int,
    tensor: int = 1,
    sequence_parallel: bool = False,
    recompute: str = "none",
) -> float:
    """Bytes that one layer keeps on one rank: equations 1, 2 and 4; with `recompute` selective or full, table 2."""
    checked(recompute, ("none", "selective", "full"))
    sbh = sequence * batch * hidden
    if recompute == "full":
        return 2.0 * sbh
    split = 34 if sequence_parallel else 24
    attention = 5 * heads * sequence / hidden if recompute == "none" else 0.0
    return sbh * (34 - split + (split + attention) / tensor)


def by_operation(*, sequence: int, batch: int, hidden: int, heads: int) -> dict[str, int]:
    """Bytes that the operations of one layer keep for backward, in the order of forward (section 4.1); in sum `layer`.

    `softmax`, `weights_dropout` and, of `mix`, all but the values are what grows with the square of the sequence.
    """
    sbh, weights = sequence * batch * hidden, heads * sequence**2 * batch
    return {
        "norm": 2 * sbh,
        "projections": 2 * sbh,
        "scores": 4 * sbh,
        "softmax": 2 * weights,
        "weights_dropout": weights,
        "mix": 2 * sbh + 2 * weights,
        "output": 2 * sbh,
        "output_dropout": sbh,
        "second_norm": 2 * sbh,
        "up": 2 * sbh,
        "gelu": 8 * sbh,
        "down": 8 * sbh,
        "down_dropout": sbh,
    }


def first_stage(
    *,
    layers: int,
    sequence: int,
    batch: int,
    hidden: int,
    heads: int,
    tensor: int = 1,
    sequence_parallel: bool = False,
    recompute: str = "none",
    stages: int = 1,
    chunks: int = 1,
) -> float:
    """Bytes of all layers on the first of `stages` pipeline stages under 1F1B (equation 5, section 4.2.3).

    It holds L / p layers of p micro-batches: L layers' worth, whatever p is. With `chunks` a stage (interleaved) it
    holds 1 + (p - 1) / (p chunks) times as much.
    """
    one = layer(
        sequence=sequence,
        batch=batch,
        hidden=hidden,
        heads=heads,
        tensor=tensor,
        sequence_parallel=sequence_parallel,
        recompute=recompute,
    )
    more = 1 + (stages - 1) / (stages * chunks) if chunks > 1 else 1.0
    return layers * one * more


def outside_layers(
    *, sequence: int, batch: int, hidden: int, vocabulary: int, tensor: int = 1, stages: int = 1
) -> float:
    """Bytes on the first stage for the embedding's dropout and, where it is also the last, the output layer (section
    4.3): the final norm's and the projection's inputs, and logits of 4 bytes.
    """
    output = 4 * (1 + vocabulary / hidden) if stages == 1 else 0.0
    return sequence * batch * hidden / tensor * (stages + output)


def flops(*, layers: int, sequence: int, batch: int, hidden: int, vocabulary: int, recompute: str = "none") -> float:
    """Operations of one iteration on `batch` sequences: equation 7; with `recompute` selective, equation 8; with full,
    every layer's forward twice (Narayanan et al. 2021, equation 3).
    """
    checked(recompute, ("none", "selective", "full"))
    attention = sequence / (6 * hidden)
    inside = {
        "none": 1 + attention,
        "selective": 1 + 2 * attention,
        "full": 4 / 3 * (1 + attention),
    }[recompute]
    return 72 * batch * layers * sequence * hidden**2 * (inside + vocabulary / (12 * hidden * layers))


def saved(*, sequence: int, hidden: int, heads: int, recompute: str) -> float:
    """The share of a layer's activations that recomputation spares."""
    kept, whole = (
        layer(sequence=sequence, batch=1, hidden=hidden, heads=heads, recompute=mode) for mode in (recompute, "none")
    )
    return 1 - kept / whole


def more_operations(*, layers: int, sequence: int, hidden: int, vocabulary: int, recompute: str) -> float:
    """The share that recomputation adds to the operations of a step."""
    work, least = (
        flops(layers=layers, sequence=sequence, batch=1, hidden=hidden, vocabulary=vocabulary, recompute=mode)
        for mode in (recompute, "none")
    )
    return work / least - 1


def weights_overtake(*, head_size: int) -> float:
    """Positions from which on attention weights take more than the rest of a layer: 34 h / 5 a, so only the size of a
    head decides.
    """
    whole, rest = (
        layer(sequence=1, batch=1, hidden=head_size, heads=1, recompute=mode) for mode in ("none", "selective")
    )
    return rest / (whole - rest)


# --- segments of several layers that run again together, with fused attention (Chen et al. 2016, section 3)


def segmented(*, layers: int, every: int, sequence: int = 1, batch: int = 1, hidden: int = 1) -> float:
    """Bytes of all layers when one segment has just run again: an input for every `every` layers, and so many whole."""
    kept, whole = (
        layer(sequence=sequence, batch=batch, hidden=hidden, heads=1, recompute=mode) for mode in ("full", "selective")
    )
    return layers / every * kept + every * whole


def best_segment(*, layers: int) -> float:
    """Where the derivative of `segmented` is zero: the root of the layers over what one keeps for each byte of its
    input.
    """
    kept, whole = (layer(sequence=1, batch=1, hidden=1, heads=1, recompute=mode) for mode in ("full", "selective"))
    return math.sqrt(layers * kept / whole)


def checked(recompute: str, known: tuple[str, ...]) -> None:
    if recompute not in known:
        raise ValueError(f"recompute is one of {', '.join(known)}, not {recompute}")


# --- the labs' own model, on a CPU


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What decides on the activations of the labs' GPT. `value` is the bytes of one value."""

    layers: int
    hidden: int
    heads: int
    sequence: int
    batch: int
    value: int
    vocabulary: int
    dropout: bool = False
    fused: bool = False

    @property
    def stream(self) -> int:
        """Bytes of one (B, S, D) tensor."""
        return self.batch * self.sequence * self.hidden * self.value

    @property
    def weights(self) -> int:
        """How many attention weights a layer has: B H S S."""
        return self.batch * self.heads * self.sequence**2

    @property
    def core(self) -> int:
        """Bytes that attention keeps beside queries, keys and values: softmax, and with dropout its result and which
        were dropped. A fused one keeps a number a row, in at least 4 bytes, from which it makes the weights again.
        """
        if self.fused:
            return self.batch * self.heads * self.sequence * max(self.value, 4)
        return self.weights * (2 * self.value + 1 if self.dropout else self.value)

    def block(self, recompute: str) -> int:
        """Bytes that one block keeps: its input (1 stream), which is all where it runs again in full; the input of the
        product that makes queries, keys and values (1), those three (3), the input of the next product (1); the second
        norm's input and output (2), the two wide ones of the network (4 + 4). Beside these, mean and deviation of
        each norm, and with dropout one byte a value, twice.
        """
        if recompute == "full":
            return self.stream
        norms = 4 * self.batch * self.sequence * self.value
        masks = 2 * self.stream // self.value if self.dropout else 0
        return 16 * self.stream + norms + masks + (self.core if recompute == "none" else 0)

    @property
    def around(self) -> int:
        """Bytes kept outside of the blocks: indices of positions and targets; the last norm's input, output, mean and
        deviation; the loss, its weight and the logarithms of the probabilities, in at least 4 bytes.
        """
        wide = max(self.value, 4)
        examples = self.batch * self.sequence
        indices = 8 * self.sequence + (8 * examples if self.batch > 1 else 0)
        norm = 2 * self.stream + 2 * examples * self.value
        return indices + norm + wide * (examples * self.vocabulary + 2)

    def modes(self, recompute: str, every: int) -> list[str]:
        """What each block does, from the first to the last."""
        checked(recompute, MODES)
        if recompute != "every":
            return [recompute] * self.layers
        return ["none" if number % every else "full" for number in range(1, self.layers + 1)]

    def kept(self, recompute: str, every: int = 1) -> int:
        """Bytes between forward and backward."""
        return self.around + sum(self.block(mode) for mode in self.modes(recompute, every))

    def peak(self, recompute: str, every: int = 1) -> int:
        """The most at one moment, the highest of three kinds: as the loss is made, with the logits beside what is kept;
        as a block has run again; or inside the attention of a block, where the weights are there twice.
        """
        modes = self.modes(recompute, every)
        logits = self.batch * self.sequence * self.vocabulary * (self.value if self.value >= 4 else self.value + 4)
        moments = [self.kept(recompute, every) + logits]
        below = 8 * self.sequence
        for mode in modes:
            loss = 0 if mode == "none" else max(self.value, 4)
            if mode == "full":
                moments.append(below + loss + self.block("none") + (2 * self.stream if self.dropout else 0))
            if not self.fused:
                moments.append(below + loss + self.attending(again=mode != "none"))
            below += self.block(mode)
        return max(moments)

    def attending(self, *, again: bool) -> int:
        """Bytes of a block at the fullest moment of its attention: the block's input, the norm's output, queries, keys
        and values; these once more in the order that the products need, where there is more than one sequence and
        head; the mask; and the weights before and after softmax, or what is kept of them and what comes out, which
        a second run does not make.
        """
        copy = self.stream if self.batch > 1 and self.heads > 1 else 0
        norm = 2 * self.batch * self.sequence * self.value
        mask = self.sequence**2 * self.value
        out = 0 if again else self.stream
        weights = max(2 * self.weights * self.value + 2 * copy, self.core + 3 * copy + out)
        return 5 * self.stream + norm + mask + weights

    # --- operations

    @property
    def forward_flops(self) -> int:
        """Operations of the products in one forward pass: 24 D^2 a token and block, 4 S D for attention, 2 D V for the
        head. Backward takes twice as many.
        """
        tokens = self.batch * self.sequence
        block = 24 * tokens * self.hidden**2 + 4 * tokens * self.sequence * self.hidden
        return self.layers * block + 2 * tokens * self.hidden * self.vocabulary

    def recomputed_flops(self, recompute: str, every: int = 1) -> int:
        """Operations of the products that run again, up to the last whose result or input backward needs: without
        dropout nobody asks for the result of a block's last product, and never for that of attention's last.
        """
        tokens = self.batch * self.sequence
        attention = 4 * tokens * self.sequence * self.hidden
        block = (24 if self.dropout else 16) * tokens * self.hidden**2 + attention
        cost = {"none": 0, "full": block, "selective": attention if self.fused else attention // 2}
        return sum(cost[mode] for mode in self.modes(recompute, every))
