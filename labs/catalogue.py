"""The labs by name, and how each is run: ranks started, watched, and their reports put together."""

from __future__ import annotations

import difflib
import math
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from labs.options import ZeroOptions
from labs.telemetry.categories import CATEGORIES, Bytes
from translations import CourseError

if TYPE_CHECKING:
    from labs.telemetry.rows import Row

When = Literal["rest", "peak"]
MAX_RANKS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """A lab's name, its torchrun script, and the options that the script takes."""

    name: str
    unit: str
    script: Path
    options: type[ZeroOptions]


LABS = {"zero": Lab(name="zero", unit="04-zero-1", script=Path(__file__).parent / "zero.py", options=ZeroOptions)}


@dataclass(frozen=True, slots=True, kw_only=True)
class LabRun:
    """What came out of a lab: `data` is the JSON of `shardwise lab run`, `rows` the live series of each rank's
    memory.
    """

    data: dict[str, Any]
    rows: dict[int, tuple[Row, ...]] = field(repr=False)

    def bytes(self, category: str, *, when: When = "rest", rank: int = 0) -> int:
        """Bytes of one category on one rank, at rest (as the optimizer step begins) or at the category's own peak."""
        if category not in CATEGORIES:
            raise CourseError("labs.unknown-category", value=category, known=", ".join(CATEGORIES))
        count: int = self.data["ranks"][rank]["bytes"][when][category]
        return count

    def model_states(self, *, rank: int = 0) -> int:
        """Parameters, gradients and optimizer states at rest, together."""
        return sum(self.bytes(category, rank=rank) for category in ("parameters", "gradients", "optimizer_states"))

    def peak_total(self, *, rank: int = 0) -> int:
        """The most bytes that the rank held at one moment."""
        count: int = self.data["ranks"][rank]["peak_total"]
        return count

    def traffic(self, *, rank: int = 0) -> int:
        """Bytes of one optimizer step's collectives, counted by the unsharded buffer."""
        return sum(count["bytes"] for count in self.data["ranks"][rank]["collectives"].values())

    def collectives(self, *, rank: int = 0) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = self.data["ranks"][rank]["collectives"]
        return found

    @property
    def losses(self) -> list[float]:
        """Means over the global batch."""
        found: list[float] = self.data["ranks"][0]["losses"]
        return found

    @property
    def parameters(self) -> int:
        """P."""
        count: int = self.data["parameters"]
        return count


def lab(name: str) -> Lab:
    """The lab of that name. Raises CourseError that names the nearest."""
    if name not in LABS:
        nearest = difflib.get_close_matches(name, LABS, n=1)
        raise CourseError("labs.unknown-lab", name=name, known=", ".join(nearest or LABS))
    return LABS[name]


def formula(name: str, *, ranks: int, **options: Any) -> Bytes:
    """What the lab's formula says a rank holds at rest, before anything is run."""
    from labs.model import GPT
    from labs.planner.zero import pieces_of, predict
    from labs.zero import shape_of

    chosen = lab(name).options(**options).checked(ranks=ranks)
    import torch

    with torch.device("meta"):
        pieces = pieces_of(GPT(shape_of(chosen)).pieces)
    states = predict(pieces, stage=chosen.stage, ranks=ranks, precision=chosen.precision).states
    return Bytes(parameters=states.parameters, gradients=states.gradients, optimizer_states=states.optimizer_states)


def run_lab(
    name: str,
    *,
    ranks: int = 4,
    timeout: float = 300.0,
    on_row: Callable[[int, Row], None] | None = None,
    on_output: Callable[[int, str], None] | None = None,
    **options: Any,
) -> LabRun:
    """Run a lab on `ranks` ranks and put their reports together. Raises CourseError for options that cannot run,
    RankFailed for a run that breaks.
    """
    from labs.runner import run
    from labs.telemetry.rows import Reader, read

    chosen = lab(name)
    known = {entry.name for entry in fields(chosen.options)}
    for option in options:
        if option not in known:
            nearest = difflib.get_close_matches(option, known, n=1)
            raise CourseError("labs.unknown-option", name=option, lab=name, known=", ".join(nearest or sorted(known)))
    settings = chosen.options(**options).checked(ranks=ranks)
    if ranks > MAX_RANKS:
        raise CourseError("labs.too-many-ranks", value=ranks, most=MAX_RANKS)
    _fits(name, ranks=ranks, options=options)

    with tempfile.TemporaryDirectory(prefix="shardwise-") as place:
        folder = Path(place)
        watching = Reader(folder, ranks=ranks, on_row=on_row) if on_row else nullcontext()
        with watching:
            outcome = run(
                chosen.script,
                ranks=ranks,
                arguments=settings.arguments(),
                timeout=timeout,
                on_output=on_output,
                folder=folder,
            )
        rows = read(folder)
    alone = run(chosen.script, ranks=1, arguments=["--reference", str(ranks), *settings.arguments()], timeout=timeout)

    reports: list[dict[str, Any]] = [cast("dict[str, Any]", result.value) for result in outcome.ranks]
    counted = {report.pop("parameters") for report in reports}
    predicted = [report.pop("predicted") for report in reports]
    data = {
        "lab": name,
        "parameters": counted.pop(),
        "layout": {"dp": ranks, "zero": settings.stage, "precision": settings.precision},
        "global_batch": settings.global_batch(ranks),
        "reference_losses": cast("dict[str, Any]", alone.ranks[0].value)["losses"],
        "ranks": reports,
        "predicted": predicted[0],
    }
    return LabRun(data=data, rows=rows)


def _fits(name: str, *, ranks: int, options: dict[str, Any]) -> None:
    """Raises CourseError for a model whose states alone are more than the machine's memory: it could only be killed."""
    import psutil

    needed = ranks * formula(name, ranks=ranks, **options).model_states
    total = psutil.virtual_memory().total
    if needed > total:
        raise CourseError("labs.model-too-large", needed=math.ceil(needed / 10**9), total=total // 10**9)
