"""A checkpoint of many ranks as a model of Transformers: the lab trains a small BLOOM on a mesh, then runs this script
in the environment of the real stacks on what was saved.

    python labs/cases/bloom_conversion.py --checkpoints FOLDER --steps N

The converted model has the same scores, writes the same tokens, and comes back unchanged. Accelerate then places its
layers, as it would on several accelerators, and runs it with layers that wait on a disk.
"""

from __future__ import annotations

import importlib.metadata
import tempfile
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from labs import training
from labs.cases.bloom import Bloom, prompts
from labs.cases.bloom_training import loaded, shape_of
from labs.cases.conversion import by_kind, configuration, from_transformers, to_transformers
from labs.cases.rows import Row, rows_of, versions
from labs.cases.serving import Generator, balanced, generate, placed
from labs.catalogue import LABS, LabRun, run_lab
from labs.data import global_batch
from labs.model import parameter_count
from labs.options.bloom_conversion import BloomConversionOptions
from labs.options.bloom_training import BloomTrainingOptions
from labs.runner import run
from labs.stacks.environment import needs

PROMPTS, LENGTH, PLACES = 4, 16, 3
"""Prompts and their length, and on how many accelerators Accelerate is asked to place the model."""
STACKS = ("transformers", "accelerate")


def conduct(
    options: BloomConversionOptions,
    *,
    ranks: int,  # noqa: ARG001
    timeout: float,
    on_row: Callable[..., None] | None = None,
    on_output: Callable[[int, str], None] | None = None,
) -> LabRun:
    """Train on the mesh, then convert in the other environment. Raises CourseError where that is missing."""
    python = needs(*STACKS)
    with tempfile.TemporaryDirectory(prefix="shardwise-") as place:
        own = replace(options, checkpoints=options.checkpoints or place)
        taken = {name: getattr(own, name) for name in (each.name for each in fields(BloomTrainingOptions))}
        trained = run_lab("bloom-training", timeout=timeout, on_row=on_row, on_output=on_output, **taken)
        script = LABS["bloom-conversion"].script
        converted = run(script, ranks=1, arguments=own.arguments(), timeout=timeout, python=python)
    data: dict[str, Any] = trained.data | {"lab": "bloom-conversion"} | dict(converted.ranks[0].value)
    return LabRun(data=data, rows=trained.rows)


def train(options: BloomConversionOptions) -> dict[str, Any]:
    """What became of the checkpoint."""
    import transformers

    transformers.utils.logging.disable_progress_bar()
    model = loaded(options, Path(options.checkpoints or "checkpoints"), step=options.steps)
    theirs = converted(model, options)
    tokens, _ = global_batch(options.steps, size=PROMPTS, sequence=options.sequence, seed=options.seed)
    with torch.no_grad():
        ours_scores, their_scores = model.scores(tokens), theirs(tokens).logits
        swapped = interleaved_wrongly(model, options)(tokens).logits
    asked = prompts(PROMPTS, length=LENGTH, seed=options.seed)
    room = LENGTH + options.new_tokens
    written = generate(Generator(model, slots=PROMPTS, room=room), asked, new=options.new_tokens)
    answers = [their_answer(theirs, prompt, new=options.new_tokens) for prompt in asked]
    with tempfile.TemporaryDirectory(prefix="shardwise-") as place:
        theirs.save_pretrained(place)
        again = transformers.BloomForCausalLM.from_pretrained(place)
        back = from_transformers(again.state_dict(), shape_of(options))
        before = dict(model.named_parameters())
        unchanged = sum(torch.equal(before[name], tensor) for name, tensor in back.items())
        accelerated = accelerate(theirs, asked[0], options, folder=Path(place) / "offloaded")
    stack = versions() | {name: importlib.metadata.version(name) for name in STACKS}
    found = {
        "conversion-logits-apart": (relative(their_scores, ours_scores), "share"),
        "conversion-logits-wrong-order": (relative(swapped, ours_scores), "share"),
        "conversion-tokens-equal": (sum(a == b for a, b in zip(written, answers, strict=True)) / PROMPTS, "share"),
        "conversion-round-trip": (unchanged / len(before), "share"),
        **accelerated,
    }
    rows = [Row(name=name, value=value, unit=unit, versions=stack) for name, (value, unit) in found.items()]
    return {"parameters": parameter_count(model), "results": [row.as_dict() for row in rows]}


