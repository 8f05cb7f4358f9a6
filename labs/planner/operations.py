"""The operations of the labs' GPT and the bytes of each: what forward keeps for backward, and what is there beside it.

Forward runs through the operations and keeps what backward needs; backward walks them in reverse. Where it has come to
operation i, a rank holds beside what rests

    what forward kept for operations 1 to i      each is let go when its backward is done
    the gradient that i takes                    of its result
    the gradients that i gives                   of its input and of its weights
    the gradient of the stream that waits        while a branch is walked
    what moves                                   a bucket, a gathered piece, a copy for a collective

Fullest is nearly always one of three: the loss, where as many numbers as there are logits are there three times; the
gradient of a wide product, beside that of its weights; an attention that is written out. Nothing is fitted: a line is
an operation of `labs/model.py` or of a strategy, and its sizes are those of the tensors that torch makes for it.

    N tokens of a micro-batch on a rank, D hidden, V rows of the vocabulary, t tensor ranks
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

WIDE = 4
"""Bytes of a number in the loss and in the optimizer, at least."""
INDEX = 8
"""Bytes of an index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One operation, in bytes.

    keeps     what forward keeps for its backward, and lets go with it
    making    what else is there in forward while it works
    waits     the gradient of the stream, while a branch is walked
    takes     the gradient of its result, where that is not the one that waits
    gives     the gradient of its input
    weights   the gradient of its weights, whole before it is added to what is there
    scratch   what it needs while it works
    later     where W is an action of its own: what stays for it
    renews    below it the gradient of the stream is another tensor
    """

    keeps: int = 0
    making: int = 0
    waits: int = 0
    takes: int = 0
    gives: int = 0
    weights: int = 0
    scratch: int = 0
    later: int = 0
    renews: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A piece of the model, its lines in the order of forward. One that runs `again` in backward keeps only `input`."""

    lines: Sequence[Line]
    again: bool = False
    input: int = 0

    @property
    def keeps(self) -> int:
        return self.input if self.again else sum(line.keeps for line in self.lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moving:
    """Bytes of communication buffers while backward is in a piece: those that are there all the time, and the bucket,
    from the first gradient of a weight on.
    """

    always: int = 0
    bucket: int = 0


def kept(pieces: Sequence[Piece]) -> int:
    """Bytes between forward and backward."""
    return sum(piece.keeps for piece in pieces)


def left(pieces: Sequence[Piece]) -> int:
    """Bytes between a B and its W."""
    return sum(line.later for piece in pieces for line in piece.lines)


def forward(pieces: Sequence[Piece], moving: Sequence[Moving] = ()) -> int:
    """Bytes at the fullest moment of forward, what is kept among them."""
    below, found = 0, [0]
    for piece, buffers in zip(pieces, moving or [Moving()] * len(pieces), strict=True):
        found += [below + buffers.always + each for each in making(piece)]
        below += piece.keeps
    return max(found)


def making(piece: Piece) -> Iterator[int]:
    """Bytes of one piece while each of its lines works."""
    made = 0
    for line in piece.lines:
        made += line.keeps
        yield made + line.making


def backward(
    pieces: Sequence[Piece],
    moving: Sequence[Moving] = (),
    *,
    received: int = 0,
    tied: int = 0,
    apart: bool = False,
) -> int:
    """Bytes at the fullest moment of backward, what was kept among them.

    `received` is the gradient that another stage sent; it stays to the end. `tied` is the gradient of a weight of head
    and embedding: the head's part waits for the embedding's. Where W is `apart`, there are no gradients of weights.
    """
    below, beside, found = kept(pieces), 0, [0]
    for number, buffers in reversed([*enumerate(moving or [Moving()] * len(pieces))]):
        piece, bucket = pieces[number], 0
        below -= piece.keeps
        base = below + buffers.always + (tied if number < len(pieces) - 2 else 0)
        if piece.again:
            found += [base + beside + piece.lines[-1].waits + each for each in making(piece)]
        there = sum(line.keeps for line in piece.lines)
        for line in reversed(piece.lines):
            weights = 0 if apart else line.weights
            made = base + beside + line.waits + line.gives + weights
            found.append(made + bucket + there + line.takes + line.scratch)
            there -= line.keeps
            if weights:  # they move to the bucket, which is made for the first
                bucket = buffers.bucket
                found.append(made + bucket + there)
            if apart:
                beside += line.later  # which is, where the stream's gradient is another now, the one before
            elif line.renews:
                beside, received = beside + received, 0
    return max(found)


# --- the labs' GPT


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """A mixture of experts in the place of a network: the places are sent whether they are taken or not."""

    experts: int
    places: int
    top: int
    ranks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What decides on one rank's tensors. `positions` are those of one sequence on this rank; `vocabulary` is the rows
    of embedding and head on it, of which with `filled` some are no token. With `chosen` the loss takes only some
    tokens' logits, as a copy. `place` is the rank's on a ring of `context` ranks.
    """

    batch: int
    positions: int
    hidden: int
    heads: int
    vocabulary: int
    value: int
    tensor: int = 1
    sequence_parallel: bool = False
    context: int = 1
    order: str = "zigzag"
    place: int = 0
    filled: bool = False
    chosen: bool = False
    fused: bool = True
    dropout: bool = False
    eight_bits: bool = False
    mixture: Mixture | None = None

    @property
    def tokens(self) -> int:
        return self.batch * self.positions

    @property
    def stream(self) -> int:
        """Bytes of N x D values."""
        return self.tokens * self.hidden * self.value

    @property
    def table(self) -> int:
        """Bytes of the rank's rows of the vocabulary."""
        return self.vocabulary * self.hidden * self.value

    @property
    def outer(self) -> int:
        """Bytes of the stream between the layers' products: a t-th of it with sequence parallelism."""
        return self.stream // (self.tensor if self.sequence_parallel else 1)

    @property
    def inner(self) -> int:
        """Bytes of the stream's heads on this rank."""
        return self.stream // self.tensor

    @property
    def wide(self) -> int:
        return max(WIDE, self.value)

    @property
    def gathering(self) -> int:
        """Bytes while the positions of all tensor ranks are gathered: as they come, and sorted by sequence."""
        return self.stream * (1 if self.batch == 1 else 2)


def embedding(s: Sizes) -> Piece:
    """Tokens and positions. Backward makes a gradient of the whole table, zeros for what no token asked for."""
    places = s.positions * s.hidden * s.value
    if s.sequence_parallel:
        places //= s.tensor
    rows = (INDEX + 1) * s.tokens if s.tensor > 1 else 0
    summed = s.stream if s.tensor > 1 else 0
    gathered = s.gathering if s.sequence_parallel else 0
    return Piece(
        lines=[
            Line(keeps=rows, takes=s.outer, gives=summed, weights=s.table, scratch=gathered),
            Line(keeps=INDEX * s.positions, takes=s.outer, gives=places, weights=places),
        ]
    )


def norm(s: Sizes, *, waits: int) -> Line:
    """Its input, and of each token a mean and a deviation."""
    parts = s.tensor if s.sequence_parallel else 1
    return Line(
        keeps=s.outer + 2 * s.tokens * s.value // parts,
        takes=s.outer,
        gives=s.outer,
        waits=waits,
        weights=2 * s.hidden * s.value,
    )


def added(s: Sizes, *, later: int) -> Line:
    """Where a branch leaves the stream, backward adds its gradient to the one that waits."""
    return Line(takes=s.outer, gives=s.outer, waits=s.outer, renews=True, later=later)


def column(s: Sizes, *, features: int, waits: int, bias: bool = True) -> list[Line]:
    """A product whose output is split over the tensor axis: in backward the gradients of its input are summed."""
    out = s.tokens * features * s.value // s.tensor
    weights = (s.hidden + bias) * features * s.value // s.tensor
    if s.eight_bits:
        return [eight(s, inputs=s.hidden, outputs=features, waits=waits, residual=False)]
    product = Line(
        keeps=s.outer,
        takes=out,
        gives=s.outer,
        weights=weights,
        # with sequence parallelism all positions' gradient, and the same in the order in which it is sent
        scratch=2 * s.stream if s.sequence_parallel else 0,
        waits=waits,
        later=out + s.outer,
    )
    summed = Line(takes=s.stream, gives=s.stream, waits=waits)
    return [summed, product] if s.tensor > 1 and not s.sequence_parallel else [product]


def row(s: Sizes, *, features: int, keeps: bool, waits: int) -> list[Line]:
    """A product whose input is split. It takes the stream's gradient, with sequence parallelism gathered."""
    into = s.tokens * features * s.value // s.tensor
    weights = (features // s.tensor + 1) * s.hidden * s.value
    if s.eight_bits:
        return [eight(s, inputs=features, outputs=s.hidden, waits=waits, residual=True)]
    product = Line(
        keeps=into if keeps else 0,
        takes=s.stream if s.sequence_parallel or s.dropout else 0,  # gathered, or what dropout let through
        gives=into,
        weights=weights,
        waits=waits,
        later=into,
    )
    return [product, Line(gives=s.gathering, waits=waits)] if s.sequence_parallel else [product]


def eight(s: Sizes, *, inputs: int, outputs: int, waits: int, residual: bool) -> Line:
    """A product of 8-bit numbers. It keeps input and weights in one byte each; backward widens both, and quantizes the
    gradient by way of two copies of 4 bytes.
    """
    x, weights, y = s.tokens * inputs, inputs * outputs, s.tokens * outputs
    gives, made = x * s.value, (weights + outputs) * s.value
    widened = (x + weights) * s.value
    return Line(
        keeps=x + weights,
        takes=0 if residual else y * s.value,
        gives=gives,
        weights=made,
        waits=waits,
        scratch=widened + max(y * s.value, y + 2 * WIDE * y - gives - made),
    )


def attention(s: Sizes, *, waits: int, recompute: bool) -> list[Line]:
    """From queries, keys and values to what the next product takes."""
    if s.context > 1:
        core = [ring(s, waits=waits)]
    elif s.fused:
        rows = s.batch * s.heads // s.tensor * s.positions * s.wide
        core = [Line(keeps=4 * s.inner + rows, takes=s.inner, gives=3 * s.inner, waits=waits)]
    else:
        core = written_out(s, waits=waits)
    if recompute:
        core = [run_again(s, core, waits=waits)]
    return [Line(takes=3 * s.inner, gives=3 * s.inner, waits=waits), *core]


def written_out(s: Sizes, *, waits: int) -> list[Line]:
    """Attention in steps: queries and keys, scale, softmax, dropout, values. Products want their inputs in another
    order where there is more than one sequence and head.
    """
    weights = s.batch * s.heads // s.tensor * s.positions**2
    w, a = weights * s.value, s.inner
    copy = a if s.batch > 1 and s.heads // s.tensor > 1 else 0
    mask, whole = s.positions**2 * s.value, 3 * a if copy else a
    lines = [
        Line(keeps=2 * a, takes=w, gives=2 * a, waits=waits + a),
        Line(takes=w, gives=w, waits=waits + a),
        Line(keeps=w, making=whole + w + mask, takes=w, gives=w, waits=waits + a),
    ]
    if s.dropout:
        lines.append(Line(keeps=weights, making=whole + w + mask, takes=w, gives=w, waits=waits + a))
    dropped = w if s.dropout else 0
    values = Line(keeps=a + dropped, making=3 * copy + a + mask, takes=a + copy, gives=w + a, waits=waits)
    return [*lines, values, Line(keeps=a)]


def run_again(s: Sizes, core: Sequence[Line], *, waits: int) -> Line:
    """Attention alone runs again. Forward keeps queries, keys and values, and the result for the product behind it; the
    rest is there only while backward is in this one line.
    """
    inside = Piece(lines=[replace(line, waits=line.waits - waits) for line in core], again=True)
    most = backward([inside])
    fixed = 4 * s.inner
    if s.fused:
        most -= 3 * s.inner  # the second run starts from the same queries, keys and values
    return Line(keeps=fixed, takes=s.inner, gives=3 * s.inner, scratch=max(0, most - fixed), waits=waits)


def ring(s: Sizes, *, waits: int) -> Line:
    """Ring attention. Backward holds all the time the scaled queries and their gradient, the keys and values of a turn,
    and in 16 bits wider copies. Beside them it is fullest as a turn begins, with the copies of two turns and the
    gradients of this one, of the last one on their way and of the ones that come; as a block of chunks is weighed, with
    its weights, their gradients and those of the block before; or as it ends, when one more comes.
    """
    a, wide = s.inner, s.inner // s.value * s.wide
    copy = wide if s.value < s.wide else 0
    heads = s.batch * s.heads // s.tensor
    rows = heads * s.positions * s.wide
    chunk = s.positions // (2 if s.order == "zigzag" else 1)
    scores = heads * chunk**2 * s.wide
    here = 2 * wide + copy + rows + 2 * a * (2 if s.context > 2 else 1)
    begins = 2 * 2 * copy + 3 * 2 * wide
    alone = s.order == "naive" and s.place == 0  # one block, in the first turn, when no gradients travel yet
    weighs = 2 * copy + wide + (2 * wide + 2 * scores if alone else 3 * 2 * wide + 3 * scores)
    ends = 2 * copy + 4 * 2 * wide
    return Line(keeps=4 * a + rows, takes=a, scratch=here + max(begins, weighs, ends), waits=waits)


def network(s: Sizes, *, waits: int) -> list[Line]:
    features = 4 * s.hidden
    wide = s.tokens * features * s.value // s.tensor
    return [
        *column(s, features=features, waits=waits),
        Line(keeps=wide, takes=wide, gives=wide, waits=waits),
        *row(s, features=features, keeps=True, waits=waits),
    ]


def mixture(s: Sizes, m: Mixture, *, waits: int) -> list[Line]:
    """Router, dispatch, experts, combine. How many places are taken is the router's choice: at most all, and at most as
    many as the tokens want.
    """
    places = m.experts * m.places
    taken = min(m.top * s.tokens, places)
    q, parts = places * s.hidden * s.value, taken * s.hidden * s.value
    wide = 4 * q
    matrices = m.experts // m.ranks * 4 * s.hidden * s.hidden * s.value
    router = s.tokens * s.hidden * s.wide + s.tokens * m.experts * s.wide + 3 * INDEX * taken
    return [
        Line(keeps=router, takes=q, gives=s.stream, scratch=parts, waits=waits),
        Line(takes=q, gives=q, waits=waits),
        Line(keeps=q, takes=wide, gives=q, weights=matrices, waits=waits),
        Line(keeps=wide, takes=wide, gives=wide, waits=waits),
        Line(keeps=wide, takes=q, gives=wide, weights=matrices, waits=waits),
        Line(takes=q, gives=q, waits=waits),
        Line(keeps=2 * parts, takes=2 * parts, gives=q, waits=waits),
    ]


def block(s: Sizes, *, recompute: str = "none") -> Piece:
    """Attention and the network, each on a branch of the stream; run again in full, or attention alone."""
    g = s.outer
    masks = [Line(keeps=s.outer // s.value, gives=g, waits=g)] if s.dropout else []
    behind = mixture(s, s.mixture, waits=g) if s.mixture else network(s, waits=g)
    lines = [
        added(s, later=g),
        norm(s, waits=g),
        *column(s, features=3 * s.hidden, waits=g, bias=False),
        *attention(s, waits=g, recompute=recompute == "selective"),
        *row(s, features=s.hidden, keeps=False, waits=g),
        *masks,
        added(s, later=g),
        norm(s, waits=g),
        *behind,
        *masks,
    ]
    return Piece(lines=lines, again=recompute == "full", input=s.outer)


def head(s: Sizes) -> Piece:
    """The last norm and the product that makes logits."""
    return Piece(
        lines=[
            norm(s, waits=0),
            *column(replace(s, eight_bits=False), features=s.vocabulary * s.tensor, waits=0, bias=False),
        ]
    )


def loss(s: Sizes) -> Piece:
    """Cross entropy, in at least 4 bytes a number. It keeps the probabilities' logarithms, or on the tensor axis the
    rank's own probabilities. Backward has their gradient and that of the logits beside them.
    """
    numbers = s.tokens * s.vocabulary
    logits, wide = numbers * s.value, numbers * s.wide
    cast = wide if s.value < s.wide else 0
    targets = INDEX * s.tokens if s.batch > 1 and s.context == 1 else 0
    picked = logits if s.chosen else 0
    if s.tensor > 1:
        copies = logits + picked + cast + (wide if s.filled else 0)
        rows = 5 * s.tokens * s.wide  # the largest logit, two sums, the target's, the loss
        keeps = wide + (INDEX + 1) * s.tokens
        return Piece(lines=[Line(keeps=keeps, making=copies + rows + targets, gives=wide, scratch=s.tokens * s.wide)])
    return Piece(
        lines=[
            Line(keeps=wide, making=logits + cast + picked, takes=wide, gives=wide),
            Line(keeps=targets, making=logits + cast + picked, gives=wide),
        ]
    )
