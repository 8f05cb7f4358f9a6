"""`python -m quiz check [UNIT ...]`: the form of the bank. `show ITEM`: one item with its key, for its author.
`curriculum`: writes which items and exercises belong to each objective and misconception.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

from quiz import curriculum, grading, lint, variants
from quiz.items import BANK, item, items, units
from quiz.rendering import plain
from quiz.session import question


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when the bank is in order, 1 when something was found."""
    parser = argparse.ArgumentParser(prog="python -m quiz", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    checking = commands.add_parser("check", help="the form of every item, in every released language")
    checking.add_argument("units", nargs="*", metavar="UNIT", help="only the banks of these units")
    commands.add_parser("curriculum", help="write curriculum.yaml anew")
    show = commands.add_parser("show", help="one item as a learner meets it, with its key")
    show.add_argument("item")
    show.add_argument("--seed", type=int, default=0)
    show.add_argument("--lang", default="en")
    options = parser.parse_args(arguments)
    if options.command == "check" and (strange := sorted({*options.units} - {*units()})):
        parser.error(f"there is no bank of {', '.join(strange)}")
    try:
        if options.command == "show":
            return _show(options.item, options.seed, options.lang)
        if options.command == "curriculum":
            curriculum.write()
            return 0
    except ValueError as error:  # a bank that can't be read, by file and line
        print(error, file=sys.stderr)
        return 1
    return _check(options.units)


def _check(asked: Sequence[str]) -> int:
    findings = lint.check([BANK / f"{unit}.yaml" for unit in asked] or None)
    for finding in findings:
        print(finding)
    if findings:
        return 1
    checked = asked or units()
    bank = [each for unit in checked for each in items(unit)]
    forms = ", ".join(f"{count} {form}" for form, count in Counter(each.form for each in bank).most_common())
    print(f"{len(bank)} items in {len(checked)} units are in order: {forms}.")
    return 0


def _show(id: str, seed: int, language: str) -> int:
    made = variants.variant(item(id), seed)
    asked = question(made, language)
    print(plain(asked.text, language), asked.code, asked.prompt, sep="\n\n")
    for shown in (*asked.offered, *asked.answers):
        print(f"  {shown.key}: {plain(shown.text, language)}")
    if made.item.form in ("number", "bytes"):
        print("key:", grading.quantity(grading.key_of(made), made.item, language))
        for slip in made.item.slips:
            print(f"slip {slip.key}:", grading.quantity(made.number(slip.value), made.item, language))
    print(asked.report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
