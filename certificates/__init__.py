"""Certificates: Open Badges 3.0 credentials that anyone can verify, without asking anybody.

``issue`` makes one from evidence of mastery, ``render`` shows it (PDF, PNG, SVG, JSON, JWT), ``verify`` judges any of
these. A practice certificate is signed with the learner's own key and proves neither identity nor supervision.
"""

from certificates import keys
from certificates.credential import Certificate, issue
from certificates.evidence import Evidence, Result
from certificates.verification import Step, Verification, read, verify

__all__ = ["Certificate", "Evidence", "Result", "Step", "Verification", "issue", "keys", "read", "verify"]
