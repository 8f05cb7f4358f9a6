"""What a student's server takes: memory and ranks of every lab, measured on real runs, for whoever sets a Hub's limits.

`python -m shardwise.classroom.needs` runs every lab with the options that it has by itself, watches all its processes,
and writes `needs.json`; nothing in that file is typed. Memory is the proportional share (PSS) of all processes of the
lab together, the one that started them included: what a container or a cgroup counts, save for file pages that it can
give back. Cores: a rank computes with one thread, so that a lab uses as many cores as it has ranks, and takes longer
with fewer.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from shardwise.classroom import processes

FILE = Path(__file__).with_name("needs.json")
SERVER = 300_000_000
"""Bytes of JupyterLab's own server, beside the kernel; `tests` hold it to a running one."""
ROOM = 1.25
"""What is left over the largest lab, so that a second notebook may stay open."""
LOOK = 0.05
SECONDS = 900
_RUN = "import sys, json; from labs import catalogue; catalogue.run_lab(sys.argv[1]); print('ran')"


@dataclass(frozen=True, kw_only=True)
class Need:
    """What one lab takes: ranks, bytes at most, wall seconds on the machine that measured it."""

    lab: str
    ranks: int
    memory: int
    seconds: float


@cache
def needs() -> tuple[Need, ...]:
    """Of every lab that was measured, the hungriest first."""
    found = json.loads(FILE.read_text(encoding="utf-8"))
    read = [Need(lab=lab, **values) for lab, values in found["labs"].items()]
    return tuple(sorted(read, key=lambda each: (-each.memory, each.lab)))


def memory(*, stacks: bool = False) -> int:
    """Bytes that a student's server should be given: the hungriest lab and JupyterLab, with room, in whole GiB. With
    `stacks` the labs of the real stacks count, too, which need an environment of their own.
    """
    from labs import catalogue

    counted = [each.memory for each in needs() if stacks or not catalogue.LABS[each.lab].needs]
    return -(-int(max(counted) * ROOM + SERVER) // 2**30) * 2**30


def cores() -> int:
    """Cores that a server should be given at most: as many as the labs' usual ranks."""
    ranks = sorted(each.ranks for each in needs())
    return ranks[len(ranks) // 2]


def table() -> str:
    """All labs as a table in Markdown, as the documentation has it."""
    rows = [f"| `{each.lab}` | {each.ranks} | {each.memory / 1e9:.2f} GB |" for each in needs()]
    return "\n".join(["| lab | ranks, and cores that they keep busy | memory at most |", "|---|---|---|", *rows])


def measure(lab: str) -> Need:
    """Runs the lab once. Raises RuntimeError with what it said where it fails."""
    from labs import catalogue

    ranks = catalogue.ranks_of(lab, {}, None)
    begun = time.monotonic()
    process = subprocess.Popen([sys.executable, "-c", _RUN, lab], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    most = 0
    try:
        while process.poll() is None:
            tree = (process.pid, *processes.descendants(process.pid))
            most = max(most, sum(processes.memory(each) for each in tree))
            if time.monotonic() - begun > SECONDS:
                raise RuntimeError(f"{lab} takes longer than {SECONDS} s")
            time.sleep(LOOK)
    finally:
        if process.poll() is None:
            process.kill()
        said = process.communicate()[0].decode(errors="replace")
    if process.returncode:
        raise RuntimeError(f"{lab}: {said[-2000:]}")
    return Need(lab=lab, ranks=ranks, memory=most, seconds=round(time.monotonic() - begun, 1))


def main() -> int:
    from labs import catalogue

    parser = argparse.ArgumentParser()
    parser.add_argument("labs", nargs="*", help="only these; the others keep what they had")
    parser.add_argument("--table", action="store_true", help="only print the table of what was measured")
    given = parser.parse_args()
    if given.table:
        print(table())
        return 0
    asked = given.labs or list(catalogue.LABS)
    kept = json.loads(FILE.read_text(encoding="utf-8"))["labs"] if FILE.exists() else {}
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    failed = 0
    for lab in asked:
        try:
            need = measure(lab)
        except RuntimeError as error:
            print(error, file=sys.stderr)
            failed = 1
            continue
        rounded = -(-need.memory // 1_000_000) * 1_000_000
        kept[lab] = {"ranks": need.ranks, "memory": rounded, "seconds": need.seconds}
        print(f"{lab:20} {need.ranks:3} ranks {need.memory / 1e9:6.2f} GB {need.seconds:6.1f} s", flush=True)
        ordered = {name: kept[name] for name in catalogue.LABS if name in kept}
        FILE.write_text(json.dumps({"version": 1, "labs": ordered}, indent=1) + "\n", encoding="utf-8")
    return failed


if __name__ == "__main__":
    sys.exit(main())
