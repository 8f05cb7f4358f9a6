"""Megatron-LM's flags and the planner's configuration: one read as the other.

`read` takes a launch script, or the flags alone, and gives the `Configuration` they stand for, so that a launch is
checked and its memory known before it waits in a queue. `written` gives the flags of a configuration. Names are those
of Megatron-LM's `megatron/training/arguments.py`.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace

from labs.planner.configuration import STACKS, Configuration
from labs.planner.layouts import Published, trained
from labs.planner.models import Model, padded
from translations import CourseError

NUMBERS: Mapping[str, str] = {
    "num-layers": "layers", "hidden-size": "hidden", "ffn-hidden-size": "features", "num-attention-heads": "heads",
    "num-query-groups": "key_value_heads", "kv-channels": "head_size", "seq-length": "sequence",
    "max-position-embeddings": "positions", "vocab-size": "vocabulary", "make-vocab-size-divisible-by": "multiple",
    "tensor-model-parallel-size": "tp", "pipeline-model-parallel-size": "pp", "context-parallel-size": "cp",
    "num-layers-per-virtual-pipeline-stage": "per_chunk", "micro-batch-size": "micro_batch",
    "global-batch-size": "batch", "recompute-num-layers": "recomputed_layers",
}  # fmt: skip
NULL = "NullTokenizer"
"""For tokens that are made up; it adds one for the end of a document to --vocab-size."""
WORDS = ("tokenizer-type", "position-embedding-type", "normalization", "recompute-granularity", "recompute-method")
SWITCHES = (
    "sequence-parallel", "use-distributed-optimizer", "untie-embeddings-and-output-weights", "swiglu", "bf16", "fp16",
    "disable-bias-linear", "add-qkv-bias", "group-query-attention", "recompute-activations",
    "account-for-embedding-in-pipeline-split", "account-for-loss-in-pipeline-split",
)  # fmt: skip
NEEDED = ("num-layers", "hidden-size", "num-attention-heads", "seq-length", "micro-batch-size", "vocab-size")
NEAR = 0.86
"""How alike two names must be for one to be taken as a slip of the other; most flags have nothing to do with memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What a launch script asks for. `unread` are flags that change neither memory nor layout."""

    plan: Configuration
    unread: tuple[str, ...]


def read(text: str, *, ranks: int) -> Launch:
    """The flags of a script, or of a single line, on so many ranks. Variables that the script sets are filled in.

    Raises CourseError for a flag that is a slip of one read here, for a missing one, and for a layout that cannot run.
    """
    given = _flags(text)
    for name in given:
        if name not in NUMBERS and name not in WORDS and name not in SWITCHES:
            near = difflib.get_close_matches(name, [*NUMBERS, *WORDS, *SWITCHES], n=1, cutoff=NEAR)
            if near:
                raise CourseError("labs.megatron-slip", flag=f"--{name}", near=f"--{near[0]}")
    for name in NEEDED:
        if name not in given:
            raise CourseError("labs.megatron-needed", flag=f"--{name}")
    numbers = {field: _number(name, given[name]) for name, field in NUMBERS.items() if name in given}
    plan = _plan(given, numbers, ranks=ranks)
    read_here = {*NUMBERS, *WORDS, *SWITCHES}
    return Launch(plan=plan.checked(), unread=tuple(name for name in given if name not in read_here))


def _flags(text: str) -> dict[str, str]:
    """Each flag with its value; empty for a switch."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    variables = dict(re.findall(r"^\s*(?:export\s+)?([A-Z][A-Z0-9_]*)=([^\s()$]+)$", joined, re.MULTILINE))
    words = re.sub(r"\$\{?([A-Z][A-Z0-9_]*)\}?", lambda found: variables.get(found.group(1), found.group()), joined)
    tokens = shlex.split(words.replace("(", " ").replace(")", " "), comments=True)
    found: dict[str, str] = {}
    for place, token in enumerate(tokens):
        if token.startswith("--"):
            name, equals, value = token[2:].partition("=")
            follows = tokens[place + 1] if place + 1 < len(tokens) else ""
            name = name.replace("_", "-")
            found[name] = value if equals else ("" if name in SWITCHES or follows.startswith("--") else follows)
    return found


