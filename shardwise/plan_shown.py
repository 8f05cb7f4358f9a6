"""What the planner's commands show to people: bars in tables, and a sentence on what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from labs.telemetry.drawing.palette import LOOKS
from translations import Translator, formats

if TYPE_CHECKING:
    from labs.planner.beside import Beside
    from labs.planner.configuration import Configuration
    from labs.planner.estimators import Compared
    from labs.planner.hardware import Accelerator
    from labs.planner.links import Axis
    from labs.planner.memory import Memory
    from labs.planner.search import Ranked
    from labs.planner.simulation import Simulated
    from labs.planner.throughput import Throughput

_WIDTH = 30


def memory(found: Memory, plan: Configuration | None, *, gpu: Accelerator | None, text: Translator) -> None:
    """The bars of the fullest rank, whether it fits, and what would make it lighter."""
    console = Console()
    title = text("shardwise.plan-worst", stage=found.stage, rank=found.rank)
    table = Table(title=title, title_justify="left")
    for heading in ("bar", "bytes", "", "shards"):
        table.add_column(text(f"shardwise.plan-{heading}") if heading else "")
    largest = max(found.bars.as_dict().values()) or 1
    for name, amount in found.bars.as_dict().items():
        if plan is None and not amount:
            continue
        colour = LOOKS[name].colour if name in LOOKS else LOOKS["communication"].colour
        bar = Text("█" * round(_WIDTH * amount / largest), style=colour)
        words = text(f"shardwise.plan-bar-{name.replace('_', '-')}")
        table.add_row(words, formats.bytes_(amount, text.language), bar, text(f"shardwise.plan-shards-{_shards(name)}"))
    table.add_row(text("shardwise.total"), formats.bytes_(found.total, text.language), "", "", style="bold")
    console.print(table)
    if gpu is not None:
        room = formats.bytes_(gpu.memory, text.language)
        console.print(
            text("shardwise.plan-fits" if found.fits else "shardwise.plan-fits-not", gpu=gpu.title, room=room)
        )
    if plan is None:
        return
    if plan.dp * plan.cp == 1 and plan.zero:
        console.print(text("shardwise.plan-zero-saves-nothing", dp=plan.dp))
    if found.fits is False:
        _advice(plan, console, text)


def _shards(bar: str) -> str:
    """Which axis makes a bar smaller."""
    return {
        "parameters": "zero-3",
        "gradients": "zero-2",
        "optimizer_states": "zero-1",
        "activations": "recompute",
        "logits": "tensor",
    }.get(bar, "none")


def _advice(plan: Configuration, console: Console, text: Translator) -> None:
    from labs.planner.memory import advice

    for each in advice(plan)[:4]:
        saves = formats.bytes_(each.saves, text.language)
        flag = f"--{each.change} {each.value}".strip()
        console.print("  " + text("shardwise.plan-advice", change=flag, saves=saves), highlight=False)
        console.print("    " + text(f"shardwise.plan-cost-{each.cost}"), highlight=False)


def traffic(found: Sequence[Axis], *, computing: float, gpu: Accelerator, text: Translator) -> None:
    """Each axis with its link; a full link is named as the bottleneck it is."""
    from labs.planner.links import bottleneck

    console = Console()
    table = Table(title=text("shardwise.plan-traffic-title", gpu=gpu.title), title_justify="left")
    for heading in ("axis", "bytes", "link", "seconds", "open"):
        table.add_column(text(f"shardwise.plan-{heading}"))
    for axis in found:
        moved = formats.bytes_(axis.bytes, text.language)
        times = [formats.duration(each, text.language) for each in (axis.seconds, axis.exposed)]
        name, link = text(f"shardwise.plan-axis-{axis.name}"), text(f"shardwise.plan-link-{axis.link}")
        table.add_row(name, moved, link, *times)
    console.print(table)
    console.print(text("shardwise.plan-computing", time=formats.duration(computing, text.language)), highlight=False)
    if (full := bottleneck(found, computing=computing)) is not None:
        console.print(text("shardwise.plan-bottleneck", axis=text(f"shardwise.plan-axis-{full}")), highlight=False)


def throughput(found: Throughput, *, text: Translator) -> None:
    """The step, what share of the hardware it uses, and what the run costs."""
    console = Console()
    language = text.language
    table = Table(show_header=False)
    table.add_row(text("shardwise.plan-step"), formats.duration(found.seconds_per_step, language))
    table.add_row(text("shardwise.plan-bubble"), formats.percent(found.bubble, language))
    table.add_row("TFLOP/s", formats.number(found.tflops_per_gpu, language))
    table.add_row("MFU", formats.percent(found.mfu, language))
    table.add_row("HFU", formats.percent(found.hfu, language))
    for name, value in (("days", found.days), ("cost", found.cost), ("energy", found.energy_kwh)):
        if value is not None:
            table.add_row(text(f"shardwise.plan-{name}"), formats.number(value, language))
    console.print(table)


def plan(found: Sequence[Ranked], *, text: Translator) -> None:
    """The layouts, the fastest first, and why each is behind the one before."""
    console = Console()
    table = Table(title=text("shardwise.plan-title"), title_justify="left")
    for heading in ("dp", "tp", "pp", "ZeRO", "micro-batch", "interleave"):
        table.add_column(heading, justify="right")
    for heading in ("recomputed", "step", "bytes", "why"):
        table.add_column(text(f"shardwise.plan-{heading}"))
    why = ""
    for each in found:
        chosen = each.plan
        numbers = (chosen.dp, chosen.tp, chosen.pp, chosen.zero, chosen.micro_batch, chosen.interleave)
        table.add_row(
            *map(str, numbers),
            text(f"shardwise.plan-recompute-{chosen.recompute}"),
            formats.duration(each.seconds, text.language),
            formats.bytes_(each.bytes, text.language),
            why,
        )
        why = text(f"shardwise.plan-why-{each.why_next_lost}") if each.why_next_lost else ""
    console.print(table)


def estimators(found: Sequence[Compared], *, text: Translator) -> None:
    """Each estimator beside ours, and a sentence for each difference."""
    console = Console()
    table = Table(title=text("shardwise.plan-estimators-title"), title_justify="left")
    for heading in ("estimator", "says", "ours", "counted"):
        table.add_column(text(f"shardwise.plan-{heading}"))
    for each in found:
        sizes = [formats.bytes_(number, text.language) for number in (each.bytes, each.ours)]
        table.add_row(_ESTIMATORS[each.name], *sizes, text(f"shardwise.plan-counts-{each.counts}"))
    console.print(table)
    for each in found:
        console.print(f"{_ESTIMATORS[each.name]}:", style="bold", highlight=False)
        for reason in each.differs:
            console.print("  " + text(f"shardwise.plan-differs-{reason}"), highlight=False)


def beside(found: Sequence[Beside], *, text: Translator) -> None:
    """Another planner's published layouts, ours under the same rules, and what the difference costs."""
    console, language = Console(), text.language
    table = Table(title=text("shardwise.plan-beside-title"), title_justify="left")
    for heading in ("model", "gpus", "published", "ours", "costs", "reason", "measured", "predicted"):
        table.add_column(text(f"shardwise.plan-beside-{heading}"))
    for each in found:
        theirs = _layout(each.published) + ("*" if each.unequal else "")
        costs = formats.percent(each.costs, language) if each.costs else "0"
        rates = [formats.number(rate, language) for rate in (each.measured, each.predicted)]
        reason = text(f"shardwise.plan-beside-{each.reason}") if each.reason in ("same", "tie") else ""
        reason = reason or text(f"shardwise.plan-why-{each.reason}")
        table.add_row(each.model.name, str(each.gpus), theirs, _layout(each.ours), costs, reason, *rates)
    console.print(table)
    rules = [each.rules_cost for each in found]
    least, most = (formats.percent(share, language) for share in (min(rules), max(rules)))
    console.print(text("shardwise.plan-beside-unequal"), highlight=False)
    console.print(text("shardwise.plan-beside-rules", least=least, most=most), highlight=False)


