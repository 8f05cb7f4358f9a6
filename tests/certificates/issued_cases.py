"""Certificates of an issuer, good and bad, each with what a verifier must say that has the issuer on its list.

One table for both verifiers: Python is given the list and these answers of the issuer's server as a function, the page
has the list pinned and gets the same answers over its network.
"""

from __future__ import annotations

import base64
import copy
import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from certificates import render, signing, status
from certificates.credential import Certificate
from certificates.endorsement import endorse
from certificates.issuer import reissue, renew
from certificates.keys import Key
from certificates.strict import encode_base64url
from tests.certificates import issuers
from tests.certificates.issuers import ADDRESS, DID, ISSUER, SIGNER, private, signer

Payload = dict[str, Any]
Change = Callable[[Payload], object]
UNTIL = timedelta(days=300_000)
SUSPENDED, REVOKED = 8, 9
SLASH = "did:web:university.example%2F.evil.example"


@dataclass(frozen=True)
class Expected:
    """Verdict, first failing step and reason; ``email`` is what the verifier was given."""

    verdict: str
    step: str | None = None
    reason: str | None = None
    email: str | None = None


@dataclass(frozen=True)
class Answer:
    """What the issuer's server says: a status, a body, and where it sends on to."""

    body: bytes = b""
    status: int = 200
    location: str | None = None


def put(path: str, value: object) -> Change:
    """Sets a value at a dotted path."""

    def change(body: Payload) -> None:
        *way, last = (int(each) if each.isdigit() else each for each in path.split("."))
        target: Any = body
        for each in way:
            target = target[each]
        target[last] = value

    return change


def drop(path: str) -> Change:
    """Takes away what is at a dotted path."""

    def change(body: Payload) -> None:
        *way, last = (int(each) if each.isdigit() else each for each in path.split("."))
        target: Any = body
        for each in way:
            target = target[each]
        del target[last]

    return change


def token(body: Payload, *, by: signing.Signer = SIGNER, **header: Any) -> bytes:
    """Signed over exactly this; a header's field of None is left out."""
    head: dict[str, Any] = {
        "alg": "EdDSA",
        "jwk": {"crv": "Ed25519", "kty": "OKP", "x": encode_base64url(by.public_key)},
        "kid": by.key_id,
        "typ": "JWT",
    }
    head = {name: value for name, value in (head | header).items() if value is not None}
    parts = [encode_base64url(json.dumps(each, ensure_ascii=False).encode()) for each in (head, body)]
    signed = ".".join(parts)
    return f"{signed}.{encode_base64url(by.sign(signed.encode()))}".encode()


def edited(*changes: Change, by: signing.Signer = SIGNER, header: dict[str, Any] | None = None) -> bytes:
    """A well signed certificate that says something else."""
    body = copy.deepcopy(dict(issuers.issued().credential))
    for change in changes:
        change(body)
    return token(body, by=by, **(header or {}))


def by_other(number: int, **more: Any) -> dict[str, Any]:
    return {"by": signer(number), **more}


def dated(since: datetime) -> list[Change]:
    return [
        put("awardedDate", status.moment(since)),
        put("validFrom", status.moment(since)),
        put("nbf", int(since.timestamp())),
    ]


def placed(number: int, index: int = 7) -> Change:
    """At another place: list ``number`` is described in `answers`."""
    return put("credentialStatus", status.entry(ISSUER, status.Place(number=number, index=index)))


def pointing(address: str, index: int = 7) -> Change:
    return put(
        "credentialStatus",
        status.entry(ISSUER, issuers.PLACE) | {"id": f"{address}#{index}", "statusListCredential": address},
    )


def named(did: str) -> list[Change]:
    return [put("issuer.id", did), put("iss", did)]


def result(kind: str, value: str) -> Change:
    return _each("credentialSubject.result", "resultDescription", kind, "value", value)


def mark(kind: str, value: str | None) -> Change:
    return _each("credentialSubject.achievement.resultDescription", "id", kind, "requiredValue", value)


def _each(path: str, name: str, kind: str, field: str, value: str | None) -> Change:
    def change(body: Payload) -> None:
        rows: Any = body
        for step in path.split("."):
            rows = rows[step]
        for row in rows:
            if row[name].endswith(kind):
                if value is None:
                    row.pop(field, None)
                else:
                    row[field] = value

    return change


def evidence(genre: str, value: str | None) -> Change:
    def change(body: Payload) -> None:
        body["evidence"] = [each for each in body["evidence"] if each["genre"] != genre]
        if value is not None:
            body["evidence"].append({"type": ["Evidence"], "genre": genre, "narrative": value})

    return change