def _number(name: str, value: str) -> int:
    number = value.replace("_", "")
    if not number.isdigit() or int(number) < 1:
        raise CourseError("labs.megatron-number", flag=f"--{name}", value=value)
    return int(number)


def _plan(given: Mapping[str, str], numbers: Mapping[str, int], *, ranks: int) -> Configuration:
    tp, pp, cp = (numbers.get(axis, 1) for axis in ("tp", "pp", "cp"))
    if ranks % (tp * pp * cp):
        raise CourseError("labs.megatron-ranks", ranks=ranks, product=tp * pp * cp, tp=tp, pp=pp, cp=cp)
    dp = ranks // (tp * pp * cp)
    micro = numbers["micro_batch"]
    batch = numbers.get("batch", micro * dp)  # Megatron's own: one micro-batch on each replica
    if batch % (micro * dp):
        nearest = max(1, round(batch / (micro * dp))) * micro * dp
        raise CourseError("labs.megatron-batch", batch=batch, micro=micro, dp=dp, nearest=nearest)
    layers = numbers["layers"]
    interleave = 1
    if "per_chunk" in numbers:
        if layers % (pp * numbers["per_chunk"]):
            raise CourseError("labs.megatron-chunks", layers=layers, pp=pp, each=numbers["per_chunk"])
        interleave = layers // (pp * numbers["per_chunk"])
    return Configuration(
        model=_model(given, numbers, tp=tp),
        dp=dp,
        tp=tp,
        pp=pp,
        cp=cp,
        zero=1 if "use-distributed-optimizer" in given else 0,
        micro_batch=micro,
        micro_batches=batch // (micro * dp),
        recompute=_recompute(given),
        sequence_parallel="sequence-parallel" in given and tp > 1,
        interleave=interleave,
        stages=_stages(given, layers, pp),
        stack=STACKS["megatron"],
    )


