"""Runs in the ranks: generation on tensor ranks and on ranks that hold layers, beside one process."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.profiler import record_function

from labs.cases import weights
from labs.cases.bloom import Bloom, BloomShape
from labs.cases.serving import Generator, PlacedGenerator, TensorGenerator, Tokens, balanced, generate, without_cache
from labs.planner.inference import cache_bytes, tensor_step, weight_bytes
from labs.runner import rank as this
from labs.telemetry import Tracker

DTYPES = {"fp32": torch.float32, "fp64": torch.float64}
PROMPTS = [[72, 101, 108], [66], [97, 98, 99, 100, 101]]
NEW, ROOM = 8, 16


def made(case: dict[str, Any]) -> Bloom:
    sizes = BloomShape(**{name: case[name] for name in ("layers", "hidden", "heads")}, sequence=ROOM)
    model = Bloom(sizes, seed=3, dtype=DTYPES[case["precision"]])
    with torch.no_grad():
        for p in model.blocks.parameters():
            if p.dim() == 2:
                p.mul_(40)  # or every token would follow itself, whose embedding is the output layer
    return model


def run(case: dict[str, Any], folder: Path, group: dist.ProcessGroup) -> dict[str, Any]:
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    expected = generate(Generator(made(case), slots=len(PROMPTS), room=ROOM), PROMPTS, new=NEW)
    alone = [without_cache(made(case), prompt, new=NEW) for prompt in PROMPTS]
    found: dict[str, Any] = {"expected": expected, "alone": alone}
    with Tracker() as tracker:
        with record_function("parameters"):
            model = made(case)
        if case["as"] == "tensor":
            own: Generator = TensorGenerator(model, slots=len(PROMPTS), room=ROOM, group=group)
        else:
            sizes = [sum(p.nbytes for p in piece.parameters()) for piece in model.pieces]
            found["places"] = balanced(sizes, ranks=ranks)
            own = PlacedGenerator(model, slots=len(PROMPTS), room=ROOM, places=found["places"], group=group)
        del model
        held = tracker.now
        found["tokens"] = generate(own, PROMPTS, new=NEW)
        tracker.reset_collectives()
        own.step(Tokens.of([[1]] * 3, slots=range(3), at=[9, 9, 9], device="cpu"))
        found["collectives"] = {name: count.as_dict() for name, count in tracker.collectives.items()}
    found["held"] = {"parameters": held.parameters, "cache": held.activations}
    if case["as"] == "tensor":
        sizes_of = {name: case[name] for name in ("layers", "hidden")}
        found["predicted"] = {
            "parameters": weight_bytes(**sizes_of, vocabulary=256, precision=case["precision"], tensor=ranks),
            "cache": cache_bytes(
                **sizes_of, positions=ROOM, sequences=len(PROMPTS), precision=case["precision"], tensor=ranks
            ),
            "collectives": {
                name: {"count": each.count, "bytes": each.bytes}
                for name, each in tensor_step(
                    **sizes_of, sequences=len(PROMPTS), precision=case["precision"], tensor=ranks
                ).items()
            },
        }
        path = folder / f"{case['hidden']}-{case['precision']}-{rank}-of-{ranks}.safetensors"
        split = torch.nn.ModuleList(own.pieces)
        weights.save(split, path)
        read, size = weights.read(path)
        found["read"] = {"bytes": size, "equal": all(torch.equal(p, read[n]) for n, p in split.named_parameters())}
    return found


def refused(group: dist.ProcessGroup) -> str:
    try:
        PlacedGenerator(
            Bloom(BloomShape(layers=2, hidden=16, heads=2)), slots=1, room=4, places=[0, 0, 1, 1], group=group
        )
    except ValueError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    with this.group() as whole_group:
        cases, place = json.loads(sys.argv[1]), Path(sys.argv[2])
        results = [run(case, place, whole_group) for case in cases]
        this.report({"results": results, "refused": refused(whole_group)})
    this.leave()
