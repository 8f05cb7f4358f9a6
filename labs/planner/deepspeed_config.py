"""Reads a `ds_config.json` as DeepSpeed does, and says what DeepSpeed does not: which keys it would never look at.

DeepSpeed checks its sections of ZeRO and of 16-bit training, and of the rest only what it happens to ask for: a
misspelt name at the top is ignored, and the run trains without what it should have set. The names, kinds and bounds are
those of DeepSpeed itself (`deepspeed_keys.yaml`).
"""

from __future__ import annotations

import difflib
import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from labs.planner.deepspeed import BUCKET, LIVE, MASTER, MOMENTS
from translations import CourseError

HOLDS: dict[str, Callable[[Any, Any], bool]] = {"ge": operator.ge, "gt": operator.gt, "le": operator.le}
AUTO = "auto"
"""What Transformers and Accelerate fill in; DeepSpeed by itself takes its default for it, or stops."""
REFUSING = {("zero_optimization",), ("bf16",), ("bfloat16",), ("fp16",)}
"""Sections that are checked models in DeepSpeed; in the others it asks for what it knows and sees nothing else."""
BATCH = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """One thing about a file: a message of `labs` with its values, and the line it is on (0 for none)."""

    id: str
    line: int
    values: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """train_batch_size = micro x accumulation x ranks."""

    train: int
    micro: int
    accumulation: int
    ranks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a file says about memory, with DeepSpeed's own values for what it does not say."""

    stage: int = 0
    precision: str = "fp32"
    offload_optimizer: str = "none"
    offload_param: str = "none"
    reduce_bucket_size: int = BUCKET
    overlap_comm: bool = False
    live: int = LIVE
    grad_accum: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Bytes of model states and buffers on one device, and on the host for it."""

    device: int
    host: int
    parameters: int = 0
    gradients: int = 0
    optimizer_states: int = 0
    bucket: int = 0
    gathered: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What one setting of a file does: bytes on the device and the host, less those of DeepSpeed's own value."""

    key: str
    value: object
    device: int
    host: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A file: what is wrong with it, what is good to know, its batch and what it says about memory."""

    errors: tuple[Remark, ...]
    notes: tuple[Remark, ...]
    batch: Batch | None
    settings: Settings
    given: Mapping[str, object] = field(repr=False)


@cache
def known() -> dict[str, Any]:
    """Keys by section, as DeepSpeed has them."""
    found: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("deepspeed_keys.yaml").read_text(encoding="utf-8"))
    return found


def read(text: str, *, ranks: int) -> Reading:
    """The file as `ranks` ranks would see it. Raises CourseError where it is no JSON object."""
    if ranks < 1:
        raise CourseError("labs.option-at-least", name="ranks", least=1, value=ranks)
    given = _parsed(text)
    places = Places(text)
    errors = list(_checked(given, known()["keys"], places, ()))
    notes = [
        Remark(id="labs.deepspeed-auto", line=places.line(path), values={"key": ".".join(path)})
        for path, value in _leaves(given)
        if value == AUTO
    ]
    batch, wrong = _batch(given, ranks=ranks, places=places)
    errors += wrong
    settings = _settings(given)
    errors += _contradictions(given, settings, places)
    if settings.stage and not isinstance(given.get("gradient_clipping"), int | float):
        notes.append(Remark(id="labs.deepspeed-clipping", line=0, values={}))
    return Reading(errors=tuple(errors), notes=tuple(notes), batch=batch, settings=settings, given=given)


# --- JSON


def _parsed(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise CourseError("labs.deepspeed-json", line=error.lineno, column=error.colno, detail=error.msg) from error
    except _Twice as error:
        told = ", ".join(map(str, Places(text).twice(error.key)))
        raise CourseError("labs.deepspeed-twice", key=error.key, lines=told) from error
    if not isinstance(value, dict):
        raise CourseError("labs.deepspeed-no-object", kind=_kind_of(value))
    return value


class _Twice(ValueError):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _Twice(key)
        found[key] = value
    return found


class Places:
    """On which line of a JSON text a key stands."""

    def __init__(self, text: str) -> None:
        self._lines: dict[tuple[str, ...], list[int]] = {}
        path: list[str] = []
        key = ""
        for token in re.finditer(r'("(?:\\.|[^"\\])*")(\s*:)?|[{}\[\]]', text):
            if token.group(2):
                key = json.loads(token.group(1))
                self._lines.setdefault((*path, key), []).append(text.count("\n", 0, token.start()) + 1)
            elif token.group() in "{[":
                path.append(key if path else "")
            elif token.group() in "}]":
                path.pop()

    def line(self, path: Sequence[str]) -> int:
        """Of the key that a path of keys leads to; 0 where the text has none."""
        return self._lines.get(("", *path), [0])[0]

    def twice(self, key: str) -> list[int]:
        """Of a key that stands more than once in one section."""
        return next((lines for path, lines in self._lines.items() if path[-1] == key and len(lines) > 1), [])


def _leaves(value: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, each in value.items():
        if isinstance(each, dict):
            yield from _leaves(each, (*path, key))
        else:
            yield (*path, key), each


# --- names, kinds and bounds


def _checked(
    given: Mapping[str, Any], keys: Mapping[str, Any], places: Places, path: tuple[str, ...]
) -> Iterator[Remark]:
    removed = known()["removed"] if not path else known()["removed_zero"] if path == ("zero_optimization",) else ()
    for key, value in given.items():
        here = (*path, key)
        values: dict[str, object] = {"key": ".".join(here)}
        line = places.line(here)
        if key in removed:
            yield Remark(id="labs.deepspeed-removed", line=line, values={**values, "version": known()["version"]})
        elif key not in keys:
            fate = "refused" if path[:1] in REFUSING else "ignored"
            near = difflib.get_close_matches(key, [each for each in keys if not keys[each].get("same_as")], n=1)
            elsewhere = _elsewhere(key)
            if near:
                yield Remark(id=f"labs.deepspeed-{fate}-near", line=line, values={**values, "near": near[0]})
            elif elsewhere and elsewhere != path:
                yield Remark(
                    id="labs.deepspeed-elsewhere", line=line, values={**values, "section": ".".join(elsewhere) or "{}"}
                )
            else:
                yield Remark(id=f"labs.deepspeed-{fate}", line=line, values=values)
        elif value != AUTO and value is not None:
            yield from _value(value, keys[key], places, here)


def _elsewhere(key: str) -> tuple[str, ...] | None:
    """The section that does have such a key; an empty one for the top."""
    keys = known()["keys"]
    if key in keys:
        return ()
    return next(((section,) for section, each in keys.items() if key in each.get("keys", {})), None)


def _value(value: Any, told: Mapping[str, Any], places: Places, here: tuple[str, ...]) -> Iterator[Remark]:
    kind = told.get("kind")
    values: dict[str, object] = {"key": ".".join(here), "value": json.dumps(value)}
    line = places.line(here)
    if here == ("zero_optimization",) and isinstance(value, bool):
        yield Remark(id="labs.deepspeed-zero-boolean", line=line, values=values)
        return
    if kind is not None and not _is(value, kind):
        yield Remark(id=f"labs.deepspeed-kind-{kind}", line=line, values=values)
        return
    if told.get("deprecated"):
        yield Remark(id="labs.deepspeed-deprecated", line=line, values={**values, "near": told["deprecated"]})
    if "choices" in told and value not in told["choices"]:
        choices = ", ".join(json.dumps(each) for each in told["choices"])
        yield Remark(id="labs.deepspeed-choice", line=line, values={**values, "known": choices})
    for bound, holds in HOLDS.items():
        if bound in told and not holds(value, told[bound]):
            yield Remark(id=f"labs.deepspeed-bound-{bound}", line=line, values={**values, "bound": told[bound]})
    if isinstance(value, dict) and "keys" in told:
        yield from _checked(value, told["keys"], places, here)


def _is(value: Any, kind: str) -> bool:
    """As pydantic reads it: 5e8 is an integer too, and true is no number."""
    match kind:
        case "bool":
            return isinstance(value, bool)
        case "int":
            return not isinstance(value, bool) and isinstance(value, int | float) and float(value).is_integer()
        case "float":
            return not isinstance(value, bool) and isinstance(value, int | float)
        case "str":
            return isinstance(value, str)
        case "list":
            return isinstance(value, list)
        case _:
            return isinstance(value, dict)


def _kind_of(value: Any) -> str:
    return {list: "[]", str: '""', bool: "true/false"}.get(type(value), json.dumps(value))


# --- the batch


def _batch(given: Mapping[str, Any], *, ranks: int, places: Places) -> tuple[Batch | None, list[Remark]]:
    """Solves train = micro x accumulation x ranks as DeepSpeed does (`_set_batch_related_parameters`)."""
    values = [given.get(name) for name in BATCH]
    if any(value is not None and (value == AUTO or not _is(value, "int") or value < 1) for value in values):
        return None, []
    train, micro, accumulation = (None if value is None else int(value) for value in values)
    if train is None and micro is None:
        return None, [Remark(id="labs.deepspeed-no-batch", line=0, values={})]
    if train is None:
        assert micro is not None
        accumulation = accumulation or 1
        train = micro * accumulation * ranks
    elif micro is None:
        accumulation = accumulation or 1
        micro = train // (accumulation * ranks)
    elif accumulation is None:
        accumulation = train // (micro * ranks)
    assert micro is not None
    assert accumulation is not None
    if micro < 1 or accumulation < 1 or train != micro * accumulation * ranks:
        line = places.line(BATCH[:1]) or places.line(BATCH[1:2])
        micro, accumulation = max(micro, 1), max(accumulation, 1)
        fits = micro * accumulation * ranks
        told = {"train": train, "micro": micro, "accumulation": accumulation, "ranks": ranks, "product": fits}
        return None, [Remark(id="labs.deepspeed-batch", line=line, values=told)]
    return Batch(train=train, micro=micro, accumulation=accumulation, ranks=ranks), []


# --- memory


def _settings(given: Mapping[str, Any]) -> Settings:
    """What is set well enough to be read."""
    zero = _section(given, "zero_optimization")
    stage = zero.get("stage")
    stage = stage if isinstance(stage, int) and stage in (1, 2, 3) and not isinstance(stage, bool) else 0
    bf16 = _section(given, "bf16") or _section(given, "bfloat16")
    precision = "bf16" if bf16.get("enabled") is True else "fp32"
    if _section(given, "fp16").get("enabled") is True:
        precision = "fp16"
    overlap = zero.get("overlap_comm")

    def number(*names: str, default: int) -> int:
        found = next((zero[name] for name in names if name in zero), default)
        return int(found) if _is(found, "int") else default

    def place(name: str) -> str:
        device = _section(zero, name).get("device")
        return device if device in ("cpu", "nvme") else "none"

    accumulated = _section(given, "data_types").get("grad_accum_dtype")
    return Settings(
        stage=stage,
        precision=precision,
        offload_optimizer=place("offload_optimizer") if stage else "none",
        offload_param=place("offload_param") if stage == 3 else "none",
        reduce_bucket_size=number("reduce_bucket_size", default=BUCKET),
        overlap_comm=overlap if isinstance(overlap, bool) else stage == 3,
        live=number("stage3_max_live_parameters", "max_live_parameters", default=LIVE),
        grad_accum=accumulated if accumulated in ("fp32", "fp16", "bf16") else "",
    )


def _section(given: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = given.get(name)
    return found if isinstance(found, dict) else {}


def _contradictions(given: Mapping[str, Any], settings: Settings, places: Places) -> Iterator[Remark]:
    """What DeepSpeed refuses, or ignores without a word, although every key by itself is right."""
    zero = _section(given, "zero_optimization")
    if _section(given, "bf16").get("enabled") is True and _section(given, "fp16").get("enabled") is True:
        yield Remark(id="labs.deepspeed-both", line=places.line(("fp16",)), values={})
    for name, least in (("offload_optimizer", 1), ("offload_param", 3)):
        if _section(zero, name).get("device") in ("cpu", "nvme") and settings.stage < least:
            path = ("zero_optimization", name)
            values = {"key": ".".join(path), "stage": settings.stage, "least": least}
            yield Remark(id="labs.deepspeed-needs-stage", line=places.line(path), values=values)
        if _section(zero, name).get("device") == "nvme" and not _section(zero, name).get("nvme_path"):
            path = ("zero_optimization", name)
            yield Remark(id="labs.deepspeed-nvme", line=places.line(path), values={"key": ".".join(path)})


BYTES = {"fp32": 4, "fp16": 2, "bf16": 2}


def held(settings: Settings, *, parameters: int, ranks: int) -> Held:
    """Bytes on one of `ranks` devices for a model of so many parameters, activations aside.

    Stage 1 and 2 have one bucket, two where communication overlaps; stage 3 one, and what it may keep gathered.
    """
    element = BYTES[settings.precision]
    shard = -(-parameters // ranks)
    stage = settings.stage
    weights = element * (shard if stage == 3 else parameters)
    gradients = (BYTES.get(settings.grad_accum) or element) * (shard if stage >= 1 else parameters)
    copies = MASTER if stage or settings.precision != "fp32" else 0
    states = (copies + MOMENTS) * (shard if stage >= 1 else parameters)
    bucket = element * settings.reduce_bucket_size * (2 if settings.overlap_comm and stage < 3 else 1) if stage else 0
    gathered = element * min(settings.live, parameters) if stage == 3 and ranks > 1 else 0
    host = 0
    if settings.offload_optimizer != "none" and stage:
        host += states + MASTER * shard  # the gradients that the host adds up, in fp32
        states = gradients = 0
    if settings.offload_param != "none" and stage == 3:
        host += weights
        weights = 0
    return Held(
        device=weights + gradients + states + bucket + gathered,
        host=host,
        parameters=weights,
        gradients=gradients,
        optimizer_states=states,
        bucket=bucket,
        gathered=gathered,
    )


def effects(settings: Settings, *, parameters: int, ranks: int) -> tuple[Effect, ...]:
    """What each setting that is not DeepSpeed's own value does, all others left as they are."""
    own = Settings(overlap_comm=settings.stage == 3)
    now = held(settings, parameters=parameters, ranks=ranks)
    found = []
    for key in Settings.__dataclass_fields__:
        value, usual = getattr(settings, key), getattr(own, key)
        if value != usual:
            # Overlap is by itself on in stage 3: another stage brings its own along.
            other = replace(settings, **{key: usual})
            without = held(other, parameters=parameters, ranks=ranks)
            found.append(Effect(key=key, value=value, device=now.device - without.device, host=now.host - without.host))
    return tuple(found)
