"""Certificates: how many are issued, verified and drawn in a second, on one core. `python -m tools.bench_certificates`
prints JSON. What an issuer's server does for a certificate is its JWT; a PDF or badge is drawn when somebody asks.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from certificates import render, verify
from certificates.issuer import issue
from certificates.status import Place, signed_list
from tests.certificates import issuers, samples
from tests.certificates.test_issued import served

SECONDS = 3.0


def rate(work: Callable[[int], object]) -> float:
    """How often a second, by this process's own time on the processor; warmed up once."""
    work(0)
    begun, done = time.process_time(), 0
    while time.process_time() - begun < SECONDS:
        done += 1
        work(done)
    return done / (time.process_time() - begun)


def main() -> None:
    from certificates import issue as practice

    certificate = issuers.issued()
    jwt, pdf = certificate.jwt.encode(), render.pdf(certificate, issuer=issuers.ISSUER)
    tampered = jwt[:-60] + bytes([jwt[-60] ^ 1]) + jwt[-59:]
    exam, revoked = issuers.exam(), range(0, 100_000, 100)
    place = {"issuer": issuers.ISSUER, "signer": issuers.SIGNER, "language": "en"}
    work: dict[str, Callable[[int], object]] = {
        "issue": lambda n: issue(exam, status=Place(number=1, index=n), **place),  # type: ignore[arg-type]
        "issue, practice": lambda _: practice(samples.evidence(), key=samples.KEY, language="en"),
        "status list of 1,000 revoked": lambda _: signed_list(
            issuer=issuers.ISSUER, signer=issuers.SIGNER, purpose="suspension", number=1, indices=revoked
        ),
        "verify": lambda _: verify(jwt, trust=issuers.TRUST, fetch=served),
        "verify a PDF": lambda _: verify(pdf, trust=issuers.TRUST, fetch=served),
        "refuse a tampered one": lambda _: verify(tampered, trust=issuers.TRUST, fetch=served),
        "draw a PDF": lambda _: render.pdf(certificate, issuer=issuers.ISSUER),
        "draw a badge (PNG)": lambda _: render.png(certificate, issuer=issuers.ISSUER),
        "draw a badge (SVG)": lambda _: render.svg(certificate, issuer=issuers.ISSUER),
    }
    print(json.dumps({name: rate(each) for name, each in work.items()}))


if __name__ == "__main__":
    main()
