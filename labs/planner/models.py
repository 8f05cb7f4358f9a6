"""Shapes of models as data (`models.yaml`, each with its source), and the exact number of their parameters.

The count follows the shape, matrix by matrix; what papers print is the same number rounded. A vocabulary is counted
as it is trained, padded where the run padded it.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from translations import CourseError


@dataclass(frozen=True, slots=True, kw_only=True)
class Latent:
    """Multi-head latent attention (DeepSeek-V2 2024, section 2.1): queries, keys and values through narrow ranks."""

    query_rank: int
    value_rank: int
    rotary: int
    value_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """A mixture of experts in place of the two-layer network, in all layers but the first `dense`."""

    routed: int
    shared: int
    active: int
    features: int
    dense: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A decoder of `layers` equal blocks. Sizes in elements; `features` is the width inside the two-layer network.

    Where the heads are fewer for keys and values, several queries share one (`key_value_heads`). `positions` says
    whether a table of positions is learned.
    """

    name: str
    title: str
    layers: int
    hidden: int
    heads: int
    sequence: int
    vocabulary: int
    features: int
    key_value_heads: int
    head_size: int
    gated: bool = False
    biases: bool = True
    attention_biases: bool = True
    query_biases: bool = True
    rms: bool = False
    norms: int = 2
    positions: bool = True
    embedding_norm: bool = False
    final_norm: bool = True
    tied: bool = True
    experts: Experts | None = None
    latent: Latent | None = None
    stack: str = "megatron"
    source: str = ""

    @property
    def norm(self) -> int:
        """Parameters of one normalization."""
        return self.hidden if self.rms else 2 * self.hidden

    @property
    def attention(self) -> int:
        """Parameters of a layer's attention."""
        h = self.hidden
        if self.latent is not None:
            narrow = self.latent
            queries = h * narrow.query_rank + narrow.query_rank
            queries += narrow.query_rank * self.heads * (self.head_size + narrow.rotary)
            values = h * (narrow.value_rank + narrow.rotary) + narrow.value_rank
            values += narrow.value_rank * self.heads * (self.head_size + narrow.value_size)
            return queries + values + self.heads * narrow.value_size * h
        wide, shared = self.heads * self.head_size, 2 * self.key_value_heads * self.head_size
        biases = (wide + shared if self.query_biases else 0) + (h if self.attention_biases else 0)
        return h * (wide + shared) + wide * h + biases

    def network(self, features: int) -> int:
        """Parameters of a two-layer network (three matrices where it is gated)."""
        h = self.hidden
        return (3 if self.gated else 2) * h * features + (features + h if self.biases else 0)

    @property
    def layer(self) -> int:
        """Parameters of one of the equal layers."""
        inner = self.network(self.features)
        if self.experts is not None:
            each = self.network(self.experts.features)
            inner = (self.experts.routed + self.experts.shared) * each + self.hidden * self.experts.routed
        return self.attention + inner + self.norms * self.norm

    @property
    def embedding(self) -> int:
        """Parameters before the first layer."""
        table = self.vocabulary + (self.sequence if self.positions else 0)
        return table * self.hidden + (self.norm if self.embedding_norm else 0)

    @property
    def head(self) -> int:
        """Parameters after the last layer; with tied weights the table is the embedding's."""
        return (self.norm if self.final_norm else 0) + (0 if self.tied else self.vocabulary * self.hidden)

    @property
    def parameters(self) -> int:
        """Every parameter once."""
        total = self.embedding + self.layers * self.layer + self.head
        if self.experts is not None:
            wide = self.attention + self.network(self.features) + self.norms * self.norm
            total -= self.experts.dense * (self.layer - wide)
        return total

    @property
    def active_parameters(self) -> int:
        """Those that one token meets: of the routed experts only the active ones."""
        if self.experts is None:
            return self.parameters
        idle = self.experts.routed - self.experts.active
        return self.parameters - (self.layers - self.experts.dense) * idle * self.network(self.experts.features)


