"""Generation with a small BLOOM on several ranks: `torchrun --nproc-per-node 4 labs/cases/bloom_inference.py`.

The same prompts are answered three times: by one process, by tensor ranks, and by ranks that each hold some layers.
Beside it, the weights are loaded twice: by ranks that all read the whole file, and each from a file of its own.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.profiler import record_function

from labs import training
from labs.cases import weights
from labs.cases.bloom import Bloom, BloomShape, prompts, taught
from labs.cases.rows import Row, rows_of
from labs.cases.serving import Generator, PlacedGenerator, TensorGenerator, Tokens, balanced, generate
from labs.catalogue import run_lab
from labs.model import VOCABULARY, parameter_count
from labs.options.bloom import BloomInferenceOptions
from labs.planner.inference import cache_bytes, tensor_step, weight_bytes
from labs.runner import rank as this
from labs.strategies.tensor import part, shard_of
from labs.telemetry import Tracker
from labs.telemetry.categories import Bytes

REPEATS = 3
"""How often a time is taken; the shortest counts."""


def shape_of(options: BloomInferenceOptions) -> BloomShape:
    return BloomShape(layers=options.layers, hidden=options.hidden, heads=options.heads, sequence=options.room)


def empty(options: BloomInferenceOptions) -> Bloom:
    """A model that waits for its weights."""
    with record_function("parameters"):
        return Bloom(shape_of(options), dtype=training.DTYPES[options.precision]).to(this.device())


class Ranks:
    """What the ranks have together: the file of the whole model, a folder for their parts, and the prompts."""

    def __init__(self, options: BloomInferenceOptions, *, group: dist.ProcessGroup, folder: Path) -> None:
        self.options, self.group, self.folder = options, group, folder
        self.rank, self.ranks = dist.get_rank(group), dist.get_world_size(group)
        self.whole, self.own = folder / "whole", folder / f"rank-{self.rank}-of-{self.ranks}"
        self.prompts = prompts(options.prompts, length=options.prompt_length, seed=options.seed)

        def together() -> None:
            """No rank waits for longer than one step of rank 0."""
            dist.barrier(group=group)

        if self.rank == 0:
            model = taught(shape_of(options), steps=options.taught, seed=options.seed, then=together)
            weights.save(model.to(training.DTYPES[options.precision]), self.whole)
        else:
            for _ in range(options.taught):
                together()
        together()

    def room(self) -> dict[str, int]:
        return {"slots": len(self.prompts), "room": self.options.room}

    # --- the three ways to answer

    def alone(self) -> Generator:
        model = empty(self.options)
        weights.fill(model, weights.read(self.whole)[0])
        return Generator(model, **self.room())

    def tensor(self) -> TensorGenerator:
        model = empty(self.options)
        weights.fill(model, weights.read(self.whole)[0])
        return TensorGenerator(model, **self.room(), group=self.group)

    def layers(self) -> PlacedGenerator:
        model = empty(self.options)
        weights.fill(model, weights.read(self.whole)[0])
        sizes = [sum(p.nbytes for p in piece.parameters()) for piece in model.pieces]
        places = balanced(sizes, ranks=self.ranks)
        return PlacedGenerator(model, **self.room(), places=places, group=self.group)

    def watched(self, make: Callable[[], Generator]) -> dict[str, Any]:
        """The tokens, what the rank holds, what one step exchanges, and the seconds of a step."""
        with Tracker() as tracker:
            generator = make()
            held = tracker.now
            tokens = generate(generator, self.prompts, new=self.options.new_tokens)
            tracker.reset_collectives()
            generator.step(self.next())
            collectives = {name: count.as_dict() for name, count in tracker.collectives.items()}
        return {
            "tokens": tokens,
            "weights": held.parameters,
            "cache": held.activations,
            "collectives": collectives,
            "seconds": self.seconds(generator),
        }

    def next(self) -> Tokens:
        """One more token of every sequence, at the last position that it has."""
        count, device = len(self.prompts), this.device()
        return Tokens.of([[32]] * count, slots=range(count), at=[self.options.room - 1] * count, device=device)

    def seconds(self, generator: Generator) -> float:
        """The shortest of some steps, from when all ranks begin to when all are through."""
        new, taken = self.next(), []
        for _ in range(REPEATS):
            dist.barrier(group=self.group)
            begun = time.perf_counter()
            generator.step(new)
            dist.barrier(group=self.group)
            taken.append(time.perf_counter() - begun)
        return min(taken)

    # --- loading

    def loading(self) -> dict[str, Any]:
        """Bytes that this rank reads and seconds until it has its part: out of the whole file, and out of its own."""
        generator = self.tensor()
        split = nn.ModuleList(generator.pieces)
        weights.save(split, self.own)
        names = {id(p): name for name, p in generator.model.named_parameters()}
        kept = {name: (names[id(p)], p) for name, p in split.named_parameters()}

        def from_whole() -> int:
            found, read = weights.read(self.whole)
            for name, p in kept.values():
                p.copy_(part(found[name], shard_of(p), rank=self.rank, ranks=self.ranks))
            return read

        def from_own() -> int:
            found, read = weights.read(self.own)
            for name, (_, p) in kept.items():
                p.copy_(found[name])
            return read

        with torch.no_grad():
            return {"whole": self.timed(from_whole), "own": self.timed(from_own)}

    def timed(self, load: Callable[[], int]) -> dict[str, Any]:
        taken = []
        for _ in range(REPEATS):
            dist.barrier(group=self.group)
            begun = time.perf_counter()
            read = load()
            dist.barrier(group=self.group)
            taken.append(time.perf_counter() - begun)
        return {"bytes": read, "seconds": min(taken)}


def train(options: BloomInferenceOptions) -> dict[str, Any]:
    """What this rank reports. Nothing is trained but, on rank 0, the model that answers."""
    place = tempfile.TemporaryDirectory(prefix="shardwise-", dir=os.environ.get("SHARDWISE_RUN"))
    with this.group() as group, place as folder:
        shared = [folder]  # rank 0's, on a disk that all ranks see
        dist.broadcast_object_list(shared, src=0, group=group)
        ranks = Ranks(options, group=group, folder=Path(shared[0]))
        expected = generate(ranks.alone(), ranks.prompts, new=options.new_tokens)
        found = {"tensor": ranks.watched(ranks.tensor), "layers": ranks.watched(ranks.layers)}
        loading = ranks.loading()
        dist.barrier(group=group)  # before rank 0's folder goes
    for each in found.values():
        tokens = each.pop("tokens")
        each["equal"] = sum(a == b for a, b in zip(chain(*tokens), chain(*expected), strict=True))
    told = predicted(options, ranks=ranks.ranks)
    held = Bytes(parameters=found["tensor"]["weights"], activations=found["tensor"]["cache"]).as_dict()
    return {
        "rank": ranks.rank,
        "parameters": parameter_count(empty(options)),
        "losses": [],
        "bytes": {"rest": held, "peak": held},
        "predicted": told,
        "loading": loading,
        **found,
        "whole": {
            "prompts": [bytes(each).decode(errors="replace") for each in ranks.prompts],
            "answers": [bytes(each).decode(errors="replace") for each in expected],
            "results": [row.as_dict() for row in rows(found, loading, told)],
        },
    }


def rows(found: Mapping[str, Any], loading: Mapping[str, Any], told: Mapping[str, Any]) -> list[Row]:
    """What rank 0 has found, beside what was foretold."""
    tensor, layers, whole, own = found["tensor"], found["layers"], loading["whole"], loading["own"]
    exchanged = sum(count["bytes"] for count in tensor["collectives"].values())
    return [
        Row(name="tensor-tokens-equal", value=tensor["equal"]),
        Row(name="layers-tokens-equal", value=layers["equal"]),
        Row(name="cache-a-rank", value=tensor["cache"], unit="B"),
        Row(name="cache-a-rank-formula", value=told["cache"], unit="B"),
        Row(name="weights-a-rank", value=tensor["weights"], unit="B"),
        Row(name="exchanged-a-step", value=exchanged, unit="B"),
        Row(name="layers-to-tensor-time", value=layers["seconds"] / tensor["seconds"], unit="x"),
        Row(name="read-whole", value=whole["bytes"], unit="B"),
        Row(name="read-own", value=own["bytes"], unit="B"),
        Row(name="load-whole-to-own-time", value=whole["seconds"] / own["seconds"], unit="x"),
    ]


def results() -> list[Row]:
    """For the table of all cases: on 4 ranks."""
    return rows_of(run_lab("bloom-inference", ranks=4).data)


def predicted(options: BloomInferenceOptions, *, ranks: int) -> dict[str, Any]:
    """What the formulas say of a tensor rank."""
    sizes: Mapping[str, Any] = {
        "layers": options.layers,
        "hidden": options.hidden,
        "precision": options.precision,
        "tensor": ranks,
    }
    step = tensor_step(**sizes, sequences=options.prompts)
    return {
        "weights": weight_bytes(**sizes, vocabulary=VOCABULARY),
        "cache": cache_bytes(**sizes, positions=options.room, sequences=options.prompts),
        "collectives": {name: asdict(count) for name, count in step.items()},
    }


def at_rest(options: BloomInferenceOptions, *, ranks: int, rank: int = 0) -> Bytes:  # noqa: ARG001
    """Weights and cache on a tensor rank, by the formula."""
    told = predicted(options, ranks=ranks)
    return Bytes(parameters=told["weights"], activations=told["cache"])


if __name__ == "__main__":
    training.main(BloomInferenceOptions, train)
