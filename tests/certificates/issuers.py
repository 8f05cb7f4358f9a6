"""An issuer, an endorser and their certificates that tests share. The keys are public and worth nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from certificates import ExamEvidence, Result
from certificates.credential import Certificate
from certificates.issuer import Issuer, Signatory, issue
from certificates.signing import KeySigner
from certificates.status import Place
from certificates.trust import Party, PublicKey, Trust

DID = "did:web:university.example"
ADDRESS = "https://university.example"
ENDORSER_DID = "did:web:accreditation.example"
STRANGER_DID = "did:web:univers1ty.example"
EMAIL = "Noor@Example.org"
AT = datetime(2026, 11, 29, 12, 0, 5, tzinfo=UTC)
REPLACED = datetime(2026, 11, 15, tzinfo=UTC)
LOGO = (
    b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 120 40">'
    b'<path d="M20 4 36 12v10c0 8-7 13-16 15C11 35 4 30 4 22V12z" '
    b'fill="#123a63"/><path d="M12 15h16v3H12zm0 6h16v3H12zm0 6h10v3H12z" fill="#fff"/><circle cx="60" cy="20" r="9" '
    b'fill="none" stroke="#123a63" stroke-width="3"/><path d="M78 11h6v18h-6zM92 11h6v18h-6z" fill="#123a63"/></svg>'
)


def private(number: int) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)


def signer(number: int, *, did: str = DID, id: str | None = None) -> KeySigner:
    return KeySigner(did, id or f"{did}#key-{number}", private(number))


def public(number: int, *, did: str = DID, **more: Any) -> PublicKey:
    return PublicKey(id=f"{did}#key-{number}", public=private(number).public_key().public_bytes_raw(), **more)


ISSUER = Issuer(
    did=DID,
    address=ADDRESS,
    names={"en": "University of Example", "nl": "Universiteit van Voorbeeld", "ar": "جامعة المثال"},
    # The first was replaced in time; somebody else may have the second; the third signs.
    keys=(public(1, until=REPLACED), public(2, until=REPLACED, compromised=True), public(3)),
    signatory=Signatory(
        names={"en": "Prof. A. Jansen", "ar": "أ. د. آن يانسن"}, offices={"en": "Dean", "nl": "Decaan", "ar": "العميدة"}
    ),
    logo=LOGO,
)
SIGNER = signer(3)
ENDORSER = signer(8, did=ENDORSER_DID)
TRUST = Trust(
    issuers={DID: ISSUER.party},
    endorsers={
        ENDORSER_DID: Party(
            did=ENDORSER_DID,
            names={"en": "Example Accreditation"},
            keys=(public(8, did=ENDORSER_DID), public(9, did=ENDORSER_DID, compromised=True)),
        )
    },
)
PLACE = Place(number=1, index=7)


def exam(**changes: Any) -> ExamEvidence:
    """A passed exam with a practical part."""
    values: dict[str, Any] = {
        "exam": "course",
        "title": "Training large models across many GPUs",
        "holder": "Noor el-Amrani",
        "holder_other": "نور العمراني",
        "results": (
            Result(id="zero-1-bytes", title="Compute the model states of one rank under ZeRO-1", share=1.0),
            Result(id="zero-1-step", title="Put the parts of a ZeRO-1 step in order", share=0.75),
            Result(id="pipeline-bubble", title="Compute the bubble of a pipeline and what shrinks it", share=0.5),
            Result(id="tensor-traffic", title="Compute what tensor parallelism sends in each layer", share=1.0),
        ),
        "quiz_score": 0.85,
        "pass_mark": 0.8,
        "labs": (
            Result(id="zero-1", title="Write the step of ZeRO-1", share=1.0),
            Result(id="ring-attention", title="Repair ring attention", share=0.8),
        ),
        "labs_score": 0.9,
        "labs_mark": 0.8,
        "attempt_hash": f"sha256:{'a1' * 32}",
        "bank_hash": f"sha256:{'b2' * 32}",
        "seed_hash": f"sha256:{'c3' * 32}",
        "course_version": "0.1.0",
        "language": "en",
        "awarded_at": datetime(2026, 11, 28, 9, 30, tzinfo=UTC),
        "expires_at": datetime(2999, 1, 1, tzinfo=UTC),
        "supervised": True,
        "public_bank": False,
        "attempt": 1,
        "attempts": 3,
        "email": EMAIL,
    }
    return ExamEvidence(**(values | changes))


def exam_in(language: str, **changes: Any) -> ExamEvidence:
    """The same exam, taken in Dutch or Arabic."""
    words: dict[str, dict[str, Any]] = {
        "en": {},
        "nl": {
            "title": "Grote modellen trainen op veel GPU’s",
            "holder": "Daniëlle van der Sijpt-Çelik",
            "holder_other": None,
            "results": (
                Result(id="zero-1-bytes", title="De model states van één rank onder ZeRO-1 berekenen", share=1.0),
                Result(id="zero-1-step", title="De onderdelen van een ZeRO-1-stap op volgorde zetten", share=0.75),
                Result(id="pipeline-bubble", title="De bubble van een pipeline berekenen", share=0.5),
            ),
            "labs": (
                Result(id="zero-1", title="De stap van ZeRO-1 schrijven", share=1.0),
                Result(id="ring-attention", title="Ring attention herstellen", share=0.8),
            ),
        },
        "ar": {
            "title": "تدريب النماذج الكبيرة على عدد كبير من وحدات GPU",
            "holder": "نور الهدى بنت عبد الرحمن العمراني",
            "holder_other": "Noor el-Amrani",
            "results": (
                Result(id="zero-1-bytes", title="حساب حالات النموذج في رتبة واحدة ضمن ZeRO-1", share=1.0),
                Result(id="zero-1-step", title="ترتيب أجزاء خطوة ZeRO-1", share=0.75),
                Result(id="tensor-traffic", title="حساب حجم البيانات المتبادَلة في all-gather", share=0.5),
            ),
            "labs": (
                Result(id="zero-1", title="كتابة خطوة ZeRO-1", share=1.0),
                Result(id="ring-attention", title="إصلاح ring attention", share=0.8),
            ),
        },
    }
    return exam(**({"language": language} | words[language] | changes))


def issued(language: str = "en", **changes: Any) -> Certificate:
    """A certificate of an exam, always the same bytes."""
    return issue(
        exam_in(language, **changes),
        issuer=ISSUER,
        signer=SIGNER,
        status=PLACE,
        language=language,
        id="urn:uuid:7b1e6f0c-6a51-4c0e-9a39-3d2f5e8a9c10",
        salt="0123456789abcdef" * 4,
        at=AT,
    )
