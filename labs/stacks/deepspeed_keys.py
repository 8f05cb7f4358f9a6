"""What DeepSpeed's configuration may hold, read out of DeepSpeed itself: `python -m labs.stacks.deepspeed_keys` writes
`labs/planner/deepspeed_keys.yaml` anew.

Most sections are pydantic models, which say names, types and bounds. The rest DeepSpeed takes from a dictionary key by
key: one that notes what it is asked for tells which.
"""

from __future__ import annotations

import enum
import os
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import yaml

from labs.runner import rank as this
from labs.runner import run
from labs.stacks.environment import needs

FILE = Path(__file__).parents[1] / "planner" / "deepspeed_keys.yaml"
HEAD = """\
# What ds_config.json may hold: read from DeepSpeed's own classes (deepspeed/runtime/config.py, zero/config.py and what
# they name) by python -m labs.stacks.deepspeed_keys, not written by hand. A section with `open` takes keys of its own.
"""
KINDS = {bool: "bool", int: "int", float: "float", str: "str", Path: "str", dict: "object", list: "list"}


class Asked(dict[str, Any]):
    """A dictionary that notes which keys it is asked for, and answers with others of its kind."""

    def __init__(self, **values: Any) -> None:
        super().__init__(values)
        self.seen: dict[str, Asked | None] = {}

    def get(self, key: str, default: Any = None) -> Any:
        self.seen.setdefault(key, None)
        if default == {} and key not in dict.keys(self):
            self.seen[key] = inner = Asked()
            return inner
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.seen.setdefault(str(key), None)
        return super().__contains__(key)

    def keys(self) -> Any:
        return self

    def __copy__(self) -> Asked:
        return self


