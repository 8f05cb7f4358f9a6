"""The thresholds of quiz and mastery, read from `policy.yaml`, the one place where they stand."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

import yaml


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Shares are between 0 and 1."""

    mastery: float
    objective_mastery: float
    per_objective: int
    precheck: int
    misconception_repeats: int
    review_days: tuple[int, ...]
    review_at_most: int
    report_mail: str | None
    report_issues: str | None
    recall_at_most: float
    applied_at_least: float
    items_at_least: int
    anew_at_least: float
    checked_variants: int
    begun: tuple[str, ...]


@functools.cache
def policy() -> Policy:
    """The course's policy."""
    fields = yaml.safe_load((Path(__file__).parent / "policy.yaml").read_text(encoding="utf-8"))
    version = fields.pop("version")
    fields.pop("exam")  # read by `quiz.exam.policy`, from here or from an issuer's own file
    if version != 1:
        raise ValueError(f"policy.yaml has version {version}; this course reads version 1")
    return Policy(**{**fields, "begun": tuple(fields["begun"]), "review_days": tuple(fields["review_days"])})