def _layout(ranked: Ranked) -> str:
    plan = ranked.plan
    return f"{plan.dp} × {plan.tp} × {plan.pp}"


def simulating(plan: Configuration, *, text: Translator) -> tuple[Simulated, ...]:
    """The first rank of every stage, with progress on the error stream; stages alike in all but their place are taken
    one by one, since each has other micro-batches in flight.
    """
    from rich.progress import track

    from labs.planner.simulation import simulate

    console = Console(stderr=True)
    title = text("shardwise.plan-simulating", ranks=plan.gpus)
    stages = simulate(plan)
    return tuple(track(stages, description=title, total=plan.pp, console=console, disable=not console.is_terminal))


def simulated(found: Sequence[Simulated], *, ranks: int, text: Translator) -> None:
    """Each stage's first rank: model states, the peak, and what it sends by axis."""
    console = Console()
    table = Table(title=text("shardwise.plan-simulated-title", ranks=ranks), title_justify="left")
    for heading in ("stage", "rank", "states", "activations", "peak", "sent"):
        table.add_column(text(f"shardwise.plan-{heading}"))
    for each in found:
        sent = [
            f"{text(f'shardwise.plan-axis-{axis}')} {formats.bytes_(moved, text.language)}"
            for axis, counts in each.axes.items()
            if (moved := sum(count.bytes for count in counts.values())) and axis != "world"
        ]
        sizes = (each.states.model_states, each.peak.activations, each.peak_total)
        amounts = [formats.bytes_(size, text.language) for size in sizes]
        table.add_row(str(each.stage), str(each.rank), *amounts, "\n".join(sent))
    console.print(table)


_ESTIMATORS = {
    "deepspeed": "DeepSpeed",
    "accelerate": "Accelerate",
    "megatron": "Megatron-LM",
    "eleuther": "EleutherAI cookbook",
}
