"""Certificates: Open Badges 3.0 credentials that anyone can verify, without asking anybody.

``issue`` makes one from evidence of mastery, ``render`` shows it (PDF, PNG, SVG, JSON, JWT), ``verify`` judges any of
these. A practice certificate is signed with the learner's own key and proves neither identity nor supervision.

``issuer.issue`` makes an issuer's certificate of an exam, with a ``signing.Signer`` and a ``status.Place``; ``office``
keeps the issuer's folder; ``summary`` says what a certificate says.
"""

from certificates import keys
from certificates.credential import Certificate, issue
from certificates.evidence import Evidence, Result
from certificates.exam import ExamEvidence
from certificates.verification import Step, Verification, read, verify

__all__ = [
    "Certificate",
    "Evidence",
    "ExamEvidence",
    "Result",
    "Step",
    "Verification",
    "issue",
    "keys",
    "read",
    "verify",
]
