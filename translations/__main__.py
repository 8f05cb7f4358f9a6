"""``python -m translations update | check | todo | fill``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from translations import CourseError, checks, pipeline
from translations.available import Language, language
from translations.wording import ROOT


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; 0 for all well, 1 for something to mend, 2 for wrong use."""
    parser = argparse.ArgumentParser(
        prog="python -m translations", description="The texts of the course, in every language."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, help in (
        ("update", "bring the catalogs in step with the English sources"),
        ("check", "say what is missing, stale or wrong, by file and line"),
        ("todo", "print what is missing or stale as a file to fill in"),
        ("fill", "write a filled-in file into the catalogs"),
    ):
        command = commands.add_parser(name, help=help)
        command.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
        command.add_argument(
            "--language",
            help="one language only; of one in preparation, check lists all",
            required=name in ("todo", "fill"),
        )
        if name in ("check", "todo"):
            command.add_argument("--catalog", help="one catalog only, such as lesson-04-zero-1")
        if name == "check":
            command.add_argument("--terms", action="store_true", help="also list where a term can't be recognised")
            command.add_argument("--brief", action="store_true", help="count what is missing instead of listing it")
        if name == "fill":
            command.add_argument("file", type=Path)
    options = parser.parse_args(arguments)
    try:
        chosen = (language(options.language),) if options.language else pipeline.targets()
    except CourseError as error:
        print(error, file=sys.stderr)
        return 2
    extracted = pipeline.extract(options.root)
    for sentence in extracted.broken:
        print(sentence, file=sys.stderr)
    result = int(bool(extracted.broken))
    match options.command:
        case "update":
            return max(result, _update(extracted, chosen))
        case "check":
            return max(result, _check(extracted, chosen, options))
        case "todo":
            tasks = pipeline.todo(extracted, chosen[0], options.catalog)
            print(pipeline.as_yaml(tasks) if tasks else "[]", end="" if tasks else "\n")
            return result
        case _:
            return max(result, _fill(extracted, chosen[0], options.file))


def _update(extracted: pipeline.Extracted, chosen: Sequence[Language]) -> int:
    for each in chosen:
        changed = pipeline.update(extracted, each)
        print(f"{each.code}: {', '.join(changed) if changed else 'nothing changed'}")
    return 0


def _check(extracted: pipeline.Extracted, chosen: Sequence[Language], options: argparse.Namespace) -> int:
    if options.catalog is not None:
        extracted = pipeline.only(extracted, options.catalog)
    errors = 0
    for each in chosen:
        waits = ("MISSING", "STALE", "OUT OF STEP")
        hidden = () if each.released or options.language else waits
        incomplete = 0
        for finding in checks.check(extracted, each, terms=options.terms):
            errors += not finding.warning
            if finding.kind in hidden:
                continue
            if options.brief and finding.kind in waits[:2]:
                incomplete += 1
            else:
                print(f"{finding} (warning)" if finding.warning else finding)
        if incomplete:
            print(f"{each.code}: {incomplete} texts are missing or stale")
        if not each.released:
            done, of = checks.share(extracted, each)
            print(f"{each.code}: in preparation, {done} of {of} texts are translated")
    total = sum(len(wanted) for wanted in extracted.catalogs.values())
    print(f"{total} texts in {len(extracted.catalogs)} catalogs, {len(chosen)} languages: {errors} to mend")
    return int(errors > 0)


def _fill(extracted: pipeline.Extracted, chosen: Language, file: Path) -> int:
    try:
        tasks = yaml.safe_load(file.read_text(encoding="utf-8")) or []
    except (OSError, yaml.YAMLError) as error:
        print(error, file=sys.stderr)
        return 2
    written, refused = pipeline.fill(extracted, chosen, tasks)
    print(f"{chosen.code}: {written} written")
    for at in refused:
        print(f"{at}: the English is another now; make the file again", file=sys.stderr)
    wrong = 0
    for task in tasks:
        forms = task["to"] if isinstance(task["to"], list) else [task["to"]]
        english = task["en"] if isinstance(task["en"], str) else task["en"][1]
        for kind, what in (found for form in forms if form for found in checks.problems(english, form, chosen)):
            if isinstance(task["en"], str) or what != "lacks {count}":
                print(f"{task['at']}: {kind}: {what}", file=sys.stderr)
                wrong += 1
    return int(bool(refused or wrong))


if __name__ == "__main__":
    sys.exit(main())
