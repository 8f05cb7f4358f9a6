"""``python -m lessons build | check | site | book``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from lessons import builder
from lessons.editions.printed import command as printed
from lessons.editions.site import command as site


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; 0 for all well, 1 for something to mend, 2 for wrong use."""
    parser = argparse.ArgumentParser(prog="python -m lessons", description="The lessons, built from their sources.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="build every lesson in every language that it is written in")
    commands.add_parser("check", help="say what is wrong with the sources, and which built lessons are out of step")
    site.add(commands)
    printed.add(commands)
    options = parser.parse_args(arguments)
    if "run" in options:
        return int(options.run(options))
    if options.command == "build":
        built = builder.build()
        print("\n".join(path.relative_to(builder.ROOT).as_posix() for path in built.changed) or "nothing changed")
        print("\n".join(built.faults), end="\n" if built.faults else "", file=sys.stderr)
        return int(bool(built.faults))
    faults = list(builder.check())
    print("\n".join(faults) or f"{len(builder.sources())} lessons, all in step")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
