"""What the planner's commands show to people: bars in tables, and a sentence on what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from labs.telemetry.drawing.palette import LOOKS
from shardwise.tables import show
from translations import Translator, formats

if TYPE_CHECKING:
    from labs.planner.beside import Beside
    from labs.planner.compared import Printed
    from labs.planner.configuration import Configuration, Stack
    from labs.planner.estimators import Compared
    from labs.planner.hardware import Accelerator
    from labs.planner.layouts import Placed
    from labs.planner.links import Axis
    from labs.planner.memory import Memory
    from labs.planner.search import Ranked
    from labs.planner.simulation import Implementation, Simulated
    from labs.planner.throughput import Throughput

_BARS = 14
"""Columns of the bars at 80 columns; wider where there is room."""


def memory(
    found: Memory, plan: Configuration | None, *, stack: Stack, zero_over: int | None, gpu: Accelerator | None,
    text: Translator,
) -> None:  # fmt: skip
    """The bars of the fullest rank, whether it fits, and what would make it lighter. `zero_over` is over how many ranks
    ZeRO shards, if it does.
    """
    console, language = Console(), text.language
    table = Table(title=text("shardwise.plan-worst", stage=found.stage, rank=found.rank), title_justify="left")
    for heading in ("bar", "bytes", "", "shards"):
        table.add_column(text(f"shardwise.plan-{heading}") if heading else "", no_wrap=not heading)
    bars = found.bars.as_dict()
    largest = max(bars.values()) or 1
    width = max(_BARS, min(40, console.width - 66))
    for name, amount in bars.items():
        if plan is None and not amount:
            continue
        colour = LOOKS[name].colour if name in LOOKS else LOOKS["communication"].colour
        bar = Text("█" * round(width * amount / largest), style=colour)
        shards = text(f"shardwise.plan-shards-{_shards(name)}")
        table.add_row(_bar_name(name, text), formats.bytes_(amount, language), bar, shards)
    table.add_row(text("shardwise.total"), formats.bytes_(found.total, language), "", "", style="bold")
    show(table, console, text.language)
    parts = {"parameter": stack.parameter, "gradient": stack.gradient, "states": stack.optimizer_states}
    console.print(text("shardwise.plan-stack", stack=stack.name, total=stack.total, **parts), highlight=False)
    if gpu is not None:
        room = formats.bytes_(gpu.memory, language)
        fits = "plan-fits" if found.fits else "plan-fits-not"
        console.print(text(f"shardwise.{fits}", gpu=gpu.title, room=room), highlight=False)
    if zero_over == 1:
        console.print(text("shardwise.plan-zero-saves-nothing", dp=zero_over), highlight=False)
    if found.fits is False:
        most = max(bars, key=lambda name: bars[name])
        share = formats.percent(bars[most] / found.total, language)
        size = formats.bytes_(bars[most], language)
        console.print(
            text("shardwise.plan-attack", bar=_bar_name(most, text), bytes=size, share=share), highlight=False
        )
    if found.fits is False and plan is not None and gpu is not None:
        _advice(plan, console, text, over=found.total - gpu.memory)


def _bar_name(name: str, text: Translator) -> str:
    return text(f"shardwise.plan-bar-{name.replace('_', '-')}")


def _shards(bar: str) -> str:
    """Which axis makes a bar smaller."""
    return {
        "parameters": "zero-3",
        "gradients": "zero-2",
        "optimizer_states": "zero-1",
        "activations": "recompute",
        "gathered": "tensor",
        "logits": "tensor",
    }.get(bar, "none")


def _advice(plan: Configuration, console: Console, text: Translator, *, over: int) -> None:
    """What saves most, with what each costs; `over` is how much is too much."""
    from labs.planner.memory import advice

    console.print(text("shardwise.plan-helps"), highlight=False)
    for each in advice(plan)[:4]:
        saves = formats.bytes_(each.saves, text.language)
        id = "advice-enough" if each.saves >= over else "advice"
        flag = f"--{each.change} {each.value}".strip()
        console.print("  " + text(f"shardwise.plan-{id}", change=flag, saves=saves), highlight=False)
        console.print(Padding(text(f"shardwise.plan-cost-{each.cost}"), (0, 0, 0, 4)), highlight=False)


def traffic(
    found: Sequence[Axis], plan: Configuration, *, computing: float, gpu: Accelerator, text: Translator
) -> None:
    """Each axis with its link, and each kind of link with all that it carries; a full one is named."""
    from labs.planner.links import bottleneck, busy, in_the_open

    console, language = Console(), text.language
    table = Table(title=text("shardwise.plan-traffic-title", gpu=gpu.title), title_justify="left")
    for heading in ("axis", "bytes", "link", "seconds", "open"):
        table.add_column(text(f"shardwise.plan-{heading}"))
    open_ = in_the_open(found, computing=computing)
    sending = [axis for axis in found if axis.bytes]
    for axis in sending:
        moved = formats.bytes_(axis.bytes, language)
        times = [formats.duration(each, language) for each in (axis.seconds, open_[axis.name])]
        name, link = text(f"shardwise.plan-axis-{axis.name}"), text(f"shardwise.plan-link-{axis.link}")
        table.add_row(name, moved, link, *times)
    show(table, console, text.language)
    if not sending:
        console.print(text("shardwise.plan-sends-nothing"), highlight=False)
    for axis in sending:
        name = text(f"shardwise.plan-axis-{axis.name}")
        reason = axis.name
        if reason == "data" and plan.micro_batches == 1:
            reason = "data-once"
        elif reason == "data" and plan.zero >= 2:
            reason = f"data-zero-{plan.zero}"
        console.print(f"{name}: " + text(f"shardwise.plan-overlap-{reason}"), highlight=False)
    links = Table(title=text("shardwise.plan-links-title"), title_justify="left")
    for heading in ("link", "rate", "bytes", "seconds", "of-computing"):
        links.add_column(text(f"shardwise.plan-{heading}"), justify="left" if heading == "link" else "right")
    for each in busy(found, gpu=gpu):
        rate = text("shardwise.plan-a-second", bytes=formats.bytes_(each.rate, language))
        time, share = formats.duration(each.seconds, language), formats.percent(each.seconds / computing, language)
        style = "bold" if each.seconds > computing and each.link != "host" else ""
        name = text(f"shardwise.plan-link-{each.link}")
        links.add_row(name, rate, formats.bytes_(each.bytes, language), time, share, style=style)
    show(links, console, text.language)
    console.print(text("shardwise.plan-computing", time=formats.duration(computing, language)), highlight=False)
    full = bottleneck(found, computing=computing)
    axis_name = "" if full is None else text(f"shardwise.plan-axis-{full}")
    id = "plan-no-bottleneck" if full is None else "plan-bottleneck"
    console.print(text(f"shardwise.{id}", axis=axis_name), highlight=False)


def throughput(found: Throughput, *, text: Translator) -> None:
    """The step, what share of the hardware it uses, and what the run costs."""
    console = Console()
    language = text.language
    table = Table(show_header=False)
    table.add_row(text("shardwise.plan-step"), formats.duration(found.seconds_per_step, language))
    table.add_row(text("shardwise.plan-bubble"), formats.percent(found.bubble, language))
    table.add_row(text("shardwise.plan-rate-each"), formats.number(found.tflops_per_gpu, language))
    table.add_row(text("shardwise.plan-mfu"), formats.percent(found.mfu, language))
    table.add_row(text("shardwise.plan-hfu"), formats.percent(found.hfu, language))
    table.add_row(text("shardwise.plan-tokens-a-day"), formats.number(found.tokens_a_day, language))
    for name, value in (
        ("days", found.days), ("gpu-hours", found.gpu_hours), ("cost", found.cost), ("energy", found.energy_kwh),
        ("site", found.site_kwh if found.site_kwh != found.energy_kwh else None), ("co2", found.co2_kg),
    ):  # fmt: skip
        if value is not None:
            table.add_row(text(f"shardwise.plan-{name}"), formats.number(value, language))
    show(table, console, text.language)
    if found.hfu > 1:
        console.print(text("shardwise.plan-above-peak"), highlight=False)


def plan(found: Sequence[Ranked], *, run: Placed | None, text: Translator) -> None:
    """The layouts, the fastest first, why each is behind the one before, and where a published one stands."""
    console, language = Console(), text.language
    table = Table(
        title=text("shardwise.plan-title"), title_justify="left", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True
    )
    for heading in (
        "dp",
        "tp",
        "pp",
        "ZeRO",
        text("shardwise.plan-micro").replace("-", "-\n"),
        text("shardwise.plan-chunks"),
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("recomputed", "step-seconds", "bytes", "why"):
        table.add_column(text(f"shardwise.plan-{heading}"), justify="right" if heading == "step-seconds" else "left")
    why = ""
    for each in found:
        chosen = each.plan
        numbers = (chosen.dp, chosen.tp, chosen.pp, chosen.zero, chosen.micro_batch, chosen.interleave)
        published = run is not None and (chosen.dp, chosen.tp, chosen.pp) == run.published.degrees
        table.add_row(
            *map(str, numbers),
            text(f"shardwise.plan-recompute-{chosen.recompute}"),
            formats.number(each.seconds, language),
            formats.bytes_(each.bytes, language),
            why,
            style="bold" if published else "",
        )
        why = text(f"shardwise.plan-why-{each.why_next_lost}") if each.why_next_lost else ""
    show(table, console, text.language)
    if any(each.plan.sequence_parallel for each in found):
        console.print(text("shardwise.plan-sequence-too"), highlight=False)
    if run is not None:
        _published(run, console, text)


def _published(run: Placed, console: Console, text: Translator) -> None:
    """The layout that a paper ran: its place here, its place among layouts of its kind, and why it is not the first."""
    language, layout = text.language, run.published
    degrees = {"dp": layout.dp, "tp": layout.tp, "pp": layout.pp, "micro_batch": layout.micro_batch}
    console.print(text("shardwise.plan-published", source=layout.source, **degrees), highlight=False)
    for id, place in (("free", run.free), ("then", run.then)):
        slower = formats.percent(place.slower, language, digits=2)
        told = text(f"shardwise.plan-published-{id}", place=place.number, of=place.of)
        if place.number > 1:
            told += " " + text("shardwise.plan-published-slower", share=slower)
        console.print(Padding(told, (0, 0, 0, 2)), highlight=False)
    rates = {"predicted": formats.number(run.tflops, language), "measured": formats.number(layout.tflops, language)}
    console.print(Padding(text("shardwise.plan-published-rate", **rates), (0, 0, 0, 2)), highlight=False)
    if run.explained != "first":
        console.print(Padding(text(f"shardwise.plan-knew-{run.explained}"), (0, 0, 0, 2)), highlight=False)


def estimators(found: Sequence[Compared], *, text: Translator) -> None:
    """Each estimator beside ours, and a sentence for each difference."""
    console = Console()
    table = Table(title=text("shardwise.plan-estimators-title"), title_justify="left")
    for heading in ("estimator", "says", "ours", "counted"):
        table.add_column(text(f"shardwise.plan-{heading}"))
    for each in found:
        sizes = [formats.bytes_(number, text.language) for number in (each.bytes, each.ours)]
        table.add_row(_ESTIMATORS[each.name], *sizes, text(f"shardwise.plan-counts-{each.counts}"))
    show(table, console, text.language)
    for each in found:
        console.print(f"{_ESTIMATORS[each.name]}:", style="bold", highlight=False)
        for reason in each.differs:
            console.print("  " + text(f"shardwise.plan-differs-{reason}"), highlight=False)


def published_estimates(found: Sequence[Printed], *, text: Translator) -> None:
    """Estimators' own published outputs beside ours, with the bytes that each reason makes."""
    console, language = Console(), text.language
    shown: set[tuple[str, float, int]] = set()
    for each in found:
        if each.estimator not in {estimator for estimator, _, _ in shown}:
            console.print(_ESTIMATORS[each.estimator], style="bold", highlight=False)
        if (key := (each.estimator, each.bytes, each.ours)) in shown:
            continue  # the same numbers for another degree
        shown.add(key)
        sizes = {"theirs": formats.bytes_(each.bytes, language), "ours": formats.bytes_(each.ours, language)}
        sizes["printed"] = formats.bytes_(each.bytes, language, binary=each.binary)
        id = "plan-printed-binary" if each.binary else "plan-printed"
        console.print(Padding(text(f"shardwise.{id}", case=each.case, **sizes), (0, 0, 0, 2)), highlight=False)
        for reason in each.reasons:
            sign = "+" if reason.bytes > 0 else "−"
            amount = f"{sign}{formats.bytes_(abs(reason.bytes), language)}"
            words = text(f"shardwise.plan-differs-{reason.id}")
            told = text("shardwise.plan-printed-reason", amount=amount, reason=words)
            console.print(Padding(told, (0, 0, 0, 4)), highlight=False)
        if not each.reasons:
            console.print(Padding(text("shardwise.plan-printed-same"), (0, 0, 0, 4)), highlight=False)
    console.print(text("shardwise.plan-printed-none"), highlight=False)