def endorsement(subject: str = DID, *, by: signing.Signer = issuers.ENDORSER, **more: Any) -> str:
    values: dict[str, Any] = {
        "name": "Example Accreditation",
        "title": "Accredited",
        "at": issuers.AT,
        "id": "urn:uuid:11111111-2222-4333-8444-555555555555",
    }
    return endorse(subject, signer=by, **(values | more))


def altered(jwt: str) -> str:
    """The same token with an empty signature."""
    return f"{jwt.rpartition('.')[0]}.{encode_base64url(bytes(64))}"


def changed(jwt: str, change: Change, *, by: signing.Signer) -> str:
    """Its payload changed, and signed again."""
    payload = jwt.split(".")[1]
    body = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    change(body)
    return token(body, by=by).decode()


def signed_list(
    number: int, indices: tuple[int, ...] = (), *, purpose: status.Purpose = "suspension", **more: Any
) -> str:
    values: dict[str, Any] = {"signer": SIGNER, "at": issuers.AT, "valid_for": UNTIL, "issuer": ISSUER}
    return status.signed_list(purpose=purpose, number=number, indices=indices, **(values | more))


def _bits(raw: bytes) -> str:
    return "u" + encode_base64url(raw)


def answers() -> dict[str, Answer]:
    """Address -> what is found there. Each bad list has a number of its own."""
    good = signed_list(1, (SUSPENDED, REVOKED))
    other_issuer = replace(ISSUER, did=issuers.STRANGER_DID)
    stranger = signer(3, did=issuers.STRANGER_DID)
    long_ago = datetime(2020, 1, 1, tzinfo=UTC)

    def rewritten(number: int, *changes: Change, by: signing.Signer = SIGNER, **header: Any) -> str:
        payload = signed_list(number).split(".")[1]
        body = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        for change in changes:
            change(body)
        return token(body, by=by, **header).decode()

    empty = gzip.compress(bytes(status.SIZE // 8), mtime=0)
    lists: dict[int, Answer | str] = {
        1: good,
        2: good,  # another list under this address
        3: signed_list(3, signer=signer(66, id=f"{DID}#key-3")),
        4: signed_list(4, signer=signer(2)),
        5: signed_list(5, at=long_ago, valid_for=timedelta(days=1)),
        6: signed_list(6, at=datetime(2999, 1, 1, tzinfo=UTC), valid_for=timedelta(days=1)),
        7: rewritten(7, put("credentialSubject.statusPurpose", "revocation")),
        8: Answer(status=302, location=f"{ADDRESS}/status/suspension/1.jwt"),
        9: Answer(b"A" * 300_000),
        10: Answer(b"not here", status=404),
        11: Answer(b"<!doctype html><title>Maintenance</title>"),
        12: rewritten(12, put("credentialSubject.encodedList", _bits(gzip.compress(bytes(100_000_000), mtime=0)))),
        13: rewritten(13, put("credentialSubject.encodedList", _bits(gzip.compress(b"\0", mtime=0)))),
        14: signed_list(14, issuer=other_issuer, signer=stranger),
        15: rewritten(15, put("exp", 32472144000)),
        16: Answer(token_with_twice(signed_list(16))),
        17: rewritten(17, put("credentialSubject.encodedList", _bits(empty + b"more"))),
        18: signed_list(18, (7,)),  # and no list of revocations beside it
        19: signed_list(19, signer=signer(1)),
        20: rewritten(20, kid=None, jwk=None),
        21: rewritten(21, alg="none"),
        22: Answer(issuers.issued().jwt.encode()),
        23: Answer(b""),
        24: rewritten(24, put("credentialSubject.encodedList", encode_base64url(empty))),
        25: rewritten(25, put("credentialSubject.statusSize", 2)),
        26: Answer(b"", status=500),
        27: rewritten(27, put("credentialSubject.encodedList", _bits(empty[:-4]))),
        28: Answer(altered(signed_list(28)).encode()),
        29: rewritten(29, drop("validUntil"), drop("exp")),
        30: rewritten(30, put("credentialSubject.encodedList", "u!!!")),
        31: rewritten(31, put("jti", f"{ADDRESS}/status/suspension/1.jwt")),
        32: rewritten(32, put("type", ["VerifiableCredential"])),
        33: rewritten(33, kid=f"{issuers.STRANGER_DID}#key-3"),
        34: signed_list(34, signer=signer(4)),
    }
    found = {status.address(ISSUER, "suspension", number): _answer(each) for number, each in lists.items()}
    found[status.address(ISSUER, "revocation", 1)] = _answer(signed_list(1, (REVOKED,), purpose="revocation"))
    found[status.address(ISSUER, "revocation", 18)] = Answer(status=404)
    return found


def _answer(found: Answer | str) -> Answer:
    return found if isinstance(found, Answer) else Answer(found.encode())


def token_with_twice(jwt: str) -> bytes:
    """A list whose JSON gives one field twice, signed as it stands."""
    head, payload, _ = jwt.split(".")
    text = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
    doubled = text.replace(b"{", b'{"jti":"x",', 1)
    signed = f"{head}.{encode_base64url(doubled)}"
    return f"{signed}.{encode_base64url(SIGNER.sign(signed.encode()))}".encode()


def carried(jwt: str | bytes, form: Callable[[Certificate], bytes]) -> bytes:
    """The looks of the valid certificate around another token."""
    return form(replace(issuers.issued(), jwt=jwt.decode() if isinstance(jwt, bytes) else jwt))


def renamed(jwt: str) -> str:
    """Another name under the old signature."""
    head, payload, signature = jwt.split(".")
    text = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)).replace(b"Noor", b"Eve ")
    return f"{head}.{encode_base64url(text)}.{signature}"


