"""The labs by name, and how each is run: ranks started, watched, and their reports put together."""

from __future__ import annotations

import difflib
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from labs.options import OPTIONS
from labs.options.base import Options, TrainingOptions
from labs.stacks.environment import needs
from labs.telemetry.categories import CATEGORIES, Bytes
from translations import CourseError

if TYPE_CHECKING:
    from labs.telemetry.rows import Row, Series, Told

When = Literal["rest", "peak"]
MAX_RANKS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """A lab by its name, `labs/<name>.py` (or in a room of labs, such as `labs/cases/`), an ordinary torchrun script,
    and the options that the script takes.

    Beside `train` the module may have `at_rest(options, ranks=, rank=) -> Bytes`, what its formula says before anything
    is run, and `conduct(options, ...) -> LabRun`, for a lab that is more than one run of its script. With `reference`
    the script also trains the same on one process. `view` is what is shown while it runs: memory, timetable, traffic,
    timeline or reward. Where the lab `needs` packages of the real stacks, its ranks run in the environment that has
    them.
    """

    name: str
    unit: str
    reference: bool = True
    view: str = "memory"
    room: str = ""
    needs: tuple[str, ...] = ()

    @property
    def script(self) -> Path:
        return Path(__file__).parent / self.room / f"{self.name.replace('-', '_')}.py"

    @property
    def options(self) -> type[Options]:
        return OPTIONS[self.name]

    def function(self, name: str) -> Any:
        """A function of the lab's module; None where it has none of that name. Loads torch."""
        return getattr(import_module(".".join(filter(None, ("labs", self.room, self.script.stem)))), name, None)

    def python(self) -> Path | None:
        """The interpreter of its ranks; None for this one. Raises CourseError where what it needs is not installed."""
        return needs(*self.needs) if self.needs else None


LABS = {
    lab.name: lab
    for lab in (
        Lab(name="zero", unit="04-zero-1"),
        Lab(name="recompute", unit="08-recompute"),
        Lab(name="precision", unit="03-precision"),
        Lab(name="tensor", unit="09-tensor", view="traffic"),
        Lab(name="sequence", unit="09-tensor", view="traffic"),
        Lab(name="context", unit="12-context-expert", view="traffic"),
        Lab(name="expert", unit="12-context-expert", view="traffic"),
        Lab(name="incident", unit="18-judgement", view="timeline"),
        Lab(name="offload", unit="07-offload"),
        Lab(name="overlap", unit="13-communication"),
        Lab(name="pipeline", unit="10-pipeline", view="timetable"),
        Lab(name="checkpoint", unit="14-checkpoints", view="timeline"),
        Lab(name="elastic", unit="14-checkpoints", view="timeline"),
        Lab(name="grpo", unit="17-cases", view="reward", room="cases", reference=False),
        Lab(name="layout", unit="11-3d", view="traffic"),
        Lab(name="compile", unit="15-planning"),
        Lab(name="deepspeed-zero", unit="16-stacks", room="stacks", needs=("deepspeed",)),
        Lab(name="megatron-gpt", unit="16-stacks", room="stacks", needs=("megatron.core",), view="traffic"),
        Lab(name="fsdp", unit="16-stacks", room="stacks"),
        Lab(name="largest-batch", unit="16-stacks", room="stacks", reference=False),
        Lab(name="accelerated", unit="16-stacks", room="stacks", needs=("transformers", "accelerate", "deepspeed")),
        Lab(name="precision-gap", unit="16-stacks", room="stacks", needs=("deepspeed",)),
        Lab(name="bloom-training", unit="17-cases", view="traffic", room="cases"),
        Lab(name="bloom-conversion", unit="17-cases", view="traffic", room="cases"),
        Lab(name="bloom-inference", unit="17-cases", room="cases", reference=False),
        Lab(name="weight-only", unit="17-cases", room="cases", reference=False),
        Lab(name="batching", unit="17-cases", room="cases", reference=False),
        Lab(name="bloom-accuracy", unit="17-cases", room="cases", reference=False),
    )
}


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

    def traffic_by_axis(self, *, rank: int = 0) -> dict[str, int]:
        """The same bytes by the axis of the device mesh on which they move."""
        axes: dict[str, dict[str, dict[str, int]]] = self.data["ranks"][rank]["axes"]
        return {axis: sum(count["bytes"] for count in counts.values()) for axis, counts in axes.items()}

    def collectives(self, *, rank: int = 0) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = self.data["ranks"][rank]["collectives"]
        return found

    @property
    def losses(self) -> list[float]:
        """Means over the global batch, from the first rank that has any (of a pipeline, only the last stage)."""
        found: list[float] = next((report["losses"] for report in self.data["ranks"] if report["losses"]), [])
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


def options_of(name: str, options: Mapping[str, Any]) -> Options:
    """The lab's options. Raises CourseError for one that the lab doesn't have."""
    known = {entry.name for entry in fields(lab(name).options)}
    for option in options:
        if option not in known:
            nearest = difflib.get_close_matches(option, known, n=1)
            raise CourseError("labs.unknown-option", name=option, lab=name, known=", ".join(nearest or sorted(known)))
    return lab(name).options(**options)


