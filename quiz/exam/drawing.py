"""Drawing a paper: by a secret seed, no item twice, equal difficulty.

Every choice is an HMAC of a secret that never leaves the server: who knows blueprint, bank and this code can't tell
what is drawn. Equal secret, attempt and bank give the equal paper.

Which item goes to which line is a matching: lines may overlap, and a paper is found whenever there is one. Of
`CANDIDATES` papers that the secret orders, the first whose expected share of credit lies within `SPREAD` of the
blueprint's mean is taken, else the nearest: papers within the same bands are also alike as wholes.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, Sequence

from quiz.exam.banks import Banks, Held
from quiz.exam.blueprint import Blueprint, Line
from quiz.exam.difficulty import Measured, expected
from quiz.exam.paper import Asked, Paper, Task, ask
from quiz.exam.policy import PracticalPolicy
from translations import CourseError

CANDIDATES = 24
SPREAD = 0.01
LEAST_SECRET = 32
"""Bytes that a secret has at least."""


def draw(
    blueprint: Blueprint,
    banks: Banks,
    *,
    secret: bytes,
    attempt: str,
    practical: PracticalPolicy | None = None,
    avoid: Collection[str] = (),
    measured: Measured | None = None,
) -> Paper:
    """The paper of an attempt. `attempt` is an id never given twice; it becomes the paper's.

    Items in `avoid` (met in earlier attempts) are asked only where a line has no others. Raises CourseError where the
    banks can't fill the blueprint, naming the line, and ValueError for a secret that is too short.
    """
    if len(secret) < LEAST_SECRET:
        raise ValueError(f"a secret has at least {LEAST_SECRET} bytes")
    dice = _Dice(secret, blueprint.digest, attempt)
    slots = [line for line in blueprint.lines for _ in range(line.items)]
    pools = {line: [each for each in banks.held.values() if line.takes(each, measured)] for line in set(slots)}
    aim = sum(_mean(pools[line], measured) for line in slots) / len(slots)
    chosen: list[Held] = []
    nearest = float("inf")
    for candidate in range(CANDIDATES):
        found = _matched(slots, pools, dice, candidate, avoid)
        off = abs(_mean(found, measured) - aim)
        if off < nearest:
            chosen, nearest = found, off
        if nearest <= SPREAD:
            break
    chosen.sort(key=lambda held: dice("place", held.item.id))
    questions = tuple(_question(held, dice) for held in chosen)
    return Paper(
        id=attempt,
        blueprint=blueprint.digest,
        bank=banks.digest,
        questions=questions,
        tasks=_tasks(practical, dice),
        contents={held.digest: held.content for held in chosen},
    )


class _Dice:
    """Numbers of 53 bits by name, the same for the same secret, blueprint, attempt and name."""

    def __init__(self, secret: bytes, *context: str) -> None:
        self._key = hmac.digest(secret, _joined(("shardwise exam 1", *context)), "sha256")

    def __call__(self, *name: str | int) -> int:
        digest = hmac.digest(self._key, _joined(tuple(str(each) for each in name)), "sha256")
        return int.from_bytes(digest[:8]) >> 11


def _joined(parts: tuple[str, ...]) -> bytes:
    """Parts as bytes so that no two lists of parts give the same: each is hashed by itself."""
    return b"".join(hashlib.sha256(part.encode()).digest() for part in parts)


def _question(held: Held, dice: _Dice) -> Asked:
    return ask(held, dice("seed", held.item.id))


def _mean(held: Sequence[Held], measured: Measured | None) -> float:
    return sum(expected(each.item, measured) for each in held) / max(1, len(held))


def _matched(
    slots: Sequence[Line],
    pools: dict[Line, list[Held]],
    dice: _Dice,
    candidate: int,
    avoid: Collection[str],
) -> list[Held]:
    """An item for each slot, none twice: each takes the first that it can, moving earlier ones on where it must."""

    def wish(held: Held) -> tuple[bool, int]:
        return held.item.id in avoid, dice("item", candidate, held.item.id)

    wishes = {line: sorted(pool, key=wish) for line, pool in pools.items()}
    taken: dict[str, int] = {}
    given: dict[int, Held] = {}

    def place(slot: int, tried: set[str]) -> bool:
        for held in wishes[slots[slot]]:
            if held.item.id in tried:
                continue
            tried.add(held.item.id)
            if held.item.id not in taken or place(taken[held.item.id], tried):
                taken[held.item.id], given[slot] = slot, held
                return True
        return False

    for slot in range(len(slots)):
        if not place(slot, set()):
            raise CourseError("quiz.exam-too-few-items", line=str(slots[slot]), found=len(pools[slots[slot]]))
    return [given[slot] for slot in range(len(slots))]


def _tasks(practical: PracticalPolicy | None, dice: _Dice) -> tuple[Task, ...]:
    if practical is None:
        return ()
    drawn = sorted(practical.exercises, key=lambda id: dice("exercise", id))[: practical.tasks]
    return tuple(
        Task(
            exercise=id,
            kind=practical.kinds[dice("kind", id) % len(practical.kinds)],
            seed=dice("task", id),
        )
        for id in drawn
    )