def converted(model: Bloom, options: BloomTrainingOptions) -> Any:
    """`BloomForCausalLM` with this model's weights."""
    return filled(to_transformers(dict(model.named_parameters()), shape_of(options)), options)


def interleaved_wrongly(model: Bloom, options: BloomTrainingOptions) -> Any:
    """The same with rows of queries, keys and values as they lie in the labs: every shape fits."""
    weights = to_transformers(dict(model.named_parameters()), shape_of(options))
    for name in weights:
        if "query_key_value" in name:
            weights[name] = by_kind(weights[name], heads=options.heads)
    return filled(weights, options)


def filled(weights: dict[str, Tensor], options: BloomTrainingOptions) -> Any:
    import transformers

    made = transformers.BloomForCausalLM(transformers.BloomConfig(**configuration(shape_of(options))))
    made = made.to(training.DTYPES[options.precision]).eval()
    missing, unknown = made.load_state_dict({name: p.detach() for name, p in weights.items()}, strict=False)
    if unknown or set(missing) - {"lm_head.weight"}:
        raise ValueError(f"Transformers' model is another one: {missing} are missing, {unknown} are unknown")
    made.tie_weights()
    return made


@torch.no_grad()
def their_answer(model: Any, prompt: list[int], *, new: int) -> list[int]:
    """Greedy generation by Transformers itself, with its own cache."""
    asked = torch.tensor([prompt])
    told = model.generate(asked, attention_mask=torch.ones_like(asked), max_new_tokens=new, do_sample=False)
    answer: list[int] = told[0, len(prompt) :].tolist()
    return answer


def accelerate(
    model: Any, prompt: list[int], options: BloomConversionOptions, *, folder: Path
) -> dict[str, tuple[float, str]]:
    """Where Accelerate places the layers on some accelerators, beside the labs' own rule; and its run on this machine,
    where the last layers wait on the disk and come in when it is their turn.
    """
    from accelerate import dispatch_model, infer_auto_device_map

    blocks = list(model.transformer.h)
    sizes = [
        sum(p.nbytes for p in (*model.transformer.word_embeddings_layernorm.parameters(), model.lm_head.weight)),
        *(sum(p.nbytes for p in block.parameters()) for block in blocks),
        sum(p.nbytes for p in model.transformer.ln_f.parameters()),
    ]
    even = balanced(sizes, ranks=PLACES)
    room = max(sum(size for size, place in zip(sizes, even, strict=True) if place == rank) for rank in range(PLACES))
    # Accelerate keeps as much of the first accelerator free as the largest layer takes, for layers that come in.
    limits = {rank: room + (max(sizes[1:]) if rank == 0 else 0) for rank in range(PLACES)}
    theirs = infer_auto_device_map(model, max_memory=limits, no_split_module_classes=["BloomBlock"])
    ours = placed(sizes, [room] * PLACES)
    same = sum(theirs.get(f"transformer.h.{n}") == place for n, place in enumerate(ours[1:-1]))

    before = their_answer(model, prompt, new=options.new_tokens)
    half = len(blocks) // 2
    device_map: dict[str, Any] = {"transformer.word_embeddings": "cpu", "lm_head": "cpu"}
    device_map |= {"transformer.word_embeddings_layernorm": "cpu", "transformer.ln_f": "cpu"}
    device_map |= {f"transformer.h.{n}": "cpu" if n < half else "disk" for n in range(len(blocks))}
    dispatched = dispatch_model(model, device_map=device_map, main_device="cpu", offload_dir=str(folder))
    waiting = sum(p.numel() for p in dispatched.transformer.h.parameters() if p.is_meta)
    answer = their_answer(dispatched, prompt, new=options.new_tokens)
    return {
        "accelerate-places-equal": (same / len(blocks), "share"),
        "accelerate-on-disk": (float(waiting * model.dtype.itemsize), "B"),
        "accelerate-tokens-equal": (float(answer == before), "share"),
    }


def relative(found: Tensor, right: Tensor) -> float:
    """The largest difference, as a share of the largest score."""
    return float((found.double() - right.double()).abs().max() / right.double().abs().max())


def results() -> list[Row]:
    """For the table of all cases."""
    return rows_of(run_lab("bloom-conversion").data)


if __name__ == "__main__":
    training.main(BloomConversionOptions, train)