def ranks_of(name: str, options: Mapping[str, Any], ranks: int | None) -> int:
    """How many ranks the lab runs on: as asked, or as the options ask, or 4."""
    wanted = options_of(name, options).ranks()
    if ranks is not None and wanted is not None and ranks != wanted:
        raise CourseError("labs.ranks-do-not-fit", value=ranks, wanted=wanted)
    return ranks if ranks is not None else (wanted if wanted is not None else 4)


def checked(name: str, options: Mapping[str, Any], *, ranks: int) -> Options:
    """The lab's options; CourseError for what cannot run on so many ranks."""
    settings = options_of(name, options).checked(ranks=ranks)
    if ranks > MAX_RANKS:
        raise CourseError("labs.too-many-ranks", value=ranks, most=MAX_RANKS)
    return settings


def formula(name: str, *, ranks: int | None = None, rank: int = 0, **options: Any) -> Bytes:
    """What the lab's formula says a rank holds at rest, before anything is run; CourseError where it has none."""
    found = expected(name, ranks=ranks, rank=rank, **options)
    if found is None:
        raise CourseError("labs.no-formula", lab=name)
    return found


def expected(name: str, *, ranks: int | None = None, rank: int = 0, **options: Any) -> Bytes | None:
    """The same; None where the lab has no such formula."""
    number = ranks_of(name, options, ranks)
    settings = checked(name, options, ranks=number)
    at_rest = lab(name).function("at_rest")
    found: Bytes | None = None if at_rest is None else at_rest(settings, ranks=number, rank=rank)
    return found


def run_lab(
    name: str,
    *,
    ranks: int | None = None,
    timeout: float = 300.0,
    on_row: Callable[[int, Told], None] | None = None,
    on_output: Callable[[int, str], None] | None = None,
    **options: Any,
) -> LabRun:
    """Run a lab and put its ranks' reports together. `ranks` is 4 where neither it nor a layout says otherwise.

    Raises CourseError for options that cannot run, RankFailed for a run that breaks.
    """
    from labs.runner import run
    from labs.telemetry import events
    from labs.telemetry.rows import Reader, memory_in, series

    chosen = lab(name)
    number = ranks_of(name, options, ranks)
    settings = checked(name, options, ranks=number)
    _fits(chosen, settings, ranks=number)
    python = chosen.python()
    if conduct := chosen.function("conduct"):
        conducted: LabRun = conduct(settings, ranks=number, timeout=timeout, on_row=on_row, on_output=on_output)
        return conducted

    with tempfile.TemporaryDirectory(prefix="shardwise-") as place:
        folder = Path(place)
        watching = Reader(folder, ranks=number, on_row=on_row) if on_row else nullcontext()
        with watching:
            outcome = run(
                chosen.script,
                ranks=number,
                arguments=settings.arguments(),
                timeout=timeout,
                on_output=on_output,
                folder=folder,
                python=python,
            )
        told, happened = series(folder), events.read(folder)
    rows, idle = memory_in(told), idle_share(told, ranks=number)
    reports = [cast("dict[str, Any]", result.value) for result in outcome.ranks]
    losses: list[float] = []
    if chosen.reference:
        words = ["--reference", str(number), *settings.arguments()]
        alone = run(chosen.script, ranks=1, arguments=words, timeout=timeout)
        losses = cast("dict[str, Any]", alone.ranks[0].value)["losses"]
    data = together(name, settings, reports, reference_losses=losses)
    if happened:
        data["events"] = [each.as_dict() for each in happened]
    if idle is not None:
        data["bubble_by_clock"] = idle
    return LabRun(data=data, rows=rows)


def idle_share(told: Series, *, ranks: int) -> float | None:
    """The bubble of the last whole step by the ranks' own clocks; None where no rank ran slots."""
    from labs.telemetry.rows import Slot
    from labs.telemetry.slots import Timetable, bubble

    taken = Timetable(ranks)
    for rank, own in told.items():
        for each in own:
            if isinstance(each, Slot):
                taken.take(rank, each)
    return None if taken.whole is None else bubble(taken.whole)


def together(
    name: str, settings: Options, reports: Sequence[dict[str, Any]], *, reference_losses: Sequence[float]
) -> dict[str, Any]:
    """The lab's JSON. What a report has under "whole" is of the whole run, and rank 0 says it."""
    ranks = len(reports)
    wholes = [report.pop("whole", {}) for report in reports]
    parameters = [report.pop("parameters") for report in reports]
    data: dict[str, Any] = {
        "lab": name,
        "parameters": parameters[0],
        "layout": settings.layout(ranks),
        "reference_losses": list(reference_losses),
        "ranks": list(reports),
        "predicted": reports[0].get("predicted"),
    }
    if isinstance(settings, TrainingOptions):
        data["global_batch"] = settings.global_batch(ranks)
    data.update(wholes[0])
    return data


def _fits(chosen: Lab, settings: Options, *, ranks: int) -> None:
    """Raises CourseError for a model whose states alone are more than the machine's memory: it could only be killed."""
    import psutil

    at_rest = chosen.function("at_rest")
    if at_rest is None:
        return
    needed = sum(at_rest(settings, ranks=ranks, rank=rank).model_states for rank in range(ranks))
    total = psutil.virtual_memory().total
    if needed > total:
        raise CourseError("labs.model-too-large", needed=math.ceil(needed / 10**9), total=total // 10**9)