def beside(found: Sequence[Beside], *, text: Translator) -> None:
    """Another planner's published layouts, ours under the same rules, and what the difference costs."""
    console, language = Console(), text.language
    table = Table(title=text("shardwise.plan-beside-title"), title_justify="left")
    for heading in ("model", "gpus", "published", "ours", "costs", "reason", "measured", "predicted"):
        table.add_column(text(f"shardwise.plan-beside-{heading}"), no_wrap=heading in ("model", "published", "ours"))
    for each in found:
        theirs = _layout(each.published) + ("*" if each.unequal else "")
        costs = formats.percent(each.costs, language) if each.costs else "0"
        rates = [formats.number(rate, language) for rate in (each.measured, each.predicted)]
        reason = text(f"shardwise.plan-beside-{each.reason}") if each.reason in ("same", "tie") else ""
        reason = reason or text(f"shardwise.plan-why-{each.reason}")
        table.add_row(each.model.name, str(each.gpus), theirs, _layout(each.ours), costs, reason, *rates)
    show(table, console, text.language)
    rules = [each.rules_cost for each in found]
    least, most = (formats.percent(share, language) for share in (min(rules), max(rules)))
    console.print(text("shardwise.plan-beside-unequal"), highlight=False)
    console.print(text("shardwise.plan-beside-rules", least=least, most=most), highlight=False)


