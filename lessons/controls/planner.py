"""Controls over the planner: a model, a cluster and a layout to change, and the figures that follow at once.

Python draws what the page shows, with the functions that the planner's commands ask; so they say the same. What cannot
run shows the planner's sentence in place of the figures, and what was chosen stays. The page keeps what it needs to
take a choice back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from labs.planner.configuration import OFFLOAD, RECOMPUTE, STACKS, Configuration, Stack
from labs.planner.hardware import Accelerator, accelerator, accelerators
from labs.planner.models import Model, model, models
from labs.strategies.schedules import SCHEDULES
from labs.strategies.schedules import schedule as orders_of
from labs.telemetry import drawing
from labs.telemetry.drawing import Svg
from lessons import figures
from lessons.figures import Figure
from translations import CourseError, Language, translator

FOLDER = Path(__file__).parent
Choice = Mapping[str, str]
"""What stands in the fields, as it is typed."""

DEGREES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 35, 48, 64, 96, 128)
WIDE = (*DEGREES, 192, 256, 384, 512, 1024, 2048)
MOST = {"gpus": 4096, "batch": 65536, "stages": 16, "micro_batches": 64, "chunks": 8}
"""The largest of what would otherwise take long to draw."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One thing to choose: from a list, as a whole number with a slider over some of them, or any number above zero.

    `optional` may be left empty.
    """

    value: str
    kind: str = "whole"
    among: tuple[str | int, ...] = ()
    optional: bool = False


def _names(rows: Mapping[str, Model] | Mapping[str, Accelerator]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.name for each in rows.values()))


@cache
def fields() -> Mapping[str, Field]:
    """By the names that the planner's commands have for them. The values are those with which BLOOM was trained."""
    batches = (64, 128, 256, 512, 1024, 1536, 1920, 2048, 3072, 4096)
    return {
        "model": Field(value="bloom-176b", kind="list", among=_names(models())),
        "gpu": Field(value="a100-80", kind="list", among=_names(accelerators())),
        "gpus": Field(value="384", among=(8, 16, 32, 64, 128, 256, 384, 512, 768, 1024, 1920, 2240, 3072, 4096)),
        "dp": Field(value="8", among=WIDE),
        "tp": Field(value="4", among=(1, 2, 4, 8, 16)),
        "pp": Field(value="12", among=DEGREES),
        "cp": Field(value="1", among=(1, 2, 4, 8, 16)),
        "zero": Field(value="1", kind="list", among=(0, 1, 2, 3)),
        "batch": Field(value="2048", among=batches),
        "micro_batch": Field(value="2", among=(1, 2, 4, 8, 16)),
        "sequence": Field(value="", among=(512, 1024, 2048, 4096, 8192, 16384, 32768, 131072), optional=True),
        "recompute": Field(value="full", kind="list", among=RECOMPUTE),
        "sequence_parallel": Field(value="no", kind="list", among=("no", "yes")),
        "interleave": Field(value="1", among=(1, 2, 3, 4, 5, 6, 8)),
        "stack": Field(value="own", kind="list", among=("own", *STACKS)),
        "offload": Field(value="none", kind="list", among=OFFLOAD),
        "tokens": Field(value="366e9", kind="number", optional=True),
        "price": Field(value="", kind="number", optional=True),
        "schedule": Field(value="1f1b", kind="list", among=SCHEDULES),
        "stages": Field(value="4", among=(1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16)),
        "micro_batches": Field(value="8", among=(1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)),
        "chunks": Field(value="1", among=(1, 2, 3, 4, 6, 8)),
    }


