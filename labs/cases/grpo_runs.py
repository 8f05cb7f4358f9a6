"""The kept runs of the GRPO lab: `python -m labs.cases.grpo_runs` makes them anew, one seed after the other.

About a quarter of an hour on two cores that have nothing else to do. What is interrupted goes on where it was, with the
same `--folder`.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labs.options.grpo import GrpoOptions

if TYPE_CHECKING:
    from labs.cases.rows import Row

KEPT = Path(__file__).parent / "grpo_runs.json"
SEEDS, RANKS = (0, 1, 2), 2
OPTIONS: dict[str, Any] = {"stage": 3, "warm_up": 600, "steps": 400, "lr": 3e-4}


def runs() -> dict[str, Any]:
    """What is kept: `options`, `ranks`, and of each seed the `curve`, what was measured before and after, and times."""
    kept: dict[str, Any] = json.loads(KEPT.read_text(encoding="utf-8"))
    return kept


def run(seed: int, folder: Path) -> dict[str, Any]:
    """One seed's."""
    import torch

    from labs.catalogue import run_lab

    begun = time.time()
    options = {**OPTIONS, "seed": seed, "keep": str(folder / f"seed-{seed}")}
    data = run_lab("grpo", ranks=RANKS, timeout=7200, **options).data
    rounded = [{name: round(value, 5) for name, value in point.items()} for point in data["curve"]]
    return {
        "seed": seed,
        **{name: data[name] for name in ("parameters", "start", "end", "parts", "generation_share")},
        "curve": rounded,
        "seconds": round(time.time() - begun),
        "versions": {"torch": torch.__version__, "python": platform.python_version(), "machine": platform.machine()},
    }


def results() -> list[Row]:
    """For the table of all cases: means over the seeds, and the smallest rise."""
    from labs.cases.rows import Row

    found = runs()["runs"]
    versions = found[0]["versions"]

    def mean(when: str, name: str) -> float:
        return statistics.fmean(each[when][name] for each in found)

    shares = {"reward": "", "right": "share", "any": "share"}
    return [
        *(
            Row(name=f"grpo-{name}-{when}", value=mean(at, name), unit=unit, versions=versions)
            for name, unit in shares.items()
            for when, at in (("before", "start"), ("after", "end"))
        ),
        Row(
            name="grpo-least-rise",
            value=min(each["end"]["reward"] - each["start"]["reward"] for each in found),
            versions=versions,
        ),
        Row(
            name="grpo-generation",
            value=statistics.fmean(each["generation_share"] for each in found),
            unit="share",
            versions=versions,
        ),
    ]


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--output", type=Path, default=KEPT)
    chosen = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="shardwise-") as place:
        folder = chosen.folder or Path(place)
        found = []
        for seed in SEEDS:
            found.append(run(seed, folder))
            told = {"options": OPTIONS, "ranks": RANKS, "group_size": GrpoOptions().group_size, "runs": found}
            chosen.output.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