def describe() -> dict[str, Any]:
    """Sections and their keys; runs where DeepSpeed is installed."""
    from labs.stacks.zero_engine import deepspeed_here

    deepspeed = deepspeed_here()
    from deepspeed.runtime import config, precision_config
    from deepspeed.runtime.activation_checkpointing import config as recomputing
    from deepspeed.runtime.config_utils import DeepSpeedConfigModel
    from deepspeed.runtime.zero.config import DeepSpeedZeroConfig

    def fields(model: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, entry in model.model_fields.items():
            told = _kind(entry.annotation)
            inner = next((each for each in _parts(entry.annotation) if _is_model(each, DeepSpeedConfigModel)), None)
            for bound in entry.metadata:
                told |= {key: getattr(bound, key) for key in ("ge", "gt", "le", "lt") if hasattr(bound, key)}
            extra = entry.json_schema_extra or {}
            if extra.get("deprecated"):
                told["deprecated"] = extra.get("new_param", "")
            default = entry.get_default()
            if isinstance(default, bool | int | float | str):
                told["default"] = _plain(default)
            if inner is not None:
                told = {"kind": "object", "keys": fields(inner)}
            found[entry.alias or name] = told
            if entry.alias:
                found[name] = {**told, "same_as": entry.alias}
        return found

    asked = Asked(train_micro_batch_size_per_gpu=1)
    config.DeepSpeedConfig(asked)
    top: dict[str, Any] = {name: {} for name in sorted(asked.seen) if name not in config._REMOVED_TOP_LEVEL_CONFIG_KEYS}
    for name, inner in asked.seen.items():
        if inner is not None and inner.seen:
            top[name] = {"kind": "object", "keys": {each: {} for each in sorted(inner.seen)}}
    top |= {name: dict(told) for name, told in BASIC.items()}
    top["zero_optimization"] = {"kind": "object", "keys": fields(DeepSpeedZeroConfig)}
    for name in ("bf16", "bfloat16"):
        top[name] = {"kind": "object", "keys": fields(precision_config.DeepSpeedBF16Config)}
    top["fp16"] = {"kind": "object", "keys": fields(precision_config.DeepSpeedFP16Config)}
    ours = {each.lower() for each in config.DEEPSPEED_OPTIMIZERS}
    top["optimizer"] = {
        "kind": "object",
        "keys": {"type": {"kind": "str"}, "params": {"kind": "object"}, "legacy_fusion": {"kind": "bool"}},
    }
    top["scheduler"] = {"kind": "object", "keys": {"type": {"kind": "str"}, "params": {"kind": "object"}}}
    names = [
        value
        for key, value in vars(recomputing).items()
        if key.startswith("ACT_CHKPT_") and not key.endswith("DEFAULT") and isinstance(value, str)
    ]
    top["activation_checkpointing"] = {
        "kind": "object",
        "keys": {name: {} for name in sorted(names) if name != "activation_checkpointing"},
    }
    return {
        "version": deepspeed.__version__.split("+")[0],
        "optimizers": sorted(ours),
        "keys": {name: top[name] for name in sorted(top)},
        "removed": sorted(config._REMOVED_TOP_LEVEL_CONFIG_KEYS),
        "removed_zero": sorted(config._REMOVED_ZERO_CONFIG_KEYS),
    }


BASIC: dict[str, dict[str, Any]] = {
    "train_batch_size": {"kind": "int", "ge": 1},
    "train_micro_batch_size_per_gpu": {"kind": "int", "ge": 1},
    "gradient_accumulation_steps": {"kind": "int", "ge": 1},
    "gradient_clipping": {"kind": "float", "ge": 0},
    "prescale_gradients": {"kind": "bool"},
    "gradient_predivide_factor": {"kind": "float", "gt": 0},
    "steps_per_print": {"kind": "int"},
    "sequence_parallel_size": {"kind": "int", "ge": 1},
    "wall_clock_breakdown": {"kind": "bool"},
    "memory_breakdown": {"kind": "bool"},
    "dump_state": {"kind": "bool"},
    "zero_allow_untested_optimizer": {"kind": "bool"},
    "zero_force_ds_cpu_optimizer": {"kind": "bool"},
    "communication_data_type": {"kind": "str", "choices": ["fp32", "fp16", "bf16"]},
}
"""Of keys that DeepSpeed takes as they come, the kind and bounds that it needs later on."""


def _parts(annotation: Any) -> Iterator[Any]:
    """The members of a union, or the annotation itself."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        yield from (each for each in typing.get_args(annotation) if each is not type(None))
    else:
        yield annotation


def _kind(annotation: Any) -> dict[str, Any]:
    for each in _parts(annotation):
        if isinstance(each, type) and issubclass(each, enum.Enum):
            values = [member.value for name, member in each.__members__.items() if not name.startswith("max")]
            return {"kind": "int" if isinstance(values[0], int) else "str", "choices": values}
        if each in KINDS:
            return {"kind": KINDS[each]}
        if typing.get_origin(each) in (list, dict):
            return {"kind": KINDS[typing.get_origin(each)]}
    return {}


def _plain(value: bool | int | float | str) -> bool | int | float | str:
    """Without the class of DeepSpeed's own that prints a number with commas."""
    if isinstance(value, enum.Enum):
        return value.value  # type: ignore[no-any-return]
    return int(value) if type(value) is not bool and isinstance(value, int) else value


def _is_model(annotation: Any, base: type) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, base)


def installed() -> dict[str, Any]:
    """The same from a process that has DeepSpeed. Raises CourseError where there is none."""
    found = run(Path(__file__), ranks=1, python=needs("deepspeed"), timeout=120).ranks[0].value
    return cast("dict[str, Any]", found)


def text(found: dict[str, Any]) -> str:
    """The data file."""
    return HEAD + yaml.safe_dump(found, sort_keys=False, width=120)


if __name__ == "__main__":
    if "SHARDWISE_RUN" in os.environ:
        this.report(describe())
        this.leave()
    else:
        FILE.write_text(text(installed()), encoding="utf-8")
