"""``python -m lessons site``: runs the lessons that have changed, writes the pages and walks them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from lessons.builder import ROOT, lessons, released
from lessons.editions.executed import each_executed
from lessons.editions.site.building import build
from lessons.editions.site.links import faults
from translations import SOURCE, CourseError, formats, preferred, translator

CACHE = ROOT / "site" / "executed"
OUT = ROOT / "site" / "pages"


def add(commands: Any) -> None:
    """The command's options."""
    parser = commands.add_parser(
        "site", help="write the web edition: every lesson, run once, as pages for a folder or a web server"
    )
    parser.add_argument("--language", action="append", metavar="L", help="only this language; may be repeated")
    parser.add_argument("--unit", action="append", metavar="U", help="only this unit; may be repeated")
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR", help="where the pages go (site/pages)")
    parser.add_argument("--cache", type=Path, default=CACHE, metavar="DIR", help="where executed lessons are kept")
    parser.add_argument(
        "--book",
        type=Path,
        default=ROOT / "book",
        metavar="DIR",
        help="the printed edition's files, to be linked: shardwise-LANGUAGE.pdf",
    )
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="lessons that run at a time (2)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    reader = preferred()
    text = translator(reader)
    wanted = [
        (language.code, lesson.unit)
        for language in released()
        for lesson in lessons(language)
        if language.code in (options.language or [language.code]) and lesson.unit in (options.unit or [lesson.unit])
    ]
    try:
        notebooks = ready(wanted, cache=options.cache, workers=options.workers)
        english = {unit: _english(unit) for _, unit in wanted}
        books = {code: path for code, _ in wanted if (path := options.book / f"shardwise-{code}.pdf").is_file()}
        if not notebooks:
            raise CourseError("lessons.edition-nothing")
        made = build(notebooks, out=options.out, english=english, books=books)
    except CourseError as error:
        print(error.in_language(text), file=sys.stderr)
        return 1
    print(
        text("lessons.site-built", pages=made.pages, folder=str(options.out), size=formats.bytes_(made.bytes, reader))
    )
    wrong = list(faults(options.out))
    print("\n".join(wrong), end="\n" if wrong else "", file=sys.stderr)
    if wrong:
        print(text("lessons.site-faults", count=str(len(wrong))), file=sys.stderr)
    return int(bool(wrong))


def ready(wanted: Sequence[tuple[str, str]], *, cache: Path, workers: int) -> dict[tuple[str, str], Any]:
    """The executed notebooks, with a bar for each that runs and one for all."""
    found: dict[tuple[str, str], Any] = {}
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True) as shown:
        whole = shown.add_task("", total=len(wanted))
        tasks: dict[tuple[str, str], Any] = {}

        def told(code: str, unit: str, share: float) -> None:
            if (code, unit) not in tasks:
                tasks[code, unit] = shown.add_task(f"{code} {unit}", total=1.0)
            shown.update(tasks[code, unit], completed=share)

        for code, unit, notebook in each_executed(wanted, cache=cache, workers=workers, progress=told):
            found[code, unit] = notebook
            shown.advance(whole)
            if (code, unit) in tasks:
                shown.remove_task(tasks.pop((code, unit)))
            if not console.is_terminal:
                console.print(f"{len(found)}/{len(wanted)} {code} {unit}")
    return found


def _english(unit: str) -> Any:
    import nbformat

    path = ROOT / "lessons" / SOURCE / f"{unit}.ipynb"
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
