"""Static against continuous batching: `python labs/cases/batching.py --slots 8`, on one process.

The same requests, which come at random, are answered twice by a small BLOOM with a cache in slots. What is counted is
exact; of seconds, only how many times as long one way takes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from labs import training
from labs.cases.bloom import Bloom, BloomShape, prompts, taught
from labs.cases.rows import Row, rows_of
from labs.cases.scheduling import SCHEDULERS, Iteration, Request, account, requests
from labs.cases.serving import Generator, Tokens, generate
from labs.catalogue import run_lab
from labs.model import parameter_count
from labs.options.bloom import BatchingOptions
from labs.runner import rank as this

SIZES = (1, 4, 16)
"""Sequences in one step, whose times are compared."""


class Server:
    """Answers requests as a schedule says. Every sequence has a slot of the cache for as long as it is there."""

    def __init__(self, model: Bloom, *, slots: int, room: int) -> None:
        self.generator = Generator(model, slots=slots, room=room)
        self.answers: dict[int, list[int]] = {}

    def serve(self, schedule: Iterator[Iteration], asked: dict[int, list[int]]) -> list[Iteration]:
        done = []
        for iteration in schedule:
            self.prompts(iteration, asked)
            self.tokens(iteration)
            done.append(iteration)
        return done

    def prompts(self, iteration: Iteration, asked: dict[int, list[int]]) -> None:
        """Who has joined brings all of its prompt, and gets its first token."""
        joined = iteration.joined
        if joined:
            self.step(joined, [asked[request.number] for _, request in joined], at=[0] * len(joined))

    def tokens(self, iteration: Iteration) -> None:
        """Everybody else in a slot brings its latest token. Of who is done already, what comes out is thrown away."""
        others = [(slot, request, written) for slot, request, written in iteration.pairs() if written]
        if others:
            latest = [[self.answers[request.number][-1]] for _, request, _ in others]
            at = [request.prompt + written - 1 for _, request, written in others]
            self.step([(slot, request) for slot, request, _ in others], latest, at=at)

    def step(self, pairs: Sequence[tuple[int, Request]], new: Sequence[Sequence[int]], *, at: Sequence[int]) -> None:
        slots, device = [slot for slot, _ in pairs], self.generator.device
        chosen = self.generator.step(Tokens.of(new, slots=slots, at=at, device=device))
        for (_, request), token in zip(pairs, chosen, strict=True):
            answer = self.answers.setdefault(request.number, [])
            if len(answer) < request.new:
                answer.append(token)


def train(options: BatchingOptions) -> dict[str, Any]:
    """What was found."""
    room = options.prompt_length + options.new_tokens
    shape = BloomShape(layers=options.layers, hidden=options.hidden, heads=options.heads, sequence=room)
    coming = requests(
        options.requests,
        rate=options.rate,
        prompt=options.prompt_length,
        new=options.new_tokens,
        seed=options.seed,
    )
    texts = prompts(len(coming), length=options.prompt_length, seed=options.seed)
    asked = {request.number: text[: request.prompt] for request, text in zip(coming, texts, strict=True)}
    coming = [Request(number=r.number, arrives=r.arrives, prompt=len(asked[r.number]), new=r.new) for r in coming]
    found: dict[str, dict[str, Any]] = {}
    with this.group():
        model = taught(shape, steps=options.taught, seed=options.seed).to(this.device())
        alone = Generator(model, slots=1, room=room)
        expected = {r.number: generate(alone, [asked[r.number]], new=r.new)[0] for r in coming}
        alone.cache.close()
        for name, schedule in SCHEDULERS.items():
            server = Server(model, slots=options.slots, room=room)
            begun = time.perf_counter()
            done = server.serve(schedule(coming, slots=options.slots), asked)
            seconds = time.perf_counter() - begun
            server.generator.cache.close()
            found[name] = asdict(account(done)) | {
                "seconds": seconds,
                "share_used": account(done).share_used,
                "equal": sum(server.answers[number] == answer for number, answer in expected.items()),
                "slots": [[None if each is None else each.number for each in one.slots] for one in done],
            }
        seconds_of = {size: step_seconds(model, size, room) for size in SIZES}
    return {
        "rank": 0,
        "parameters": parameter_count(model),
        "losses": [],
        "whole": {**found, "results": [row.as_dict() for row in rows(found, seconds_of)]},
    }


def step_seconds(model: Bloom, size: int, room: int) -> float:
    """The shortest of some steps of `size` sequences."""
    generator = Generator(model, slots=size, room=room)
    new = Tokens.of([[32]] * size, slots=range(size), at=[room - 1] * size, device=generator.device)
    taken = []
    for _ in range(5):
        begun = time.perf_counter()
        generator.step(new)
        taken.append(time.perf_counter() - begun)
    generator.cache.close()
    return min(taken)


def rows(found: dict[str, dict[str, Any]], seconds_of: dict[int, float]) -> Iterator[Row]:
    for name, told in found.items():
        for value in ("iterations", "equal", "held", "empty", "mean_latency", "worst_latency"):
            yield Row(name=f"{name}-{value.replace('_', '-')}", value=told[value])
        yield Row(name=f"{name}-share-used", value=told["share_used"], unit="share")
    static, continuous = found["static"], found["continuous"]
    yield Row(name="static-to-continuous-iterations", value=static["iterations"] / continuous["iterations"], unit="x")
    yield Row(name="static-to-continuous-time", value=static["seconds"] / continuous["seconds"], unit="x")
    for size in SIZES[1:]:
        yield Row(name=f"step-of-{size}-to-step-of-1-time", value=seconds_of[size] / seconds_of[1], unit="x")


def results() -> list[Row]:
    """For the table of all cases."""
    return rows_of(run_lab("batching").data)


if __name__ == "__main__":
    training.main(BatchingOptions, train)
