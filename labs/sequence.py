"""The sequence lab, an ordinary torchrun script: `torchrun --nproc-per-node 4 labs/sequence.py`.

The tensor lab with Megatron's sequence parallelism: the same model and losses; other collectives, and fewer
activations.
"""

from __future__ import annotations

from functools import partial

from labs import tensor, training
from labs.options.tensor import SequenceOptions
from labs.tensor import at_rest

__all__ = ["at_rest", "train"]

train = partial(tensor.train, sequence=True)


if __name__ == "__main__":
    training.main(SequenceOptions, train, training.reference)
