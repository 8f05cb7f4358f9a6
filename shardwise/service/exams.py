"""The exams that this service holds: a folder of policy files, each with its blueprint and its private banks.

A policy file `deepspeed.yaml` is the exam `deepspeed`. Items of the repository's bank are drawn only where the policy
says so; a private folder that repeats them is no private folder, and is refused.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quiz.exam import Banks, Blueprint, ExamPolicy, PracticalPolicy, banks, blueprint, exam_policy, shortages
from translations import CourseError


@dataclass(frozen=True, kw_only=True)
class Exam:
    """One exam as it stands now. Attempts keep their own copy of the policy."""

    id: str
    policy: ExamPolicy
    blueprint: Blueprint
    banks: Banks

    def check(self) -> None:
        """Raises CourseError where nobody could be given a paper."""
        for shortage in shortages(self.blueprint, self.banks, self.policy.measured):
            raise CourseError("shardwise.service-bank-short", exam=self.id, line=shortage)


class Exams:
    """Reads an exam when it is first asked for, and again when its policy file changes."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._read: dict[str, tuple[float, Exam]] = {}
        self._turn = threading.Lock()

    def ids(self) -> tuple[str, ...]:
        if self.folder is None or not self.folder.is_dir():
            return ()
        return tuple(sorted(path.stem for path in self.folder.glob("*.yaml")))

    def exam(self, id: str) -> Exam:
        """Raises CourseError where there is no such exam, or its files are wrong."""
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,63}", id) or id not in self.ids() or self.folder is None:
            raise CourseError("shardwise.service-no-exam", exam=id, known=", ".join(self.ids()) or "-")
        path = self.folder / f"{id}.yaml"
        with self._turn:
            changed = path.stat().st_mtime
            kept = self._read.get(id)
            if kept is None or kept[0] != changed:
                kept = self._read[id] = (changed, read(id, path))
            return kept[1]

    def title(self, id: str, language: str, *, own: str = "") -> str:
        """What an exam is called: its own title where a sitting has one, else the blueprint's, else its id."""
        if own:
            return own
        try:
            return self.exam(id).blueprint.called(language)
        except CourseError:  # its files are gone; what was taken is not
            return id


def read(id: str, path: Path) -> Exam:
    """An exam from its policy file."""
    policy = exam_policy(path)
    held = banks(policy.banks, public_bank=policy.public_bank)
    if not policy.public_bank and policy.banks:
        for each in held.held.values():
            if _said(each.content["item"]) in _public():
                raise CourseError("shardwise.service-bank-public", exam=id, item=each.item.id)
    return Exam(id=id, policy=policy, blueprint=blueprint(policy.blueprint), banks=held)


@functools.cache
def _public() -> frozenset[str]:
    """What the repository's bank asks."""
    return frozenset(_said(each.content["item"]) for each in banks((), public_bank=True).held.values())


def _said(fields: Mapping[str, Any]) -> str:
    """What an item asks, whatever it is called."""
    return " ".join(f"{fields['text']} {fields.get('code', '')}".split())


def kept(policy: ExamPolicy) -> dict[str, Any]:
    """A policy as an attempt keeps it."""
    return {**dataclasses.asdict(policy), "banks": len(policy.banks)}


def policy_of(data: Mapping[str, Any]) -> ExamPolicy:
    """The policy that an attempt kept; it no longer knows its folders."""
    practical = data["practical"]
    if practical is not None:
        practical = PracticalPolicy(
            **{**practical, "exercises": tuple(practical["exercises"]), "kinds": tuple(practical["kinds"])}
        )
    return ExamPolicy(**{**data, "banks": (), "practical": practical})
