"""What the terminal shows of a lab while its ranks run, and after: their memory, a pipeline's timetable, traffic by
axis, and what happened to the run.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from labs.telemetry.categories import CATEGORIES
from labs.telemetry.drawing.lanes import happened, run_message
from labs.telemetry.drawing.legend import Words, listed_ranks
from labs.telemetry.drawing.palette import LOOKS, SLOTS
from labs.telemetry.drawing.predicted import header_beside, rows_beside
from labs.telemetry.drawing.rewards import reward_message, smoothed
from labs.telemetry.drawing.slots import UNLIKE
from labs.telemetry.drawing.traffic import axis_name, collectives, sorted_axes
from labs.telemetry.events import Event
from labs.telemetry.lanes import timeline
from labs.telemetry.rows import Row, Slot, Told, Traffic
from labs.telemetry.slots import Timetable, bubble, parse, span
from shardwise import fsdp_shown, stacks_shown
from shardwise.tables import show
from translations import Translator, formats

_INK, _LEVELS = "#1f2328", "▁▂▃▄▅▆▇█"


class Watch:
    """What the ranks have told; `take` and `output` come from threads that read what the ranks write."""

    def __init__(self, *, ranks: int, view: str, text: Translator, console: Console) -> None:
        self._ranks, self._view, self._text, self._console = ranks, view, text, console
        self._words = Words.of(text.language)
        self._rows: dict[int, Row | None] = dict.fromkeys(range(ranks))
        self._peaks = dict.fromkeys(range(ranks), 0)
        self._moved: dict[str, dict[int, int]] = {}
        self._events: list[Event] = []
        self._slots = Timetable(ranks)
        self._lock = threading.Lock()

    def take(self, rank: int, told: Told) -> None:
        with self._lock:
            match told:
                case Row():
                    self._rows[rank] = told
                    self._peaks[rank] = max(self._peaks.get(rank, 0), told.bytes.total)
                case Slot():
                    self._slots.take(rank, told)
                case Traffic():
                    self._moved.setdefault(told.axis, {})[rank] = told.bytes
                case _:
                    self._events.append(told)

    def output(self, rank: int, line: str) -> None:
        self._console.print(f"[{rank}] {line.rstrip()}", markup=False, highlight=False)

    @property
    def bubble(self) -> float | None:
        """As the ranks ran it, in their latest whole step; None where none has."""
        with self._lock:
            whole = self._slots.whole
        return None if whole is None else bubble(whole)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        with self._lock:
            match self._view:
                case "reward":
                    yield from rewards(
                        [each.values for each in self._events if each.name == "rewarded" and each.rank == 0],
                        self._words,
                        width=options.max_width,
                    )
                case "timetable":
                    yield from self._filling(options.max_width)
                case "traffic":
                    yield _so_far(self._moved, ranks=self._ranks, words=self._words)
                case "timeline":
                    yield from _told(self._events, ranks=self._ranks, words=self._words)
                case _:
                    yield from self._held(console, options.max_width)

    def _held(self, console: Console, width: int) -> Iterator[RenderableType]:
        text = self._text
        columns = [
            _Column(rank=rank, held=None, highest=0, phase=text("shardwise.lab-starting"))
            if row is None
            else _Column(
                rank=rank,
                held=row.bytes.as_dict(),
                highest=self._peaks[rank],
                phase=text(f"labs.telemetry-phase-{row.phase}") if row.phase else "",
            )
            for rank, row in self._rows.items()
        ]
        yield from _memory(columns, text, title=text("shardwise.lab-now"), console=console, width=width)

    def _filling(self, width: int) -> Iterator[RenderableType]:
        """The step that is under way, to the scale of time."""
        step = self._slots.latest
        begun, ended = span(step)
        whole = self._slots.whole
        length = ended - begun if whole is None else max(ended - begun, span(whole)[1] - span(whole)[0])
        names = [self._words("rank", rank=rank) for rank in step]
        room = width - max(map(len, names)) - 2
        yield Text(self._words("slot-under-way" if length else "slot-nothing"), style="bold")
        for name, cells in zip(names, step.values(), strict=True):
            line = Text(f"{name}  ")
            for cell in cells if length else ():
                start = round((cell.start - begun) / length * room)
                end = max(start + 1, round(((ended if cell.end is None else cell.end) - begun) / length * room))
                line.append("·" * (len(name) + 2 + start - len(line)), style="dim")
                line.append(cell.name[: end - start].ljust(end - start, "─"), style=_look(cell.name))
            yield line


@contextmanager
def watching(*, ranks: int, view: str, text: Translator) -> Iterator[Watch]:
    """The lab's view, which follows the run on the error stream; where that is no terminal, only the ranks' output."""
    console = Console(stderr=True)
    watch = Watch(ranks=ranks, view=view, text=text, console=console)
    if not console.is_terminal:
        yield watch
        return
    with Live(watch, console=console, refresh_per_second=10, transient=True):
        yield watch


def report(data: Mapping[str, Any], text: Translator, *, measured: float | None = None) -> None:
    """What a lab has found: what happened, the timetable, bytes by rank at rest, losses beside the single process,
    traffic. `measured` is a pipeline's bubble as its ranks ran it.
    """
    console, words = Console(), Words.of(text.language)
    if "curve" in data:
        for line in rewards(data["curve"], words, width=console.width):
            console.print(line, highlight=False)
    elif "events" in data:
        for line in _told([Event.of(each) for each in data["events"]], ranks=len(data["ranks"]), words=words):
            console.print(line, highlight=False)
    if "timetable" in data:
        for line in timetable(data["timetable"], words, width=console.width):
            console.print(line, highlight=False)
        console.print(_bubble(data["bubble"], measured, words), highlight=False)
        if measured is not None and measured > data["bubble"] + UNLIKE:
            console.print(words("slot-short"), highlight=False)
    reports = [each for each in data["ranks"] if "bytes" in each]
    if reports:
        columns = [
            _Column(
                rank=each["rank"],
                held=each["bytes"]["rest"],
                highest=each.get("peak_total", sum(each["bytes"]["peak"].values())),
            )
            for each in reports
        ]
        for part in _memory(columns, text, title=text("shardwise.lab-at-rest"), console=console, width=console.width):
            console.print(part)
    losses: list[float] = next((each["losses"] for each in data["ranks"] if each.get("losses")), [])
    if losses and data.get("reference_losses"):
        first, last, alone = (f"{value:.4f}" for value in (losses[0], losses[-1], data["reference_losses"][-1]))
        console.print(text("shardwise.lab-losses", first=first, last=last, alone=alone), highlight=False)
    if data.get("lab") == "deepspeed-zero":
        show(_stages(data, text), console, text.language)
        for note in _stage_notes(data, text):
            console.print(note, highlight=False)
    for name, shown in (
        ("accelerated", stacks_shown.accelerated),
        ("precision-gap", stacks_shown.gap),
        ("fsdp", fsdp_shown.shown),
    ):
        for each in shown(data, text) if data.get("lab") == name else ():
            console.print(each, highlight=False)
    if compared := rows_beside(data, words):
        console.print(_beside(compared, words))
    if data.get("lab") == "megatron-gpt":
        show(_layers(data, text), console, text.language)
        for note in _megatron_notes(data, text, words):
            console.print(note, highlight=False)
    if "compile" in data:
        show(_compiled(data["compile"], text), console, text.language)
        console.print(text("shardwise.lab-compile-tracker"), highlight=False)
    if any(each.get("axes") for each in data["ranks"]):
        console.print(_traffic(data, text, words))
    if "results" in data and data.get("lab") not in ("accelerated", "precision-gap"):
        console.print(_results(data["results"], text))


def _results(rows: Sequence[Mapping[str, Any]], text: Translator) -> Table:
    """What a case has found."""
    table = Table(title=text("shardwise.lab-found"), title_justify="left")
    table.add_column(text("shardwise.lab-found-what"))
    table.add_column(text("shardwise.lab-found-value"), justify="right", no_wrap=True)
    for row in rows:
        table.add_row(text(f"labs.result-{row['name']}", of=row["of"]), amount(row["value"], row["unit"], text))
    return table


def amount(value: float, unit: str, text: Translator) -> str:
    """A number with its unit, as `labs.cases.rows` names units."""
    match unit:
        case "B":
            return formats.bytes_(int(value), text.language)
        case "share":
            return formats.percent(value, text.language)
        case "s":
            return formats.duration(value, text.language)
        case _:
            return formats.number(value, text.language) + (" ×" if unit == "x" else "")


# --- DeepSpeed


def _stages(data: Mapping[str, Any], text: Translator) -> Table:
    """Each stage under DeepSpeed and under ours: model states at rest, the peak, what a step moved."""
    title = text("shardwise.lab-deepspeed-title", ranks=len(data["ranks"]))
    table = Table(title=title, title_justify="left")
    table.add_column(text("shardwise.lab-deepspeed-stage"))
    table.add_column(text("shardwise.lab-deepspeed-who"))
    kept = ("parameters", "gradients", "optimizer_states")
    headings = [text(f"labs.telemetry-category-{each.replace('_', '-')}") for each in kept]
    for heading in (*headings, text("shardwise.lab-highest"), text("shardwise.lab-deepspeed-traffic")):
        table.add_column(heading, justify="right")
    for each in data["stages"]:
        for who, name in (("ours", text("shardwise.lab-deepspeed-ours")), ("deepspeed", "DeepSpeed")):
            found = each[who]
            amounts = [*(found["rest"][category] for category in kept), found["peak_total"], found["traffic"]]
            table.add_row(str(each["stage"]), name, *(formats.bytes_(size, text.language) for size in amounts))
    return table


def _stage_notes(data: Mapping[str, Any], text: Translator) -> Iterator[str]:
    """By how much losses differ, and whether DeepSpeed counted a step too many."""
    alone, stages = data["reference_losses"], data["stages"]
    off = {
        who: max(abs(a - b) for each in stages for a, b in zip(each[who]["losses"], alone, strict=True))
        for who in ("ours", "deepspeed")
    }
    yield text("shardwise.lab-deepspeed-differs", differs=f"{off['ours']:.1e}", theirs=f"{off['deepspeed']:.1e}")
    yield from _why(data, text)
    if any(each["deepspeed"]["adam_steps"] == len(alone) + 1 for each in stages):
        yield text("shardwise.lab-deepspeed-empty-step")


def _beside(rows: Sequence[Sequence[str]], words: Words) -> Table:
    """What the formulas say of a rank, and what was measured on it."""
    table = Table(title=words("beside-title"), title_justify="left")
    for number, name in enumerate(header_beside(words)):
        table.add_column(name, justify="right" if number >= 2 else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def _why(data: Mapping[str, Any], text: Translator) -> Iterator[str]:
    """Where the bytes of the two part, each with what it comes to here."""
    from labs.planner.deepspeed import BUCKET, ELEMENT, MASTER

    by_stage = {each["stage"]: each for each in data["stages"]}
    precision = data["layout"]["precision"]

    def size(count: float) -> str:
        return formats.bytes_(round(count), text.language)

    if precision == "fp32" and any(by_stage):
        yield text("shardwise.lab-deepspeed-why-master", size=size(MASTER * data["parameters"] / len(data["ranks"])))
    if any(by_stage):
        bucket = by_stage[max(by_stage)]["deepspeed"]["predicted"]["communication"]
        yield text("shardwise.lab-deepspeed-why-bucket", size=size(bucket), own=size(ELEMENT[precision] * BUCKET))
    for stages, id in (((1, 2), "why-all-reduce"), ((3,), "why-gather")):
        apart = [
            by_stage[each]["deepspeed"]["traffic"] - by_stage[each]["ours"]["traffic"]
            for each in stages
            if each in by_stage
        ]
        if apart and (apart[-1] > 0) == (id == "why-all-reduce") and len(data["ranks"]) > 1:
            yield text(f"shardwise.lab-deepspeed-{id}", size=size(abs(apart[-1])))


# --- Megatron Core


def _layers(data: Mapping[str, Any], text: Translator) -> Table:
    """Megatron's layers and ours against torch's."""
    table = Table(title=text("shardwise.lab-megatron-layers"), title_justify="left")
    for heading in (text("shardwise.lab-megatron-layer"), "Megatron Core", text("shardwise.lab-megatron-ours")):
        table.add_column(heading)
    for name in data["ranks"][0]["layers"]:
        worst = {who: max(each["layers"][name][who] for each in data["ranks"]) for who in ("megatron", "ours")}
        table.add_row(name, f"{worst['megatron']:.1e}", f"{worst['ours']:.1e}")
    return table


def _megatron_notes(data: Mapping[str, Any], text: Translator, words: Words) -> Iterator[str]:
    """How far the losses are apart, what moved on each axis, and what was replaced on a CPU."""
    alone = data["reference_losses"]
    off, moved = {}, {}
    for who, reports in (("theirs", data["ranks"]), ("ours", data["ours"])):
        losses = next(each["losses"] for each in reports if each["losses"])
        off[who] = f"{max(abs(a - b) for a, b in zip(losses, alone, strict=True)):.1e}"
        # Megatron calls the collectives of an axis of one rank too, where nothing moves.
        split = {"tensor": data["layout"]["tp"] > 1, "pipeline": data["layout"]["pp"] > 1}
        axes = sorted_axes({axis: {} for each in reports for axis in each["axes"] if split[axis]})
        moved[who] = ", ".join(
            f"{axis_name(axis, words)} "
            + words.bytes(sum(count["bytes"] for each in reports for count in each["axes"].get(axis, {}).values()))
            for axis in axes
        )
    yield text("shardwise.lab-megatron-losses", **off)
    yield text("shardwise.lab-megatron-traffic", **moved)
    if patches := data["ranks"][0]["patches"]:
        told = ", ".join(f"{name} ({count})" for name, count in patches.items())
        yield text("shardwise.lab-megatron-patches", patches=told)


# --- torch.compile


def _compiled(found: Mapping[str, Any], text: Translator) -> Table:
    """Eager beside compiled: the first call, the later ones, operations and memory of a step."""
    language, seconds, count = text.language, found["seconds"], found["operations"]
    table = Table(title=text("shardwise.lab-compile-title", backend=found["backend"]), title_justify="left")
    for heading in ("", text("shardwise.lab-compile-eager"), text("shardwise.lab-compile-compiled")):
        table.add_column(heading)
    first = formats.number(found["first_in_eager_steps"], language)
    faster = formats.number(found["speedup"], language)
    together = text("shardwise.lab-compile-count", fused=count["fused"], library=count["library"])
    peaks = [formats.bytes_(found["peak"][name], language) for name in ("eager", "compiled")]
    table.add_row(text("shardwise.lab-compile-first"), "", text("shardwise.lab-compile-steps", steps=first))
    table.add_row(text("shardwise.lab-compile-later"), "1", text("shardwise.lab-compile-faster", times=faster))
    table.add_row(text("shardwise.lab-compile-graphs"), "", f"{found['graphs']}, {found['graph_breaks']}")
    table.add_row(text("shardwise.lab-compile-operations"), str(count["eager"]), together)
    table.add_row(text("shardwise.lab-compile-peak"), *peaks)
    table.add_row(text("shardwise.lab-compile-differs"), "", f"{found['largest_difference']:.1e}")
    table.caption = text("shardwise.lab-compile-seconds", first=formats.duration(seconds["first"], language))
    return table


# --- a pipeline


def timetable(table: Sequence[Sequence[str | None]], words: Words, *, width: int) -> Iterator[Text]:
    """A line for each rank, a cell for each slot: what is idle is a dot. In parts, one under the other, where the width
    has no room for all slots.
    """
    names = [words("rank", rank=rank) for rank in range(len(table))]
    lead = max(map(len, names)) + 2
    wide = max((len(slot) / _taken(row, slot) for row in table for slot in row if slot), default=1)
    cell = math.ceil(wide)
    slots, part = max(map(len, table), default=0), max(1, (width - lead) // cell)
    for start in range(0, slots, part):
        for name, row in zip(names, table, strict=True):
            line = Text(name.ljust(lead))
            at = start
            while at < min(start + part, len(row)):
                slot, until = row[at], at + 1
                while until < min(start + part, len(row)) and slot is not None and row[until] == slot:
                    until += 1
                if slot is None:
                    line.append("·".ljust(cell), style="dim")
                else:
                    line.append(slot[: cell * (until - at)].ljust(cell * (until - at), "─"), style=_look(slot))
                at = until
            yield line
        yield Text("")


def _taken(row: Sequence[str | None], slot: str) -> int:
    return sum(each == slot for each in row)


def _look(slot: str) -> str:
    return f"{_INK} on {SLOTS[parse(slot)[0]].colour}"


def _bubble(expected: float, measured: float | None, words: Words) -> str:
    if measured is None:
        return words.sentence(words("slot-bubble-schedule", expected=words.percent(expected)))
    said = words("slot-bubble-formula", measured=words.percent(measured), expected=words.percent(expected))
    return words.sentence(said)


# --- traffic


def _so_far(moved: Mapping[str, Mapping[int, int]], *, ranks: int, words: Words) -> Table:
    table = Table(title=words("axis-so-far" if moved else "axis-nothing"), title_justify="left")
    table.add_column(words("table-axis"), no_wrap=True)
    for rank in range(ranks):
        table.add_column(str(rank), justify="right", no_wrap=True, min_width=8)
    for axis in sorted_axes(moved):
        table.add_row(axis_name(axis, words), *(words.bytes(moved[axis].get(rank, 0)) for rank in range(ranks)))
    return table


def _traffic(data: Mapping[str, Any], text: Translator, words: Words) -> Table:
    """The collectives of one optimizer step; ranks for which they are the same share a row."""
    from labs.telemetry.live.picture import axes_of

    table = Table(title=text("shardwise.lab-traffic"), title_justify="left")
    for column in ("axis", "collective", "ranks"):
        table.add_column(words(f"table-{column}"))
    for column in ("calls", "bytes"):
        table.add_column(words(f"table-{column}"), justify="right", no_wrap=True)
    for axis, collective, ranks, count, size in collectives(axes_of(data)):
        row = (axis_name(axis, words), collective, listed_ranks(ranks, words), str(count), words.bytes(size))
        table.add_row(*row)
    return table


# --- rewards


def rewards(curve: Sequence[Mapping[str, float]], words: Words, *, width: int) -> Iterator[Text]:
    """What has become of the mean reward, and a line of it: as high as the place in the range from 0 to 2."""
    yield Text(words.sentence(reward_message(curve, words)), style="bold")
    values = smoothed([point["reward"] for point in curve])
    room = max(1, min(len(values), width - 2))
    chosen = [values[place * len(values) // room] for place in range(room)] if values else []
    yield Text("".join(_LEVELS[min(7, int(value / 2 * 8))] for value in chosen), style=LOOKS["parameters"].colour)


# --- what happened


def _told(events: Sequence[Event], *, ranks: int, words: Words) -> Iterator[Text]:
    """One line for each thing that happened, under what it comes to."""
    run = timeline(events, ranks=ranks)
    yield Text(words.sentence(run_message(run, words)), style="bold")
    for at, what in happened(run, words):
        yield Text(f"{words.time(at):>10}  {what}")


# --- memory


@dataclass(frozen=True, kw_only=True)
class _Column:
    """What one rank holds; `held` is None before it has told anything, `phase` None where the table has no such row."""

    rank: int
    held: Mapping[str, int] | None
    highest: int
    phase: str | None = None


def _memory(
    columns: Sequence[_Column], text: Translator, *, title: str, console: Console, width: int
) -> Iterator[Table | Text]:
    """The categories as rows and the ranks as columns; those that the width has no room for are counted below."""
    shown = len(columns)
    table = _memory_table(columns, text, title)
    while shown > 1 and Measurement.get(console, console.options.update(max_width=10_000), table).maximum > width:
        shown -= 1
        table = _memory_table(columns[:shown], text, title)
    yield table
    if more := len(columns) - shown:
        yield Text(text("shardwise.lab-more", count=more))


def _memory_table(columns: Sequence[_Column], text: Translator, title: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column(text("shardwise.rank"), no_wrap=True)
    for each in columns:
        table.add_column(str(each.rank), justify="right", no_wrap=True, min_width=8)

    def row(name: str, amounts: Iterable[int], style: str) -> None:
        cells = [
            "·" if each.held is None else formats.bytes_(amount, text.language)
            for each, amount in zip(columns, amounts, strict=True)
        ]
        table.add_row(Text(name, style=style), *cells)

    held = [each.held or dict.fromkeys(CATEGORIES, 0) for each in columns]
    for category in CATEGORIES:
        name = text(f"labs.telemetry-category-{category.replace('_', '-')}")
        row(name, [each[category] for each in held], LOOKS[category].colour)
    row(text("shardwise.total"), [sum(each[category] for category in CATEGORIES) for each in held], "bold")
    row(text("shardwise.lab-highest"), [each.highest for each in columns], "")
    if any(each.phase is not None for each in columns):
        table.add_row(text("shardwise.lab-phase"), *(each.phase or "" for each in columns))
    return table