def padded(vocabulary: int, *, tensor: int = 1, multiple: int = 128) -> int:
    """The vocabulary as Megatron pads it, so that each of `tensor` ranks has a multiple of 128 (Shoeybi et al. 2019,
    section 5.1).
    """
    step = multiple * tensor
    return -(-vocabulary // step) * step


def gpt(*, layers: int, hidden: int, heads: int, vocabulary: int, sequence: int, name: str = "gpt") -> Model:
    """A GPT of the Megatron papers: four-fold features, biases, learned positions, tied embedding."""
    return Model(
        name=name,
        title=name,
        layers=layers,
        hidden=hidden,
        heads=heads,
        sequence=sequence,
        vocabulary=vocabulary,
        features=4 * hidden,
        key_value_heads=heads,
        head_size=hidden // heads,
    )


def model(name: str, *, file: Path | None = None) -> Model:
    """The model of that name or alias, also of a learner's own `file`. Raises CourseError naming the nearest."""
    found = models() if file is None else {**models(), **read(file)}
    if name.lower() not in found:
        nearest = difflib.get_close_matches(name.lower(), found, n=3, cutoff=0.4)
        known = sorted({each.name for each in found.values()})
        raise CourseError("labs.unknown-model", name=name, known=", ".join(nearest or known))
    return found[name.lower()]


@functools.cache
def models() -> Mapping[str, Model]:
    """By name and alias."""
    return read(Path(__file__).parent / "models.yaml")


def read(file: Path) -> dict[str, Model]:
    """The models of a file, which may hold accelerators instead. Raises CourseError for what is no model."""
    try:
        found = {}
        for row in section(file, "models", beside="accelerators"):
            made = _model(dict(row))
            found.update(dict.fromkeys(names_of(row), made))
        return found
    except UNREADABLE as error:
        raise CourseError("labs.models-unreadable", file=str(file), detail=told(error)) from error


UNREADABLE = (
    OSError, KeyError, TypeError, ValueError, ZeroDivisionError, OverflowError, RecursionError, yaml.YAMLError,
)  # fmt: skip
"""What a file of a learner's own may raise."""


def told(error: BaseException) -> str:
    """What to say of it."""
    return f"missing: {error.args[0]}" if isinstance(error, KeyError) else str(error)


def section(file: Path, name: str, *, beside: str) -> list[dict[str, Any]]:
    """The rows under a name; none where the file has only the other kind. Raises KeyError where it has neither."""
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    if not isinstance(content, dict) or not {name, beside} & content.keys():
        raise KeyError(name)
    rows = content.get(name, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"{name}: a list of rows, each with a name and its values")
    return rows


def names_of(row: Mapping[str, Any]) -> list[str]:
    """Name and aliases of a row, in small letters. Raises ValueError unless all of them are words."""
    aliases = row.get("aliases", [])
    names = [row["name"], *(aliases if isinstance(aliases, list) else [aliases])]
    for name in names:
        if not isinstance(name, str) or not name:
            raise ValueError(f"name and aliases: {name!r} is no text")
    return [name.lower() for name in names]


def words(row: Mapping[str, Any], *names: str) -> None:
    """Raises ValueError unless each of the values that are there is text."""
    for name in names:
        if not isinstance(row.get(name, ""), str):
            raise ValueError(f"{name}: {row[name]}")


MOST = 10**12
"""No size of a model is larger."""


def whole(row: Mapping[str, Any], *names: str, least: int = 1) -> None:
    """Raises ValueError unless each of the values is a whole number, neither too small nor absurdly large."""
    for name in names:
        if type(row[name]) is not int or not least <= row[name] <= MOST:
            raise ValueError(f"{name}: {row[name]}")


def _model(row: dict[str, Any]) -> Model:
    unknown = set(row) - {each.name for each in fields(Model)} - {"aliases"}
    if unknown:
        raise ValueError(f"unknown: {', '.join(sorted(map(str, unknown)))}")
    whole(row, "layers", "hidden", "heads", "sequence", "vocabulary")
    row.pop("aliases", None)
    row.setdefault("title", row["name"])
    row.setdefault("features", 4 * row["hidden"])
    row.setdefault("key_value_heads", row["heads"])
    row.setdefault("head_size", row["hidden"] // row["heads"])
    whole(row, "features", "key_value_heads", "head_size", *({"norms"} & row.keys()))
    words(row, "name", "title", "stack", "source")
    for each in fields(Model):
        if each.type == "bool" and type(row.get(each.name, False)) is not bool:
            raise ValueError(f"{each.name}: true or false, not {row[each.name]}")
    if row["heads"] % row["key_value_heads"]:
        raise ValueError(f"key_value_heads: {row['key_value_heads']} do not divide {row['heads']} heads")
    if experts := row.get("experts"):
        row["experts"] = Experts(**experts)
        whole(experts, "routed", "active", "features")
        whole({"dense": 0} | experts, "shared", "dense", least=0)
        if experts["active"] > experts["routed"] or experts.get("dense", 0) > row["layers"]:
            raise ValueError("experts: at most as many active as routed, and as many dense as layers")
    if latent := row.get("latent"):
        row["latent"] = Latent(**latent)
        whole(latent, *(each.name for each in fields(Latent)))
    return Model(**row)