LAYOUT = (
    "model", "gpu", "dp", "tp", "pp", "cp", "zero", "batch", "micro_batch", "sequence", "recompute",
    "sequence_parallel", "interleave", "stack",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """What can be asked: its fields, and the figures of a choice of them."""

    fields: tuple[str, ...]
    figures: Callable[[Choice], tuple[Figure, ...]]


# --- from what is typed to what is asked


def _whole(chosen: Choice, name: str) -> int:
    typed = chosen[name].strip().replace("\u202f", "").replace(",", "")
    if not typed.isdecimal() or not 1 <= len(typed.lstrip("0")) <= 9:
        raise CourseError("lessons.control-whole", name=name.replace("_", "-"), given=chosen[name])
    if int(typed) > MOST.get(name, 10**9):
        raise CourseError("lessons.control-most", name=name.replace("_", "-"), most=MOST[name], given=chosen[name])
    return int(typed)


def _number(chosen: Choice, name: str) -> float | None:
    typed = chosen[name].strip()
    if not typed:
        return None
    try:
        value = float(typed.replace("\u202f", "").replace(",", ""))
    except ValueError:
        value = 0.0
    if not 0 < value < 1e30:
        raise CourseError("lessons.control-number", name=name, given=typed)
    return value


def _sequence(chosen: Choice) -> int | None:
    return _whole(chosen, "sequence") if chosen["sequence"].strip() else None


def _stack(chosen: Choice) -> Stack:
    named = _listed(chosen, "stack")
    return STACKS[model(chosen["model"]).stack if named == "own" else named]


def _listed(chosen: Choice, name: str) -> str:
    """One of a list. Raises CourseError naming what there is."""
    known = [str(each) for each in fields()[name].among]
    if chosen[name] not in known:
        raise CourseError("labs.unknown-choice", name=name, value=chosen[name], known=", ".join(known))
    return chosen[name]


def configuration(chosen: Choice) -> Configuration:
    """The layout that is chosen. Raises CourseError for what cannot run."""
    batch, dp, micro_batch = (_whole(chosen, name) for name in ("batch", "dp", "micro_batch"))
    if batch % (dp * micro_batch):
        raise CourseError("lessons.control-batch", batch=batch, dp=dp, micro_batch=micro_batch)
    return Configuration(
        model=model(chosen["model"]),
        dp=dp,
        tp=_whole(chosen, "tp"),
        pp=_whole(chosen, "pp"),
        cp=_whole(chosen, "cp"),
        zero=int(_listed(chosen, "zero")),
        micro_batch=micro_batch,
        micro_batches=batch // (dp * micro_batch),
        sequence=_sequence(chosen),
        recompute=_listed(chosen, "recompute"),
        sequence_parallel=_listed(chosen, "sequence_parallel") == "yes",
        interleave=_whole(chosen, "interleave"),
        stack=_stack(chosen),
        offload=_listed(chosen, "offload") if "offload" in chosen else "none",
    ).checked()


def _memory(chosen: Choice) -> tuple[Figure, ...]:
    return (figures.memory_of(configuration(chosen), gpu=accelerator(chosen["gpu"])),)


def _traffic(chosen: Choice) -> tuple[Figure, ...]:
    plan, gpu = configuration(chosen), accelerator(chosen["gpu"])
    return figures.links_of(plan, gpu=gpu), figures.roofline(plan, gpu=gpu)


def _throughput(chosen: Choice) -> tuple[Figure, ...]:
    plan, gpu = configuration(chosen), accelerator(chosen["gpu"])
    return (figures.step_of(plan, gpu=gpu, tokens=_number(chosen, "tokens"), price=_number(chosen, "price")),)


def _plan(chosen: Choice) -> tuple[Figure, ...]:
    drawn = figures.map_of_layouts(
        model(chosen["model"]),
        gpus=_whole(chosen, "gpus"),
        gpu=accelerator(chosen["gpu"]),
        batch=_whole(chosen, "batch"),
        sequence=_sequence(chosen),
        stack=_stack(chosen),
    )
    return (drawn,)


def _timetable(chosen: Choice) -> tuple[Figure, ...]:
    name = _listed(chosen, "schedule")
    stages, micro_batches, chunks = (_whole(chosen, each) for each in ("stages", "micro_batches", "chunks"))
    if micro_batches < stages:
        raise CourseError("lessons.control-fill", stages=stages, micro_batches=micro_batches)
    if chunks > 1 and name != "interleaved":
        raise CourseError("lessons.control-chunks", schedule=name)
    if name == "interleaved" and micro_batches % stages:
        nearest = max(stages, round(micro_batches / stages) * stages)
        raise CourseError("lessons.control-interleaved", stages=stages, micro_batches=micro_batches, nearest=nearest)
    orders = orders_of(name, ranks=stages, micro_batches=micro_batches, chunks=chunks)

    def draw(language: Language) -> Svg:
        title = translator(language)("lessons.control-timetable-title", bubble="{bubble}")
        return figures.schedule(orders, title=title)(language)

    return (draw,)


TOPICS: Mapping[str, Topic] = {
    "memory": Topic(fields=(*LAYOUT, "offload"), figures=_memory),
    "traffic": Topic(fields=LAYOUT, figures=_traffic),
    "throughput": Topic(fields=(*LAYOUT, "tokens", "price"), figures=_throughput),
    "plan": Topic(fields=("model", "gpu", "gpus", "batch", "sequence", "stack"), figures=_plan),
    "timetable": Topic(fields=("schedule", "stages", "micro_batches", "chunks"), figures=_timetable),
}


class PlannerControl(anywidget.AnyWidget):
    """Fields of one topic (memory, traffic, throughput, plan, timetable) and the figures of what is chosen.

    `values` are what stands in the fields at first, by the names of the planner's commands. Raises CourseError for a
    topic or a field that there is not; a value that cannot run is told in the control.
    """

    _esm = drawing.SAVING.read_text(encoding="utf-8") + (FOLDER / "planner.js").read_text(encoding="utf-8")
    _css = FOLDER / "planner.css"
    setup = traitlets.Dict().tag(sync=True)
    shown = traitlets.Dict().tag(sync=True)

    def __init__(
        self, topic: str, *, language: Language, settled: Callable[[str], None] | None = None, **values: Any
    ) -> None:
        super().__init__()
        if topic not in TOPICS:
            raise CourseError("lessons.control-unknown", value=topic, known=", ".join(TOPICS))
        if unknown := sorted(set(values) - set(TOPICS[topic].fields)):
            raise CourseError("lessons.control-no-field", value=unknown[0], known=", ".join(TOPICS[topic].fields))
        self.topic, self.language = TOPICS[topic], language
        self._settled = settled
        text = translator(language)

        def said(name: str) -> str:
            return text(f"lessons.control-{name}")

        own = {name: fields()[name] for name in self.topic.fields}
        first = {name: _typed(values[name]) if name in values else field.value for name, field in own.items()}
        self.setup = {
            "lang": language.code,
            "dir": language.direction,
            "name": said(f"name-{topic}"),
            "words": {name: said(name) for name in ("undo", "reset", "waits", "slider")},
            "fields": [
                {
                    "name": name,
                    "label": said(f"field-{name.replace('_', '-')}"),
                    "kind": field.kind,
                    "among": [{"value": str(each), "label": _label(name, str(each), text)} for each in field.among],
                    "empty": said("own" if name == "sequence" else "none") if field.optional else "",
                }
                for name, field in own.items()
            ],
            "first": first,
        }
        self.choice: dict[str, str] = first
        self.figures: tuple[Svg, ...] = ()
        self.choose(first)
        self.on_msg(self._received)

    def __repr__(self) -> str:
        """What a notebook shows where the widget cannot run."""
        return translator(self.language)("lessons.control-not-running")

    def choose(self, choice: Choice, *, turn: int = 0) -> None:
        """What a change of a field does: other figures, or the sentence that says why there are none."""
        self.choice = {name: str(choice.get(name, before))[:40] for name, before in self.choice.items()}
        try:
            drawn = tuple(figure(self.language) for figure in self.topic.figures(self.choice))
        except CourseError as error:
            self.shown = {"turn": turn, "html": "", "refused": error.in_language(translator(self.language))}
            return
        self.figures = drawn
        self.shown = {"turn": turn, "html": self.html, "refused": ""}

    @property
    def html(self) -> str:
        """The figures as they stand in a page."""
        return "".join(figure.html for figure in self.figures)

    def _received(self, _widget: Any, content: Any, _buffers: Any) -> None:
        match content:
            case {"do": "choose", "choice": dict(choice), "turn": int(turn)}:
                self.choose(choice, turn=turn)
            case {"do": "settle"} if self._settled is not None:
                self._settled(self.html)


def _typed(value: object) -> str:
    """A value as it stands in its field."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _label(field: str, value: str, text: Any) -> str:
    """A value of a list in words, where it isn't a name."""
    match field:
        case "model":
            return model(value).title if not value.startswith("gpt-") else value
        case "gpu":
            return accelerator(value).title
        case "sequence_parallel" | "recompute" | "schedule" | "offload":
            return str(text(f"lessons.control-{field.replace('_', '-')}-{value}"))
        case "stack" if value == "own":
            return str(text("lessons.control-stack-own"))
        case "zero":
            return f"ZeRO-{value}" if value != "0" else str(text("lessons.control-zero-0"))
    return value
