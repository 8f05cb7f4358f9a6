"""Checks `place(kind, count, backends, ranks=..., local_rank=...)`: what a rank gets on machines of all sorts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from labs.exercises.trial import Case, Failure, Result, Student, Work, kind

CASES = (Case(name="machines", ranks=1, communicates=False),)
CPU = ("cpu", "gloo")
BACKENDS = {"cuda": "nccl", "xpu": "xccl", "hpu": "hccl"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What is asked. An accelerator that no code can know by name is among them."""

    kind: str | None
    count: int
    ranks: int
    local_rank: int = 0
    backends: dict[str, str]


MACHINES = {
    "laptop": Machine(kind=None, count=0, ranks=4, local_rank=2, backends=BACKENDS),
    "eight": Machine(kind="cuda", count=8, ranks=8, local_rank=5, backends=BACKENDS),
    "other": Machine(kind="xpu", count=4, ranks=4, local_rank=3, backends=BACKENDS),
    "new": Machine(kind="tpx", count=2, ranks=2, local_rank=1, backends={**BACKENDS, "tpx": "tccl"}),
    "shared": Machine(kind="cuda", count=1, ranks=4, local_rank=1, backends=BACKENDS),
    "alone": Machine(kind="mps", count=1, ranks=1, backends=BACKENDS),
}


def work(student: Student, case: Case, seed: int, group: Any) -> Work:
    place = student["place"]
    found: dict[str, Any] = {}
    for name, asked in MACHINES.items():
        given = place(asked.kind, asked.count, dict(asked.backends), ranks=asked.ranks, local_rank=asked.local_rank)
        pair = isinstance(given, (tuple, list)) and len(given) == 2
        found[name] = [*map(str, given)] if pair else kind(given)
    return Work(value=found)


def right_of(asked: Machine) -> tuple[str, str]:
    if asked.kind is None or asked.kind not in asked.backends or asked.count < asked.ranks:
        return CPU
    return f"{asked.kind}:{asked.local_rank}", f"cpu:gloo,{asked.kind}:{asked.backends[asked.kind]}"


def compare(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    (result,) = results
    for name, asked in MACHINES.items():
        yield from compare_place(result.get(name), asked)


def compare_place(got: object, asked: Machine) -> Iterator[Failure]:
    told: dict[str, object] = {"kind": str(asked.kind), "count": asked.count, "ranks": asked.ranks}
    told["local_rank"] = asked.local_rank
    right = right_of(asked)
    if not isinstance(got, list):
        yield Failure(group="shape", id="not-a-pair", values={**told, "got": str(got)})
        return
    device, backend = got
    told |= {"got": f"{device}, {backend}", "expected": ", ".join(right)}
    if device != right[0]:
        yield Failure(group="device", id=_device(device, asked), values=told)
    elif backend != right[1]:
        id = "host-left-out" if backend == f"{asked.kind}:{asked.backends.get(str(asked.kind))}" else "backend"
        yield Failure(group="backend", id=id, values=told)


def _device(device: str, asked: Machine) -> str:
    """The id of what a wrong device means."""
    if right_of(asked) == CPU:
        if asked.kind is None:
            return "nothing-there"
        return "shared" if asked.kind in asked.backends else "cannot-talk"
    if device.split(":")[0] == asked.kind:
        return "other-number"
    return "left-idle" if device == "cpu" else "other-kind"


def remarks(case: Case, seed: int, results: Sequence[Result]) -> Iterator[Failure]:
    return iter(())
