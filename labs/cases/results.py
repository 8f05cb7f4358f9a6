"""The table of what the cases found, `labs/cases/RESULTS.md`: `python -m labs.cases.results` runs them and writes it.

Every number in it comes from a run that `results.json` keeps, with the versions under which it ran. A case whose stack
is missing on this machine keeps the numbers it had; one that never ran is not in the table.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from labs.cases import worked, worked_shown
from labs.cases.rows import Row
from translations import CourseError, Translator, translator
from translations.formats import bytes_, number, percent

KEPT, TABLE = Path(__file__).parent / "results.json", Path(__file__).parent / "RESULTS.md"
CASES = (
    "labs.cases.bloom_training",
    "labs.cases.bloom_conversion",
    "labs.cases.bloom_inference",
    "labs.cases.batching",
    "labs.cases.weight_only",
    "labs.cases.bloom_accuracy",
    "labs.cases.grpo_runs",
    "labs.cases.compiled",
    "labs.cases.narrow_formats",
    "labs.stacks.deepspeed_zero",
    "labs.stacks.megatron_gpt",
    "labs.stacks.fsdp",
    "labs.stacks.largest_batch",
    "labs.stacks.accelerated",
    "labs.stacks.precision_gap",
)
"""Modules with `results() -> list[Row]`, in the order of the table."""

Found = Mapping[str, Sequence[Row]]


def kept() -> dict[str, list[Row]]:
    """What the last runs left, by case."""
    found = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    return {name: [Row(**row) for row in rows] for name, rows in found.items()}


def keep(found: Found) -> None:
    """The numbers and the table, in the order of CASES."""
    data = {name: [row.as_dict() for row in found[name]] for name in map(short, CASES) if name in found}
    KEPT.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    TABLE.write_text(table(kept()), encoding="utf-8")


def short(module: str) -> str:
    return module.rpartition(".")[2].replace("_", "-")


def table(found: Found) -> str:
    """RESULTS.md."""
    text = translator("en")
    lines = [
        "# What the cases found",
        "",
        "Made by `python -m labs.cases.results`; not edited by hand. Times are ratios within one run.",
        "Published numbers are those of `labs/planner/published`.",
    ]
    for name in worked.CASES:
        lines += ["", f"## {name}, computed beside published", "", *_worked(worked.case(name), text)]
    for name, rows in found.items():
        lines += ["", f"## {name}", "", "| what | found |", "|---|---:|"]
        lines += [f"| {text(f'labs.result-{row.name}', of=row.of)} | {value(row)} |" for row in rows]
        lines += ["", *(f"Versions: {each}." for each in sorted({_versions(row) for row in rows}))]
    return "\n".join(lines) + "\n"


def value(row: Row) -> str:
    """A number with its unit, in English."""
    if row.unit == "B":
        return bytes_(row.value, "en")
    if row.unit == "share":
        return percent(row.value, "en")
    shown = number(row.value, "en") if abs(row.value) >= 1e-3 or not row.value else f"{row.value:.2g}"
    return f"{shown} {row.unit}".strip()


def _worked(case: worked.Case, text: Translator) -> list[str]:
    lines = ["| what | published | computed | why they part |", "|---|---:|---:|---|"]
    for row in case.rows:
        why = text(f"labs.case-why-{row.why}") if row.why and row.off else ""
        computed = worked_shown.value(row, row.computed, "en")
        lines.append(f"| {worked_shown.name(row, text)} | {worked_shown.printed(row, text)} | {computed} | {why} |")
    return lines


def _versions(row: Row) -> str:
    return ", ".join(f"{name} {version}" for name, version in row.versions.items())


def main(arguments: Sequence[str] | None = None) -> int:
    known = {short(module): module for module in CASES}
    parser = argparse.ArgumentParser(prog="python -m labs.cases.results")
    parser.add_argument("case", nargs="*", help=f"only these: {', '.join(known)}")
    chosen: list[str] = parser.parse_args(arguments).case or list(known)
    if unknown := [name for name in chosen if name not in known]:
        parser.error(f"no case named {', '.join(unknown)}; there are {', '.join(known)}")
    found, missing = kept(), 0
    for name in chosen:
        module: Any = importlib.import_module(known[name])
        try:
            found[name] = module.results()
        except CourseError as error:
            missing += 1
            print(f"{name}: {error}", file=sys.stderr)
            continue
        print(f"{name}: {len(found[name])} numbers")
        keep(found)
    return 1 if missing else 0


if __name__ == "__main__":
    raise SystemExit(main())