def cases() -> dict[str, tuple[bytes, Expected]]:
    """File name -> (bytes, what a verifier with the list says)."""
    good = issuers.issued()
    jwt = good.jwt
    issuer = Expected("issuer")
    hidden = Expected("status-not-checked")
    objective = "credentialSubject.achievement.resultDescription"
    name = "credentialSubject.identifier.0.identityHash"
    holder_key = Key(private(50))

    def bad(step: str, reason: str, **more: str) -> Expected:
        return Expected("invalid", step, f"{step}-{reason}", **more)

    def unknown(reason: str) -> Expected:
        return Expected("unknown-issuer", "issuer", f"issuer-{reason}")

    listed: dict[str, tuple[bytes, Expected]] = {
        # In order
        "issued_valid.jwt": (jwt.encode(), issuer),
        "issued_valid.json": (render.json(good), issuer),
        "issued_valid.png": (render.png(good, issuer=ISSUER), issuer),
        "issued_valid.svg": (render.svg(good, issuer=ISSUER), issuer),
        "issued_valid.pdf": (render.pdf(good, issuer=ISSUER), issuer),
        "issued_in_dutch.jwt": (issuers.issued("nl").jwt.encode(), issuer),
        "issued_in_arabic.jwt": (issuers.issued("ar").jwt.encode(), issuer),
        "issued_in_arabic.pdf": (render.pdf(issuers.issued("ar"), issuer=ISSUER), issuer),
        "issued_to_the_holder.jwt": (jwt.encode(), Expected("issuer", email="noor@example.org")),
        "issued_without_labs.jwt": (issuers.issued(labs=(), labs_score=None, labs_mark=None).jwt.encode(), issuer),
        "issued_without_end.jwt": (issuers.issued(expires_at=None).jwt.encode(), issuer),
        "issued_from_the_public_bank.jwt": (issuers.issued(public_bank=True, attempts=None).jwt.encode(), issuer),
        "issued_and_renamed.jwt": (
            reissue(
                good.credential,
                holder="Nour el-Amrani",
                issuer=ISSUER,
                signer=SIGNER,
                status=status.Place(number=1, index=70),
                language="en",
                id="urn:uuid:7b1e6f0c-6a51-4c0e-9a39-3d2f5e8a9c11",
                at=issuers.AT + timedelta(hours=1),
            ).jwt.encode(),
            issuer,
        ),
        "issued_and_renewed.jwt": (
            renew(
                good.credential,
                expires_at=datetime(2998, 1, 1, tzinfo=UTC),
                issuer=ISSUER,
                signer=SIGNER,
                status=status.Place(number=1, index=71),
                language="en",
                id="urn:uuid:7b1e6f0c-6a51-4c0e-9a39-3d2f5e8a9c12",
                at=issuers.AT + timedelta(hours=1),
            ).jwt.encode(),
            issuer,
        ),
        "issued_by_the_old_key_in_its_time.jwt": (
            edited(*dated(datetime(2026, 11, 1, tzinfo=UTC)), by=signer(1)),
            issuer,
        ),
        "issued_without_key_id.jwt": (edited(header={"kid": None}), issuer),
        "issued_without_key.jwt": (edited(header={"jwk": None}), issuer),
        "issued_and_endorsed.jwt": (edited(put("issuer.endorsementJwt", [endorsement()])), Expected("endorsed")),
        "issued_and_itself_endorsed.jwt": (
            edited(put("endorsementJwt", [endorsement(good.id)])),
            Expected("endorsed"),
        ),
        "endorsed_by_somebody_unknown.jwt": (
            edited(put("issuer.endorsementJwt", [endorsement(by=signer(5, did="did:web:friends.example"))])),
            issuer,
        ),
        "endorsed_by_an_unlisted_key.jwt": (
            edited(put("issuer.endorsementJwt", [endorsement(by=signer(5, did=issuers.ENDORSER_DID))])),
            issuer,
        ),
        "endorsed_by_a_compromised_key.jwt": (
            edited(put("issuer.endorsementJwt", [endorsement(by=signer(9, did=issuers.ENDORSER_DID))])),
            issuer,
        ),
        "endorsed_until_last_year.jwt": (
            edited(
                put(
                    "issuer.endorsementJwt",
                    [endorsement(at=datetime(2020, 1, 1, tzinfo=UTC), expires_at=datetime(2025, 1, 1, tzinfo=UTC))],
                )
            ),
            issuer,
        ),
        # The server doesn't answer: never shown as valid
        "status_not_found.jwt": (edited(placed(10)), hidden),
        "status_server_broken.jwt": (edited(placed(26)), hidden),
        "status_list_nowhere.jwt": (edited(placed(999)), hidden),
        "list_signed_by_a_new_key.jwt": (edited(placed(34)), hidden),
        # Status
        "suspended.jwt": (edited(placed(1, SUSPENDED)), bad("revocation", "suspended")),
        "revoked.jwt": (edited(placed(1, REVOKED)), bad("revocation", "revoked")),
        "revoked.pdf": (carried(edited(placed(1, REVOKED)), render.pdf), bad("revocation", "revoked")),
        "revoked_or_suspended.jwt": (edited(placed(18)), bad("revocation", "set")),
        "revoked_and_expired.jwt": (
            edited(
                placed(1, REVOKED),
                *dated(datetime(2026, 11, 28, tzinfo=UTC)),
                put("validUntil", "2026-11-28T00:00:01Z"),
                put("exp", 1795824001),
            ),
            bad("dates", "expired"),
        ),
        "status_missing.jwt": (edited(drop("credentialStatus")), bad("revocation", "missing")),
        "status_at_another_host.jwt": (
            edited(pointing("https://evil.example/status/suspension/1.jwt")),
            bad("revocation", "elsewhere"),
        ),
        "status_at_a_longer_host.jwt": (
            edited(pointing("https://university.example.evil.example/status/suspension/1.jwt")),
            bad("revocation", "elsewhere"),
        ),
        "status_behind_a_user_name.jwt": (
            edited(pointing("https://university.example@evil.example/status/suspension/1.jwt")),
            bad("revocation", "elsewhere"),
        ),
        "status_at_another_port.jwt": (
            edited(pointing("https://university.example:8443/status/suspension/1.jwt")),
            bad("revocation", "elsewhere"),
        ),
        "status_outside_of_the_path.jwt": (
            edited(pointing(f"{ADDRESS}/uploads/1.jwt")),
            bad("revocation", "elsewhere"),
        ),
        "status_up_the_path.jwt": (
            edited(pointing(f"{ADDRESS}/status/../uploads/1.jwt")),
            bad("revocation", "elsewhere"),
        ),
        "status_up_an_encoded_path.jwt": (
            edited(pointing(f"{ADDRESS}/status/%2e%2e/uploads/1.jwt")),
            bad("revocation", "elsewhere"),
        ),
        "status_with_a_query.jwt": (
            edited(pointing(f"{ADDRESS}/status/suspension/1.jwt?old=1")),
            bad("revocation", "elsewhere"),
        ),
        "status_with_a_double_slash.jwt": (
            edited(pointing(f"{ADDRESS}/status//suspension/1.jwt")),
            bad("revocation", "elsewhere"),
        ),
        "status_without_tls.jwt": (
            edited(pointing("http://university.example/status/suspension/1.jwt")),
            bad("format", "shape"),
        ),
        "status_by_script.jwt": (edited(pointing("javascript:alert(1)")), bad("format", "shape")),
        "status_id_of_another.jwt": (
            edited(put("credentialStatus.id", f"{ADDRESS}/status/suspension/1.jwt#8")),
            bad("revocation", "malformed"),
        ),
        "status_index_outside.jwt": (edited(placed(1, 131_072)), bad("revocation", "malformed")),
        "status_index_negative.jwt": (edited(put("credentialStatus.statusListIndex", "-1")), bad("format", "shape")),
        "status_index_padded.jwt": (edited(put("credentialStatus.statusListIndex", "07")), bad("format", "shape")),
        "status_index_a_number.jwt": (edited(put("credentialStatus.statusListIndex", 7)), bad("format", "shape")),
        "status_of_another_purpose.jwt": (
            edited(put("credentialStatus.statusPurpose", "message")),
            bad("format", "shape"),
        ),
        "status_of_two_bits.jwt": (edited(put("credentialStatus.statusSize", 2)), bad("format", "shape")),
        "status_of_another_type.jwt": (
            edited(put("credentialStatus.type", "StatusList2021Entry")),
            bad("format", "shape"),
        ),
        "status_twice.jwt": (
            edited(lambda body: put("credentialStatus", [body["credentialStatus"]])(body)),
            bad("format", "shape"),
        ),
        "status_empty.jwt": (edited(put("credentialStatus", {})), bad("format", "shape")),
        "list_of_another_address.jwt": (edited(placed(2)), bad("revocation", "list-other")),
        "list_signed_by_another_key.jwt": (edited(placed(3)), bad("revocation", "list-signature")),
        "list_signed_by_a_compromised_key.jwt": (edited(placed(4)), bad("revocation", "list-signature")),
        "list_out_of_date.jwt": (edited(placed(5)), bad("revocation", "list-stale")),
        "list_of_the_future.jwt": (edited(placed(6)), bad("revocation", "list-stale")),
        "list_of_another_purpose.jwt": (edited(placed(7)), bad("revocation", "list-purpose")),
        "list_behind_a_redirect.jwt": (edited(placed(8)), bad("revocation", "redirect")),
        "list_too_large.jwt": (edited(placed(9)), bad("revocation", "large")),
        "list_is_a_web_page.jwt": (edited(placed(11)), bad("revocation", "list")),
        "list_is_a_bomb.jwt": (edited(placed(12)), bad("revocation", "list")),
        "list_too_short.jwt": (edited(placed(13)), bad("revocation", "list")),
        "list_of_another_issuer.jwt": (edited(placed(14)), bad("revocation", "list-other")),
        "list_with_two_ends.jwt": (edited(placed(15)), bad("revocation", "list")),
        "list_with_a_field_twice.jwt": (edited(placed(16)), bad("revocation", "list")),
        "list_with_more_behind.jwt": (edited(placed(17)), bad("revocation", "list")),
        "list_signed_by_a_replaced_key.jwt": (edited(placed(19)), bad("revocation", "list")),
        "list_that_names_no_key.jwt": (edited(placed(20)), bad("revocation", "list-signature")),
        "list_without_algorithm.jwt": (edited(placed(21)), bad("revocation", "list")),
        "list_is_a_certificate.jwt": (edited(placed(22)), bad("revocation", "list")),
        "list_empty.jwt": (edited(placed(23)), bad("revocation", "list")),
        "list_without_multibase.jwt": (edited(placed(24)), bad("revocation", "list")),
        "list_of_two_bits.jwt": (edited(placed(25)), bad("revocation", "list")),
        "list_truncated.jwt": (edited(placed(27)), bad("revocation", "list")),
        "list_with_altered_signature.jwt": (edited(placed(28)), bad("revocation", "list-signature")),
        "list_without_end.jwt": (edited(placed(29)), bad("revocation", "list")),
        "list_not_base64.jwt": (edited(placed(30)), bad("revocation", "list")),
        "list_with_another_claim.jwt": (edited(placed(31)), bad("revocation", "list-other")),
        "list_of_another_type.jwt": (edited(placed(32)), bad("revocation", "list")),
        "list_with_anothers_key_id.jwt": (edited(placed(33)), bad("revocation", "list-signature")),
        # Keys
        "issued_by_a_compromised_key.jwt": (
            edited(*dated(datetime(2026, 11, 1, tzinfo=UTC)), by=signer(2)),
            bad("issuer", "key-compromised"),
        ),
        "issued_by_a_replaced_key.jwt": (edited(by=signer(1)), bad("issuer", "key-retired")),
        "issued_by_a_new_key.jwt": (edited(by=signer(4)), unknown("key-unlisted")),
        "issued_with_no_key_named.jwt": (edited(header={"jwk": None, "kid": None}), unknown("key-unlisted")),
        "issued_by_another_under_the_listed_key_id.jwt": (
            edited(by=signer(66, id=f"{DID}#key-3")),
            bad("signature", "other-key"),
        ),
        "issued_by_another_without_key.jwt": (
            edited(by=signer(66, id=f"{DID}#key-3"), header={"jwk": None}),
            bad("signature", "fail"),
        ),
        "issued_by_another_with_the_listed_key.jwt": (
            edited(
                by=signer(66, id=f"{DID}#key-3"),
                header={"jwk": {"crv": "Ed25519", "kty": "OKP", "x": encode_base64url(SIGNER.public_key)}},
            ),
            bad("signature", "fail"),
        ),
        "issued_with_a_key_id_of_another.jwt": (
            edited(header={"kid": f"{issuers.STRANGER_DID}#key-3"}),
            bad("signature", "other-key"),
        ),
        "issued_with_a_loose_key.jwt": (
            edited(
                header={"jwk": {"crv": "Ed25519", "kty": "OKP", "x": encode_base64url(SIGNER.public_key)[:-1] + "F"}}
            ),
            bad("format", "base64"),
        ),
        "issued_renamed_after.jwt": (renamed(jwt).encode(), bad("signature", "fail")),
        "issued_renamed_after.png": (carried(renamed(jwt), render.png), bad("signature", "fail")),
        "issued_renamed_after.svg": (carried(renamed(jwt), render.svg), bad("signature", "fail")),
        "issued_renamed_after.pdf": (carried(renamed(jwt), render.pdf), bad("signature", "fail")),
        "issued_renamed_after.json": (carried(renamed(jwt), render.json), bad("signature", "fail")),
        "issued_with_altered_signature.jwt": (altered(jwt).encode(), bad("signature", "fail")),
        # Issuers that are not on the list, whatever they call themselves
        "stranger.jwt": (
            edited(*named(issuers.STRANGER_DID), by=signer(7, did=issuers.STRANGER_DID)),
            unknown("stranger"),
        ),
        "stranger_without_key.jwt": (
            edited(*named(issuers.STRANGER_DID), by=signer(7, did=issuers.STRANGER_DID), header={"jwk": None}),
            unknown("stranger"),
        ),
        "stranger_altered.jwt": (
            altered(edited(*named(issuers.STRANGER_DID), by=signer(7, did=issuers.STRANGER_DID)).decode()).encode(),
            bad("signature", "fail"),
        ),
        "stranger_with_the_issuers_key.jwt": (
            edited(*named(issuers.STRANGER_DID), by=signer(3, did=issuers.STRANGER_DID)),
            unknown("stranger"),
        ),
        "stranger_below_the_domain.jwt": (
            edited(*named(f"{DID}:eve"), by=signer(3, did=f"{DID}:eve")),
            unknown("stranger"),
        ),
        "stranger_encoded.jwt": (
            edited(*named("did:web:university%2Eexample"), by=signer(3, did="did:web:university%2Eexample")),
            unknown("stranger"),
        ),
        "stranger_with_a_slash.jwt": (
            edited(*named(SLASH), by=signer(7, did=SLASH)),
            unknown("stranger"),
        ),
        "stranger_in_capitals.jwt": (
            edited(*named("did:web:University.example"), by=signer(3, did="did:web:University.example")),
            unknown("stranger"),
        ),
        "stranger_at_a_port.jwt": (
            edited(*named("did:web:university.example%3A8443"), by=signer(3, did="did:web:university.example%3A8443")),
            unknown("stranger"),
        ),
        "stranger_expired.jwt": (
            edited(
                *named(issuers.STRANGER_DID),
                *dated(datetime(2020, 1, 1, tzinfo=UTC)),
                put("validUntil", "2021-01-01T00:00:00Z"),
                put("exp", 1609459200),
                by=signer(7, did=issuers.STRANGER_DID),
            ),
            Expected("invalid", "issuer", "issuer-stranger"),
        ),
        "exam_issued_by_its_holder.jwt": (
            edited(*named(holder_key.did), by=signing.KeySigner(holder_key.did, holder_key.did, holder_key.private)),
            bad("format", "shape"),
        ),
        "endorser_as_issuer.jwt": (
            edited(*named(issuers.ENDORSER_DID), by=issuers.ENDORSER),
            unknown("stranger"),
        ),
        # Endorsements
        "endorsement_of_another_issuer.jwt": (
            edited(put("issuer.endorsementJwt", [endorsement(issuers.STRANGER_DID)])),
            bad("issuer", "endorsement-other"),
        ),
        "endorsement_of_another_certificate.jwt": (
            edited(put("endorsementJwt", [endorsement("urn:uuid:7b1e6f0c-6a51-4c0e-9a39-3d2f5e8a9c99")])),
            bad("issuer", "endorsement-other"),
        ),
        "endorsement_of_the_issuer_at_the_certificate.jwt": (
            edited(put("endorsementJwt", [endorsement()])),
            bad("issuer", "endorsement-other"),
        ),
        "endorsement_by_the_issuer_itself.jwt": (
            edited(put("issuer.endorsementJwt", [endorsement(by=SIGNER)])),
            bad("issuer", "endorsement-self"),
        ),
        "endorsement_with_altered_signature.jwt": (
            edited(put("issuer.endorsementJwt", [altered(endorsement())])),
            bad("issuer", "endorsement-signature"),
        ),
        "endorsement_by_another_key_under_the_listed_id.jwt": (
            edited(
                put(
                    "issuer.endorsementJwt",
                    [endorsement(by=signer(66, did=issuers.ENDORSER_DID, id=f"{issuers.ENDORSER_DID}#key-8"))],
                )
            ),
            bad("issuer", "endorsement-signature"),
        ),
        "endorsement_that_contradicts_itself.jwt": (
            edited(
                put(
                    "issuer.endorsementJwt",
                    [changed(endorsement(), put("sub", issuers.STRANGER_DID), by=issuers.ENDORSER)],
                )
            ),
            bad("issuer", "endorsement-malformed"),
        ),
        "endorsement_is_a_certificate.jwt": (
            edited(put("issuer.endorsementJwt", [jwt])),
            bad("issuer", "endorsement-malformed"),
        ),
        "endorsement_one_good_one_bad.jwt": (
            edited(put("issuer.endorsementJwt", [endorsement(), altered(endorsement())])),
            bad("issuer", "endorsement-signature"),
        ),
        "endorsement_not_a_token.jwt": (edited(put("issuer.endorsementJwt", ["hello"])), bad("format", "shape")),
        "endorsement_too_many.jwt": (
            edited(put("issuer.endorsementJwt", [endorsement()] * 5)),
            bad("format", "shape"),
        ),
        # Something else than a certificate, or of another shape
        "a_status_list.jwt": (signed_list(1).encode(), bad("format", "type")),
        "an_endorsement.jwt": (endorsement().encode(), bad("format", "type")),
        "issued_with_unknown_field.jwt": (edited(put("note", "with honours")), bad("format", "shape")),
        "issued_with_a_proof_too.jwt": (edited(put("proof", {"type": "DataIntegrityProof"})), bad("format", "shape")),
        "issued_with_a_holder_id.jwt": (edited(put("sub", "did:web:eve.example")), bad("format", "shape")),
        "issued_without_award.jwt": (edited(drop("awardedDate")), bad("format", "shape")),
        "issued_without_address.jwt": (edited(drop("issuer.url")), bad("format", "shape")),
        "issued_with_active_address.jwt": (edited(put("issuer.url", "javascript:alert(1)")), bad("format", "shape")),
        "issued_with_an_image.jwt": (
            edited(put("issuer.image", "https://evil.example/pixel.png")),
            bad("format", "shape"),
        ),
        "issued_with_other_context.jwt": (
            edited(put("@context", ["https://www.w3.org/ns/credentials/v2", "https://evil.example/context"])),
            bad("format", "shape"),
        ),
        "issued_with_other_schema.jwt": (
            edited(put("credentialSchema", [{"id": "https://evil.example/schema", "type": "JsonSchema"}])),
            bad("format", "shape"),
        ),
        "issued_to_four_names.jwt": (
            edited(
                put(
                    "credentialSubject.identifier",
                    [
                        {"type": "IdentityObject", "hashed": False, "identityHash": f"Name {n}", "identityType": "name"}
                        for n in "ABCD"
                    ],
                )
            ),
            bad("format", "shape"),
        ),
        "issued_of_a_badge_type.jwt": (
            edited(put("credentialSubject.achievement.achievementType", "Badge")),
            bad("format", "shape"),
        ),
        "issued_to_a_bidi_name.jwt": (edited(put(name, "Noor \u202einarmA-le\u202c")), bad("format", "text")),
        "issued_to_an_invisible_name.jwt": (edited(put(name, "No\u2060or")), bad("format", "text")),
        "issued_to_a_private_character.jwt": (edited(put(name, "Noor \ufeff")), bad("format", "text")),
        "issued_to_a_decomposed_name.jwt": (edited(put(name, "Noe\u0308l")), bad("format", "text")),
        "issued_to_a_long_name.jwt": (edited(put(name, "N" * 201)), bad("format", "shape")),
        "issued_with_bidi_title.jwt": (edited(put("name", "Exam \u2067passed")), bad("format", "text")),
        "issued_with_bidi_objective.jwt": (
            edited(put(f"{objective}.1.name", "Objective\u202e")),
            bad("format", "text"),
        ),
        "issued_with_issuer_twice.jwt": (edited(put("iss", issuers.STRANGER_DID)), bad("format", "claims")),
        "issued_with_id_twice.jwt": (
            edited(put("jti", "urn:uuid:7b1e6f0c-6a51-4c0e-9a39-3d2f5e8a9c99")),
            bad("format", "claims"),
        ),
        "issued_under_an_address.jwt": (
            edited(put("id", f"{ADDRESS}/c/1"), put("jti", f"{ADDRESS}/c/1")),
            bad("format", "shape"),
        ),
        # Dates
        "issued_and_expired.jwt": (
            edited(
                *dated(datetime(2026, 11, 1, tzinfo=UTC)),
                put("validUntil", "2026-11-02T00:00:00Z"),
                put("exp", 1793577600),
            ),
            bad("dates", "expired"),
        ),
        "issued_in_the_future.jwt": (edited(*dated(datetime(2998, 1, 1, tzinfo=UTC))), bad("dates", "future")),
        "issued_before_the_award.jwt": (
            edited(put("awardedDate", "2026-11-30T00:00:00Z")),
            bad("dates", "impossible"),
        ),
        "awarded_on_no_day.jwt": (edited(put("awardedDate", "2026-02-30T00:00:00Z")), bad("dates", "impossible")),
        "issued_with_two_ends.jwt": (edited(put("exp", 1795953606)), bad("dates", "differ")),
        "issued_with_hidden_end.jwt": (edited(drop("validUntil")), bad("dates", "differ")),
        "issued_with_fraction.jwt": (edited(put("nbf", 1795953605.5)), bad("format", "shape")),
        # Recipient
        "issued_to_somebody_else.jwt": (
            jwt.encode(),
            bad("recipient", "fail", email="eve@example.org"),
        ),
        # Results and evidence
        "quiz_below_its_mark.jwt": (edited(result(":quiz", "79.9")), bad("evidence", "below")),
        "labs_below_their_mark.jwt": (edited(result(":labs", "12")), bad("evidence", "below")),
        "quiz_without_mark.jwt": (edited(mark(":quiz", None)), bad("evidence", "malformed")),
        "labs_without_mark.jwt": (edited(mark(":labs", None)), bad("evidence", "malformed")),
        "objective_with_mark.jwt": (edited(mark(":objective:zero-1-step", "0")), bad("evidence", "malformed")),
        "objective_above_all.jwt": (edited(result(":objective:zero-1-step", "101")), bad("evidence", "range")),
        "lab_in_other_digits.jwt": (edited(result(":lab:zero-1", "٩٠")), bad("evidence", "range")),
        "quiz_not_a_number.jwt": (edited(result(":quiz", "NaN")), bad("evidence", "range")),
        "quiz_with_two_decimals.jwt": (edited(result(":quiz", "85.55")), bad("evidence", "range")),
        "quiz_padded.jwt": (edited(result(":quiz", "085")), bad("evidence", "range")),
        "mark_above_all.jwt": (edited(mark(":quiz", "1000")), bad("evidence", "range")),
        "quiz_missing.jwt": (
            edited(drop("credentialSubject.result.0"), drop(f"{objective}.0")),
            bad("evidence", "malformed"),
        ),
        "labs_without_their_sum.jwt": (
            edited(drop("credentialSubject.result.5"), drop(f"{objective}.5")),
            bad("evidence", "malformed"),
        ),
        "result_undescribed.jwt": (edited(drop(f"{objective}.1")), bad("evidence", "malformed")),
        "result_not_given.jwt": (edited(drop("credentialSubject.result.1")), bad("evidence", "malformed")),
        "exam_result_twice.jwt": (
            edited(lambda body: body["credentialSubject"]["result"].append(body["credentialSubject"]["result"][1])),
            bad("evidence", "malformed"),
        ),
        "result_of_another_exam.jwt": (
            edited(
                put("credentialSubject.result.1.resultDescription", "urn:shardwise:exam:other:objective:x"),
                put(f"{objective}.1.id", "urn:shardwise:exam:other:objective:x"),
            ),
            bad("evidence", "malformed"),
        ),
        "attempt_beyond_the_last.jwt": (edited(evidence("attempt-number", "4/3")), bad("evidence", "malformed")),
        "attempt_zero.jwt": (edited(evidence("attempt-number", "0/3")), bad("evidence", "malformed")),
        "attempt_not_told.jwt": (edited(evidence("attempt-number", None)), bad("evidence", "malformed")),
        "items_not_told.jwt": (edited(evidence("items", None)), bad("evidence", "malformed")),
        "items_secret.jwt": (edited(evidence("items", "secret")), bad("evidence", "malformed")),
        "supervision_not_told.jwt": (edited(evidence("supervised", None)), bad("evidence", "malformed")),
        "supervision_unclear.jwt": (edited(evidence("supervised", "partly")), bad("evidence", "malformed")),
        "seed_told.jwt": (edited(evidence("seed", "20261130")), bad("evidence", "malformed")),
        "attempt_hash_short.jwt": (edited(evidence("attempt", "sha256:a1")), bad("evidence", "malformed")),
        "bank_hash_in_capitals.jwt": (edited(evidence("bank", f"sha256:{'B2' * 32}")), bad("evidence", "malformed")),
        "exam_evidence_twice.jwt": (
            edited(lambda body: body["evidence"].append(body["evidence"][0])),
            bad("evidence", "malformed"),
        ),
        "evidence_of_another_kind.jwt": (edited(evidence("checks", "2/2")), bad("format", "shape")),
        "replaces_itself.jwt": (edited(evidence("replaces", good.id)), bad("evidence", "malformed")),
        "replaces_nothing_known.jwt": (edited(evidence("replaces", "the old one")), bad("evidence", "malformed")),
    }
    return listed