def _layout(ranked: Ranked) -> str:
    plan = ranked.plan
    return f"{plan.dp} × {plan.tp} × {plan.pp}"


def simulating(plan: Configuration, *, implementation: str, text: Translator) -> tuple[Simulated, ...]:
    """The first rank of every stage, with progress on the error stream."""
    from rich.progress import track

    from labs.planner.simulation import simulate

    console = Console(stderr=True)
    title = text("shardwise.plan-simulating", ranks=plan.gpus)
    stages = simulate(plan, implementation=cast("Implementation", implementation))
    return tuple(track(stages, description=title, total=plan.pp, console=console, disable=not console.is_terminal))


def simulated(found: Sequence[Simulated], *, ranks: int, text: Translator) -> None:
    """Each stage's first rank: model states, the peak, and what it sends by axis."""
    console = Console()
    table = Table(title=text("shardwise.plan-simulated-title", ranks=ranks), title_justify="left")
    for heading in ("stage", "rank", "in-flight", "states", "activations", "peak", "sent"):
        table.add_column(text(f"shardwise.plan-{heading}"))
    for each in found:
        sent = [
            f"{text(f'shardwise.plan-axis-{axis}')} {formats.bytes_(moved, text.language)}"
            for axis, counts in each.axes.items()
            if (moved := sum(count.bytes for count in counts.values())) and axis != "world"
        ]
        sizes = (each.states.model_states, each.peak.activations, each.peak_total)
        amounts = [formats.bytes_(size, text.language) for size in sizes]
        table.add_row(str(each.stage), str(each.rank), str(each.in_flight), *amounts, "\n".join(sent))
    show(table, console, text.language)


_ESTIMATORS = {
    "deepspeed": "DeepSpeed",
    "accelerate": "Accelerate",
    "megatron": "Megatron-LM",
    "eleuther": "EleutherAI cookbook",
    "llm-analysis": "llm-analysis",
}
