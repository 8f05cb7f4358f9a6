"""The tensor lab, an ordinary torchrun script: `torchrun --nproc-per-node 4 labs/tensor.py`.

All ranks train the course's GPT on the same sequences, each with its own heads, features and tokens. A rank reports its
losses, the bytes it held, and what its collectives moved on the tensor axis.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import torch.distributed as dist

from labs import training
from labs.data import micro_batches
from labs.model import VOCABULARY, parameter_count
from labs.options.tensor import TensorOptions
from labs.planner import peak
from labs.planner.tensor import Split, predict
from labs.runner import rank as this
from labs.strategies.tensor_parallel import TensorParallel
from labs.telemetry.categories import Bytes


def train(options: TensorOptions, *, sequence: bool = False) -> dict[str, Any]:
    """What this rank reports; with or without sequence parallelism."""
    with this.group() as group, training.watched(options) as tracker:
        tracker.name_axis(group, "tensor")
        rank, ranks, device = dist.get_rank(group), dist.get_world_size(group), this.device()
        model = training.model_of(options)
        parameters = parameter_count(model)
        strategy = TensorParallel(model, group=group, recipe=training.recipe_of(options), sequence=sequence)
        kept: list[int] = []
        model.register_forward_hook(lambda *_: kept.append(tracker.now.activations))

        def step(number: int) -> float:
            batch = training.batch_of(options, number, ranks=ranks)
            every = micro_batches(batch, rank=0, ranks=1, accumulate=options.accumulate, device=device)
            kept.clear()
            return strategy.train_step(every).item()

        report = training.steps(options, tracker, step)
    split = split_of(options, ranks=ranks, sequence=sequence)
    prediction = predict(split, precision=options.precision, micro_batches=options.accumulate)
    return report | {
        "parameters": parameters,
        "predicted": {
            **training.predicted(
                prediction.states,
                peak=fullest(options, split, rest=prediction.states.total, ranks=ranks, rank=rank),
                axes={"tensor": prediction.collectives},
            ),
            "communication": prediction.communication,
            "collectives": {name: asdict(count) for name, count in prediction.collectives.items()},
        },
        "whole": {"activations": {"kept": {"measured": kept[0], "formula": split.kept(options.precision)}}},
    }


def fullest(options: TensorOptions, split: Split, *, rest: int, ranks: int, rank: int) -> int:
    """What the formula says that a rank holds at the most. The optimizer's step copies all gradients at once where the
    optimizer is more precise; before it, what every rank has whole is summed in one buffer with sequence parallelism.
    """
    sizes = replace(
        training.sizes_of(options, ranks=ranks),
        vocabulary=split.tokens,
        tensor=ranks,
        sequence_parallel=split.sequence_parallel,
        filled=(rank + 1) * split.tokens > split.vocabulary,
    )
    summed = split.replicated * sizes.value if split.sequence_parallel else 0
    return peak.of_replica(
        sizes,
        [],
        modes=["none"] * options.layers,
        rest=rest + training.read(options, ranks=ranks),
        precision=options.precision,
        ranks=ranks,
        tied=options.tied,
        update=max(summed, peak.copies([split.sharded + split.replicated], precision=options.precision)),
    )


def split_of(options: TensorOptions, *, ranks: int, sequence: bool) -> Split:
    """What decides on a rank's bytes."""
    return Split(
        layers=options.layers,
        hidden=options.hidden,
        heads=options.heads,
        sequence=options.sequence,
        batch=options.sequences_at_once(ranks),
        vocabulary=VOCABULARY,
        ranks=ranks,
        tied=options.tied,
        sequence_parallel=sequence,
    )


def at_rest(options: TensorOptions, *, ranks: int, rank: int = 0) -> Bytes:  # noqa: ARG001
    """What the formula says that a rank holds as the optimizer step begins; it is the same on every rank."""
    states = predict(split_of(options, ranks=ranks, sequence=False), precision=options.precision).states
    return Bytes(parameters=states.parameters, gradients=states.gradients, optimizer_states=states.optimizer_states)


if __name__ == "__main__":
    training.main(TensorOptions, train, training.reference)
