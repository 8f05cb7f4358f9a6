"""`shardwise hardware`: the accelerators that every calculator knows, the formats of numbers, and what changes on AMD's
GPUs. Each value is data of `labs.planner` with its source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Context, Option

from shardwise.plan_commands import File
from shardwise.plan_options import Json, Lang, Printer

if TYPE_CHECKING:
    from rich.console import JustifyMethod

    from labs.planner.formats import Format
    from labs.planner.hardware import Accelerator
    from labs.planner.platforms import Difference
    from translations import Translator


def add(app: typer.Typer, *, print_json: Printer, right_use: Callable[[], Any]) -> None:
    """The command, in the course's command line."""

    @app.command("hardware", help="cli-hardware")
    def hardware(
        context: Context,
        name: Annotated[str | None, Argument(metavar="NAME", help="cli-hardware-name")] = None,
        formats: Annotated[bool, Option("--formats", help="cli-hardware-formats")] = False,
        amd: Annotated[bool, Option("--amd", help="cli-hardware-amd")] = False,
        file: File = None,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from labs.planner.formats import formats as all_formats
        from labs.planner.hardware import accelerator, accelerators, read
        from labs.planner.platforms import differences

        text: Translator = context.obj.text
        with right_use():
            known = {**accelerators(), **({} if file is None else read(file))}
            found = list(dict.fromkeys(known.values())) if name is None else [accelerator(name, file=file)]
        aliases = {each.name: [one for one, of in known.items() if of is each and one != each.name] for each in found}
        kinds = list({each.name: each for each in all_formats().values()}.values())
        if as_json:
            print_json(
                {
                    "accelerators": [each.as_json() | {"aliases": aliases[each.name]} for each in found],
                    "formats": [
                        {
                            "name": each.name,
                            "bytes_per_element": each.bytes_per_element,
                            "torch": each.torch,
                            "source": each.source,
                        }
                        for each in kinds
                    ],
                    "amd": [
                        {
                            "id": each.id,
                            "what": each.what(text),
                            "changes": each.changes,
                            "nvidia": each.nvidia,
                            "amd": each.amd,
                            "told": each.told(text),
                            "source": each.source,
                        }
                        for each in differences()
                    ],
                }
            )
        elif formats:
            _formats(kinds, text)
        elif amd:
            _amd(differences(), text)
        elif name is None:
            _all(found, text)
        else:
            _one(found[0], aliases[found[0].name], text)


def _all(found: Sequence[Accelerator], text: Translator) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from shardwise.tables import show
    from translations import formats

    table = Table(
        title=text("shardwise.hardware-title"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
    )
    for heading in (
        "name",
        "memory",
        "short-bandwidth",
        "short-peak",
        "short-narrow",
        "short-link",
        "short-node",
        "short-network",
    ):
        justify: JustifyMethod = "left" if heading == "name" else "right"
        table.add_column(text(f"shardwise.hardware-{heading}"), justify=justify, no_wrap=True)
    for each in found:
        rates = [formats.bytes_(rate, text.language) if rate else "–" for rate in (each.bandwidth, each.link)]
        network = formats.bytes_(each.network, text.language) if each.network else "–"
        narrow = "; ".join(formats.number(round(rate / 1e12), text.language) for rate in each.narrow.values()) or "–"
        peak = formats.number(round(each.peak / 1e12), text.language)
        memory = formats.bytes_(each.memory, text.language)
        table.add_row(
            each.name, memory, rates[0], peak, narrow, rates[1], formats.number(each.node, text.language), network
        )
    console = Console()
    show(table, console, text.language)
    console.print(text("shardwise.hardware-rest"), highlight=False)


def _one(found: Accelerator, aliases: Sequence[str], text: Translator) -> None:
    from rich.console import Console
    from rich.table import Table

    from shardwise.tables import show
    from translations import formats

    table = Table(title=found.title, title_justify="left", show_header=False)

    def row(name: str, value: str) -> None:
        table.add_row(text(f"shardwise.hardware-{name}"), value)

    def rate(value: float) -> str:
        return f"{formats.bytes_(value, text.language)}/s" if value else "–"

    def flops(value: float | None) -> str:
        return formats.number(value / 1e12, text.language, 4) if value else "–"

    row("name", ", ".join([found.name, *aliases]))
    row("memory", formats.bytes_(found.memory, text.language))
    row("bandwidth", rate(found.bandwidth))
    row("peak", flops(found.peak))
    for precision, peak in found.narrow.items():
        table.add_row(text("shardwise.hardware-peak-of", precision=precision), flops(peak))
    row("achieved", flops(found.achieved))
    row("link", rate(found.link))
    row("node", formats.number(found.node, text.language))
    row("network", rate(found.network))
    row("host", rate(found.host))
    row("watts", f"{formats.number(found.watts, text.language)} W" if found.watts else "–")
    row("balance", f"{formats.number(found.peak / found.bandwidth, text.language)} FLOP/B")
    row("source", found.source)
    show(table, Console(), text.language)


def _formats(found: Sequence[Format], text: Translator) -> None:
    from rich.console import Console
    from rich.table import Table

    from shardwise.tables import show
    from translations import formats

    table = Table(title=text("shardwise.hardware-formats-title"), title_justify="left")
    for heading in ("name", "bytes", "torch", "source"):
        table.add_column(text(f"shardwise.hardware-{heading}"))
    for each in found:
        table.add_row(each.name, formats.number(each.bytes_per_element, text.language), each.torch, each.source)
    show(table, Console(), text.language)


def _amd(found: Sequence[Difference], text: Translator) -> None:
    """One after the other, since code and sentences side by side need a wider terminal than most."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    console = Console()
    console.print(text("shardwise.hardware-amd-title"), style="italic")
    for each in found:
        changes = text("shardwise.hardware-changes", what=text(f"labs.amd-changes-{each.changes}"))
        console.print(Text(f"\n{each.what(text)} ", style="bold") + Text(f"({changes})", style="not bold dim"))
        for vendor, name in (("nvidia", each.nvidia), ("amd", each.amd)):
            console.print(f"  {text(f'shardwise.hardware-{vendor}'):8} {name}", highlight=False, markup=False)
        console.print(Padding(each.told(text), (0, 0, 0, 2)), highlight=False)
    console.print("\n" + text("labs.amd-around"), highlight=False)
