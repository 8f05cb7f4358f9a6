"""Accelerators as data (`hardware.yaml`, each value with its source). Sizes in bytes and rates in bytes or
floating-point operations a second; the file holds them in the data sheets' units.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from labs.planner.models import UNREADABLE, names_of, section, told, whole, words
from translations import CourseError

NARROW = ("fp8", "fp4")
NEEDED = {"memory", "bandwidth", "peak", "link"}
OPTIONAL = {"achieved", "network", "host", "watts", "pair", *NARROW}
LARGEST = 1e15
"""No value of an accelerator is larger in the file's units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One accelerator. `link` is what it sends to its peers in a node of `node`, `network` to other nodes, `host` to
    the host's memory, each in one direction; 0 or None where nothing is known. `peak` is that of bf16, `narrow` those
    of the narrower formats in which it can multiply; `pair` the link between two of a node that has no switch.
    """

    name: str
    title: str
    memory: int
    bandwidth: float
    peak: float
    achieved: float | None
    link: float
    node: int
    network: float
    host: float
    watts: float | None
    source: str
    narrow: Mapping[str, float] = field(default_factory=dict, hash=False)
    pair: float | None = None

    def peak_of(self, precision: str) -> float:
        """FLOP/s of dense products in bf16, fp8 or fp4. Raises CourseError where it has no products in that format."""
        known = {"bf16": self.peak, **self.narrow}
        if precision not in known:
            raise CourseError(
                "labs.no-such-product", gpu=self.title, precision=precision, known=", ".join(sorted(known))
            )
        return known[precision]

    def between(self, ranks: int) -> float:
        """Bytes a second that each of so many accelerators of a node sends to the others together. Without a switch two
        have only the one link between them.
        """
        return self.link if self.pair is None else min(self.link, self.pair * max(1, ranks - 1))

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def accelerator(name: str, *, file: Path | None = None) -> Accelerator:
    """The accelerator of that name or alias, also of a learner's own `file`. Raises CourseError naming the nearest."""
    found = accelerators() if file is None else {**accelerators(), **read(file)}
    if name.lower() not in found:
        nearest = difflib.get_close_matches(name.lower(), found, n=3, cutoff=0.4)
        known = sorted({each.name for each in found.values()})
        raise CourseError("labs.unknown-accelerator", name=name, known=", ".join(nearest or known))
    return found[name.lower()]


@functools.cache
def accelerators() -> Mapping[str, Accelerator]:
    """By name and alias."""
    return read(Path(__file__).parent / "hardware.yaml")


def read(file: Path) -> dict[str, Accelerator]:
    """The accelerators of a file, which may hold models instead. Raises CourseError for what is none."""
    try:
        found = {}
        for row in section(file, "accelerators", beside="models"):
            found.update(dict.fromkeys(names_of(row), _accelerator(row)))
        return found
    except UNREADABLE as error:
        raise CourseError("labs.hardware-unreadable", file=str(file), detail=told(error)) from error


def _accelerator(row: dict[str, Any]) -> Accelerator:
    unknown = row.keys() - NEEDED - OPTIONAL - {"name", "title", "aliases", "node", "source"}
    if unknown:
        raise ValueError(f"unknown: {', '.join(sorted(map(str, unknown)))}")
    whole(row, "node")
    words(row, "title", "source")
    for name in (*sorted(NEEDED), *sorted(OPTIONAL & row.keys())):
        value = row[name]
        if type(value) not in (int, float) or not 0 < value < LARGEST:
            raise ValueError(f"{name}: {value!r}")
    return Accelerator(
        name=row["name"],
        title=row.get("title", row["name"]),
        memory=int(row["memory"] * 10**9),
        bandwidth=row["bandwidth"] * 1e9,
        peak=row["peak"] * 1e12,
        achieved=row["achieved"] * 1e12 if "achieved" in row else None,
        link=row["link"] * 1e9,
        node=int(row["node"]),
        network=row.get("network", 0) * 1e9 / 8,
        host=row.get("host", 0) * 1e9,
        watts=row.get("watts"),
        source=row["source"],
        narrow={name: row[name] * 1e12 for name in NARROW if name in row},
        pair=row["pair"] * 1e9 if "pair" in row else None,
    )


# --- single numbers, for questions


def peak(*, name: str, precision: str = "bf16") -> float:
    """FLOP/s of dense products."""
    return accelerator(name).peak_of(precision)


def balance(*, name: str, precision: str = "bf16") -> float:
    """Operations for each byte of its memory above which products, and no longer the memory, set the time: the ridge of
    the roofline (Williams et al. 2009).
    """
    return peak(name=name, precision=precision) / accelerator(name).bandwidth


def all_reduce_seconds(*, name: str, size: float, ranks: int) -> float:
    """A ring all-reduce of `size` bytes over ranks of one node: each sends 2 (d - 1) / d of them."""
    return 2 * size * (ranks - 1) / ranks / accelerator(name).between(ranks)
