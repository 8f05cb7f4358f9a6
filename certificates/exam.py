"""What a candidate has shown in an issuer's exam: everything that an issuer's certificate may say, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from certificates.evidence import Result


@dataclass(frozen=True, kw_only=True)
class ExamEvidence:
    """A passed exam, graded on the issuer's server. Shares are from 0 to 1; moments have a time zone.

    ``exam``: the exam's id, of ``a-z0-9-``. ``results``: one Result an objective that was asked. ``quiz_score``: the
    share of the answer sheet's credit, which must reach ``pass_mark``. ``labs``: one Result a practical task, apart
    from the quiz; ``labs_score`` must reach ``labs_mark``, and both are None where the exam has no practical part.
    ``attempt`` of ``attempts`` (None: as many as one likes). ``public_bank``: whether items came from the course's own
    bank, which anybody can read. ``attempt_hash``, ``bank_hash``, ``seed_hash``: ``sha256:`` and 64 hexadecimal digits
    (the seed stays on the server). ``holder``: the name; ``holder_other``: the same name in another script (Latin
    beside Arabic), if wanted. ``language``: the one in which the exam was taken. ``email`` leaves this object only as
    a salted hash. ``awarded_at``: when the exam was passed; ``expires_at``: when the certificate ends (None: never).
    """

    exam: str
    title: str
    holder: str
    results: tuple[Result, ...]
    quiz_score: float
    pass_mark: float
    attempt_hash: str
    bank_hash: str
    seed_hash: str
    course_version: str
    language: str
    awarded_at: datetime
    supervised: bool
    public_bank: bool
    attempt: int
    attempts: int | None
    labs: tuple[Result, ...] = ()
    labs_score: float | None = None
    labs_mark: float | None = None
    expires_at: datetime | None = None
    holder_other: str | None = None
    email: str | None = None
