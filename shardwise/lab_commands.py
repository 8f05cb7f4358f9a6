"""One command for each lab, `lab run <name>`: its options are the fields of the lab's frozen dataclass, so that command
line, notebook and script can never differ.
"""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Annotated, Any, Protocol

import typer
from typer import Context, Option

from labs.options import OPTIONS

_KINDS: dict[str, type] = {"int": int, "float": float, "str": str}


class Run(Protocol):
    """What runs the lab once its options are read; `options` holds only those that were given."""

    def __call__(
        self, context: Context, name: str, *, as_json: bool, ranks: int | None, options: dict[str, Any]
    ) -> None: ...


def add(group: typer.Typer, lab: str, run: Run) -> None:
    """The command of one lab, in the group `lab run`. Help texts are ids of messages, as everywhere on the command
    line.
    """

    def command(context: Context, *, as_json: bool, ranks: int | None, _lang: str | None, **given: Any) -> None:
        options = {name: value for name, value in given.items() if value is not None and value is not False}
        run(context, lab, as_json=as_json, ranks=ranks, options=options)

    parameters = [_parameter("context", Context), _option("ranks", "int")]
    parameters += [_option(each.name, str(each.type).removesuffix(" | None")) for each in fields(OPTIONS[lab])]
    parameters += [
        _parameter("as_json", Annotated[bool, Option("--json", help="cli-json")], default=False),
        _parameter("_lang", Annotated[str | None, Option("--lang", metavar="LANG", help="cli-lang")], default=None),
    ]
    # Typer reads a command's options from its signature.
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    group.command(lab, help=f"lab-{lab}")(command)


def _option(name: str, kind: str) -> inspect.Parameter:
    flag, help = "--" + name.replace("_", "-"), "cli-lab-" + name.replace("_", "-")
    if kind == "bool":
        return _parameter(name, Annotated[bool, Option(flag, help=help)], default=False)
    return _parameter(name, Annotated[_KINDS[kind] | None, Option(flag, help=help)], default=None)


def _parameter(name: str, annotation: Any, **default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, **default)