def _model(given: Mapping[str, str], numbers: Mapping[str, int], *, tp: int) -> Model:
    hidden, heads = numbers["hidden"], numbers["heads"]
    gated = "swiglu" in given
    biases = "disable-bias-linear" not in given
    return Model(
        name="launch",
        title="pretrain_gpt.py",
        layers=numbers["layers"],
        hidden=hidden,
        heads=heads,
        sequence=numbers["sequence"],
        vocabulary=padded(
            numbers["vocabulary"] + (given.get("tokenizer-type") == NULL),
            tensor=tp,
            multiple=numbers.get("multiple", 128),
        ),
        features=numbers.get("features", 4 * hidden),
        key_value_heads=numbers.get("key_value_heads", heads) if "group-query-attention" in given else heads,
        head_size=numbers.get("head_size", hidden // heads),
        gated=gated,
        biases=biases,
        attention_biases=biases,
        query_biases=biases or "add-qkv-bias" in given,
        rms=given.get("normalization") == "RMSNorm",
        positions=given.get("position-embedding-type", "learned_absolute") == "learned_absolute",
        tied="untie-embeddings-and-output-weights" not in given,
    )


def _recompute(given: Mapping[str, str]) -> str:
    if "recompute-activations" in given:
        return "selective"
    found = given.get("recompute-granularity", "none")
    if found not in ("none", "selective", "full"):
        raise CourseError("labs.unknown-choice", name="recompute-granularity", value=found, known="selective, full")
    return found


def _stages(given: Mapping[str, str], layers: int, pp: int) -> tuple[int, ...]:
    """Where embedding and loss count as a layer each, the first and last stage have one less."""
    first, last = (f"account-for-{each}-in-pipeline-split" in given for each in ("embedding", "loss"))
    if pp == 1 or not (first or last):
        if layers % pp:
            raise CourseError("labs.megatron-layers", layers=layers, pp=pp)
        return ()
    whole, rest = divmod(layers + first + last, pp)
    if rest:
        raise CourseError("labs.megatron-layers", layers=layers + first + last, pp=pp)
    stages = [whole] * pp
    stages[0] -= first
    stages[-1] -= last
    return tuple(stages)


# --- the other way round


def written(plan: Configuration) -> tuple[str, ...]:
    """The flags of a configuration, which `read` reads back as the same layout. Raises CourseError for what Megatron-LM
    has no flag for.
    """
    shape = plan.checked().model
    if plan.zero > 1 or shape.experts or shape.latent:
        raise CourseError("labs.megatron-no-flag", model=shape.title)
    counted = plan.layers[0] < max(plan.layers)
    values: list[tuple[str, object]] = [
        ("num-layers", shape.layers),
        ("hidden-size", shape.hidden),
        ("ffn-hidden-size", shape.features),
        ("num-attention-heads", shape.heads),
        ("seq-length", plan.length),
        ("max-position-embeddings", shape.sequence),
        ("tokenizer-type", NULL),
        ("vocab-size", shape.vocabulary - 1),
        ("make-vocab-size-divisible-by", 1),
        ("tensor-model-parallel-size", plan.tp),
        ("pipeline-model-parallel-size", plan.pp),
        ("micro-batch-size", plan.micro_batch),
        ("global-batch-size", plan.global_batch),
    ]
    if plan.cp > 1:
        values.append(("context-parallel-size", plan.cp))
    if plan.interleave > 1:
        values.append(("num-layers-per-virtual-pipeline-stage", shape.layers // (plan.pp * plan.interleave)))
    if shape.key_value_heads != shape.heads:
        values.append(("num-query-groups", shape.key_value_heads))
    if not shape.positions:
        values.append(("position-embedding-type", "none"))
    if shape.rms:
        values.append(("normalization", "RMSNorm"))
    if plan.recompute == "full":
        values += [("recompute-granularity", "full"), ("recompute-method", "uniform"), ("recompute-num-layers", 1)]
    elif plan.recompute != "none":
        values.append(("recompute-granularity", plan.recompute))
    switches = {
        "bf16": True,
        "use-distributed-optimizer": plan.zero == 1,
        "sequence-parallel": plan.sequence_parallel,
        "untie-embeddings-and-output-weights": not shape.tied,
        "swiglu": shape.gated,
        "disable-bias-linear": not shape.biases,
        "add-qkv-bias": shape.query_biases and not shape.biases,
        "group-query-attention": shape.key_value_heads != shape.heads,
        "account-for-embedding-in-pipeline-split": counted,
        "account-for-loss-in-pipeline-split": counted and plan.layers[-1] < max(plan.layers),
    }
    flags = [f"--{name} {value}" for name, value in values]
    return (*flags, *(f"--{name}" for name, on in switches.items() if on))


def same_layout(one: Configuration, other: Configuration) -> bool:
    """Whether two configurations are the same but for the model's name and what says nothing about memory."""
    shape = replace(one.model, name="", title="", source="", stack="", embedding_norm=False, sequence=one.length)
    wanted = replace(other.model, name="", title="", source="", stack="", embedding_norm=False, sequence=other.length)
    plain = {"stages": (), "sequence": None}
    return one.layers == other.layers and replace(one, model=shape, **plain) == replace(other, model=wanted, **plain)  # type: ignore[arg-type]


def published(name: str) -> tuple[Published, tuple[str, ...]]:
    """A published run, and what of its model Megatron Core has no flag for, as ids."""
    found = trained(name)
    return found, ("alibi", "embedding-norm") if found.plan.model.embedding_norm else ()


def micro_batches(*, gpus: int, tp: int, pp: int, micro: int, batch: int) -> float:
    """Micro-batches of one step of each pipeline."""
    return batch / (micro * (gpus // (tp * pp)))


def first_stage(*, layers: int, pp: int, embedding: bool = True, loss: bool = True) -> int:
    """Layers of the first stage, where embedding and loss count as a layer each."""
    return (layers + embedding + loss) // pp - embedding


def rows_of_qkv(*, hidden: int, tp: int, heads: int, groups: int | None = None) -> int:
    """Rows of `linear_qkv` on one tensor rank: queries of its heads, and keys and values of its groups."""
    each = hidden // heads
    return each * (heads + 2 * (groups or heads)) // tp
