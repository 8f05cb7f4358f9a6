"""What a check says of a file. It needs no torch: whoever reads verdicts need not run any."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a file holds, with points for the groups before the first failure.

    `failed_at` is "group/failure", None where all holds; `rank` is the rank that the message speaks of, if it is one.
    `finding` is what the message says of the file alone, without the points and the word to who wrote it.
    """

    passed: bool
    points: int
    of: int
    failed_at: str | None
    message: str
    finding: str
    rank: int | None
    printed: str = ""

    def as_dict(self) -> dict[str, object]:
        """What `shardwise check --json` prints."""
        return {name: getattr(self, name) for name in ("passed", "points", "of", "failed_at", "message", "rank")}
