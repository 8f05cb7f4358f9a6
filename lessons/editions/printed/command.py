"""``python -m lessons book``: the printed edition of each language."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from lessons.builder import ROOT, lessons, released
from lessons.editions.printed import book
from lessons.editions.site.command import CACHE, ready
from translations import CourseError, languages, preferred, translator

OUT = ROOT / "book"


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command to those of ``python -m lessons``."""
    command = commands.add_parser("book", help="set the printed edition, one PDF a language")
    command.add_argument("--language", action="append", help="of this language only; may be repeated")
    command.add_argument("--unit", action="append", help="this unit only, without title pages; may be repeated")
    command.add_argument("--out", type=Path, default=OUT, help="the folder for the PDFs (book/)")
    command.add_argument("--cache", type=Path, default=CACHE, help="where executed lessons are kept")
    command.add_argument("--workers", type=int, default=2, metavar="N", help="lessons that run at a time (2)")
    command.add_argument("--address", help="where the course can be had, for the imprint and its QR code")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """0 when every book was set, 1 when a lesson stopped it."""
    text = translator(preferred())
    known = {each.code: each for each in languages()}
    chosen = options.language or [each.code for each in released()]
    for code in chosen:
        if code not in known:
            print(text("lessons.book-no-language", language=code, known=", ".join(known)), file=sys.stderr)
            return 1
    for code in chosen:
        began = time.monotonic()
        wanted = options.unit or [each.unit for each in lessons(code)]
        try:
            ran = ready([(code, unit) for unit in sorted(wanted)], cache=options.cache, workers=options.workers)
            made = book(
                [ran[code, unit] for unit in sorted(wanted)], code, address=options.address, whole=not options.unit
            )
        except CourseError as error:
            print(error.in_language(text), file=sys.stderr)
            return 1
        name = "-".join(["shardwise", code, *(options.unit or [])]) + ".pdf"
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / name).write_bytes(made.pdf)
        seconds = round(time.monotonic() - began)
        print(
            text("lessons.book-set", path=str(options.out / name), units=len(made.units), seconds=seconds), flush=True
        )
    return 0
