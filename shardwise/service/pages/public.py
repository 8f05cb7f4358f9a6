"""What anybody may see: a certificate's page, its files, its picture; the status lists and documents of the issuer.

The page's verdict is that of the verifier itself, run on the signed text with the issuer's own list and the status list
of this moment: it never says "valid" of what `shardwise certificate verify` would refuse.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any
from urllib.parse import quote, urlencode, urlsplit

from fastapi import APIRouter, Form, Request
from fastapi.responses import JSONResponse, Response

import certificates
from certificates import render, strict
from certificates.credential import Certificate
from certificates.issuer import Issuer
from certificates.network import Unreachable
from certificates.render.preview import preview
from certificates.render.printed import compact
from certificates.summary import LAB, OBJECTIVE, Summary, facts, percentage, summarize
from certificates.verification import Verification
from labs.exercises import exercises
from quiz import objectives
from shardwise.service import issuing
from shardwise.service.core import Core
from shardwise.service.issuing import Issued
from shardwise.service.pages.site import language_of, renderer_of, see
from shardwise.service.people import SignedInPerson, TheCore, Visitor
from shardwise.service.store import Missing
from shardwise.service.tables import Certificate as Row
from translations import SOURCE, Language, formats, translator
from translations import language as find

router = APIRouter()
FORMS: Mapping[str, str] = {
    "pdf": "application/pdf",
    "png": "image/png",
    "svg": "image/svg+xml",
    "jwt": "application/vc+jwt",
    "json": "application/json",
}
SHORTLY = {"cache-control": "public, max-age=60"}
OPEN = {"access-control-allow-origin": "*", "cross-origin-resource-policy": "cross-origin"}
"""Status lists and documents are read by verifiers' pages wherever those are."""


# --- my certificates


@router.get("/certificates")
def mine(request: Request, core: TheCore, person: SignedInPerson) -> Response:
    pages, language = renderer_of(request), language_of(request, person)
    text = translator(language)
    found = issuing.issued_to(core, person)
    wished = _listed(core, [each.id for each in found])
    return pages.page(
        request,
        "certificates.html",
        title=text("shardwise.site-certificates"),
        language=language,
        person=person,
        here="certificates",
        certificates=[
            {**_shown(each, language), "listed": each.id in wished, "public_choice": each.state == "valid"}
            for each in found
        ],
    )


def _shown(each: Issued, language: Language) -> dict[str, Any]:
    """A certificate in a list."""
    state, mood = standing_of(each)
    return {
        "short": each.id,
        "title": each.title,
        "name": each.name,
        "issued": each.issued,
        "expires": each.expires,
        "state": translator(language)(f"shardwise.site-certificate-{state}"),
        "mood": mood,
    }


def standing_of(each: Issued) -> tuple[str, str]:
    """How a certificate stands, and whether that is good or bad."""
    if each.state == "revoked" and each.replaced_by:
        return "replaced", "bad"
    if each.state != "valid":
        return each.state, "bad"
    if each.expired:
        return "expired", "bad"
    return "valid", "good"


def _listed(core: Core, ids: list[str]) -> set[str]:
    with core.store.reading() as session:
        return {each for each in ids if (row := session.get(Row, each)) is not None and row.listed}


@router.post("/certificates/{id}/listed")
def list_it(
    request: Request, core: TheCore, person: SignedInPerson, id: str, listed: Annotated[str, Form(max_length=5)] = "no"
) -> Response:
    """The holder's wish that search engines may find the page, or may not."""
    with core.store.writing() as session:
        row = session.get(Row, issuing.number(id))
        if row is None or row.account != person.id:
            raise Missing("shardwise.service-no-such-certificate")
        row.listed = listed == "yes"
    return see(renderer_of(request).at("/certificates"))


# --- the public page


@router.get("/c/{name}")
def public(request: Request, core: TheCore, person: Visitor, name: str) -> Response:
    id, _, form = name.partition(".")
    found = issuing.issued(core, id)
    if form:
        return _file(request, core, found, form)
    if found.id != id:  # a capital letter, braces, urn: one certificate has one address
        return see(renderer_of(request).at(f"/c/{found.id}"))
    language = language_of(request, person)
    if not found.jwt:
        return _withdrawn(request, core, found, language)
    return _page(request, core, found, language)


def local_fetch(core: Core) -> Callable[[str], bytes]:
    """The issuer's own status lists, without asking the network for what is here."""
    issuer = issuing.issuing_of(core).issuer

    def fetch(address: str) -> bytes:
        found = re.fullmatch(r"/status/([a-z]+)/(\d{1,4})\.jwt", address.removeprefix(issuer.address))
        if found is None:
            raise Unreachable(address)
        return issuing.status_list(core, found[1], int(found[2])).encode()

    return fetch


def checked(core: Core, found: Issued, language: Language) -> Verification:
    issuer = issuing.issuing_of(core).issuer
    return certificates.verify(found.jwt.encode(), language=language, trust=issuer.trust, fetch=local_fetch(core))


def _page(request: Request, core: Core, found: Issued, language: Language) -> Response:
    pages, text = renderer_of(request), translator(language)
    issuer = issuing.issuing_of(core).issuer
    judged = checked(core, found, language)
    credential = issuing.payload(found.jwt)
    summary = summarize(credential)
    address = issuer.certificate_address(found.id)
    listed = bool(_listed(core, [found.id]))
    valid = judged.verdict in ("issuer", "endorsed")
    title = f"{summary.holder}: {summary.unit}"
    verdict = _verdict(found, valid, core.clock(), language)
    values: dict[str, Any] = {
        "valid": valid,
        "verdict": verdict,
        "why": _why(found, judged, valid, language),
        "withdrawn": "",
        "listed": listed and valid,
        "address": address,
        "summary": _sentence(summary, issuer, valid, language),
        "picture": f"{issuer.address}/c/{found.id}.preview.png?lang={language.code}",
        "issuer": _issuer(issuer, language),
        "holder": summary.holder_in(language.direction),
        "holder_other": _other(summary, language),
        "exam": summary.unit,
        "signed_in": find(summary.language),
        "facts": [{"label": label, "value": value} for label, value in facts(summary, language)],
        "objectives": _profile(credential, summary, language),
        "labs": _labs(credential, summary, language),
        "english": _english(found, summary, issuer, valid, core.clock()),
        "verify_at": pages.at(f"/verify#c={compact(found.jwt)}&lang={language.code}"),
        "short": found.id,
        "id": f"urn:uuid:{found.id}",
        "sha256": judged.sha256 or "",
        "linkedin": linkedin(summary, issuer, address),
        "mail": _mail(title, address, text),
        "badge": pages.at(f"/c/{found.id}.png"),
        "badge_alt": text("certificates.badge-alt", unit=summary.unit),
    }
    headers = {} if values["listed"] else {"x-robots-tag": "noindex, nofollow"}
    return pages.page(request, "public.html", title=title, language=language, headers=headers, **values)


def _withdrawn(request: Request, core: Core, found: Issued, language: Language) -> Response:
    """The person's data was deleted: the page says so, names nobody, and the status list says the same."""
    text = translator(language)
    issuer = issuing.issuing_of(core).issuer
    values: dict[str, Any] = {
        "valid": False,
        "verdict": text("shardwise.site-verdict-withdrawn"),
        "why": "",
        "withdrawn": text("shardwise.site-withdrawn-why"),
        "listed": False,
        "address": issuer.certificate_address(found.id),
        "summary": text("shardwise.site-verdict-withdrawn"),
        "picture": "",
        "issuer": _issuer(issuer, language),
        "english": {"verdict": translator(SOURCE)("shardwise.site-verdict-withdrawn")},
    }
    return renderer_of(request).page(
        request,
        "public.html",
        title=text("shardwise.site-certificate"),
        language=language,
        status=410,
        headers={"x-robots-tag": "noindex, nofollow"},
        **values,
    )


def _issuer(issuer: Issuer, language: Language) -> dict[str, str]:
    return {
        "name": issuer.name(language),
        "domain": urlsplit(issuer.address).netloc,
        "did": issuer.did,
        "fingerprint": issuer.key.fingerprint,
    }


def _verdict(found: Issued, valid: bool, at: datetime, language: Language) -> str:
    """Whether it holds, now: the day stands with it, so that a picture of the page proves nothing later."""
    state = "valid" if valid else standing_of(found)[0]
    state = "invalid" if state == "valid" and not valid else state
    return translator(language)(f"shardwise.site-verdict-{state}", day=formats.date(at.date(), language))


def _why(found: Issued, judged: Verification, valid: bool, language: Language) -> str:
    text = translator(language)
    if valid:
        return text("shardwise.site-renewed") if found.replaced_by else ""
    if found.state != "valid" and found.replaced_by:
        return text("shardwise.site-replaced-why")
    if found.state == "suspended":
        return text("shardwise.site-suspended-why")
    if found.state == "revoked":
        return text("shardwise.site-revoked-why")
    return judged.failed.detail if judged.failed else ""


def _sentence(summary: Summary, issuer: Issuer, valid: bool, language: Language) -> str:
    text = translator(language)
    return text(
        "shardwise.site-sentence" if valid else "shardwise.site-sentence-invalid",
        holder=summary.holder,
        exam=summary.unit,
        issuer=issuer.name(language),
        day=formats.date(summary.awarded.date(), language),
    )


def _other(summary: Summary, language: Language) -> str:
    names = [each for each in (summary.holder, summary.holder_other) if each]
    shown = summary.holder_in(language.direction)
    return next((each for each in names if each != shown), "")


def _profile(credential: Mapping[str, Any], summary: Summary, language: Language) -> list[dict[str, Any]]:
    """Objectives in the reader's words where the course has them, else as they were signed."""
    described = credential["credentialSubject"]["achievement"]["resultDescription"]
    ids = [each["id"].partition(OBJECTIVE)[2] for each in described if OBJECTIVE in each["id"]]
    known = {each.id: each for each in objectives()}
    return [
        {
            "title": known[id].say(language) if id in known else title,
            "lang": "" if id in known or summary.language == language.code else summary.language,
            "share": percentage(share, language),
            "reached": False,
        }
        for id, (title, share) in zip(ids, summary.results, strict=True)
    ]


def _labs(credential: Mapping[str, Any], summary: Summary, language: Language) -> list[dict[str, Any]]:
    """Tasks in the reader's words, as objectives."""
    described = credential["credentialSubject"]["achievement"]["resultDescription"]
    ids = [each["id"].partition(LAB)[2] for each in described if LAB in each["id"]]
    known = {each.id: each.title for each in exercises(language)}
    return [
        {
            "title": known.get(id, title),
            "lang": "" if id in known or summary.language == language.code else summary.language,
            "share": percentage(share, language),
            "reached": share >= 100,
        }
        for id, (title, share) in zip(ids, summary.labs, strict=True)
    ]


def _english(found: Issued, summary: Summary, issuer: Issuer, valid: bool, at: datetime) -> dict[str, Any]:
    english = find(SOURCE)
    text = translator(english)
    return {
        "verdict": _verdict(found, valid, at, english),
        "issuer": f"{text('shardwise.site-issued-by')} {issuer.name(english)}.",
        "facts": [{"label": label, "value": value} for label, value in facts(summary, english)],
    }


def linkedin(summary: Summary, issuer: Issuer, address: str) -> str:
    """LinkedIn's own form for adding a certificate to a profile, filled in."""
    values: dict[str, str | int] = {
        "startTask": "CERTIFICATION_NAME",
        "name": summary.unit,
        "organizationName": issuer.name(SOURCE),
        "issueYear": summary.awarded.year,
        "issueMonth": summary.awarded.month,
        "certUrl": address,
        "certId": summary.id.removeprefix("urn:uuid:"),
    }
    if summary.expires is not None:
        values |= {"expirationYear": summary.expires.year, "expirationMonth": summary.expires.month}
    return f"https://www.linkedin.com/profile/add?{urlencode(values)}"


def _mail(title: str, address: str, text: Any) -> str:
    subject, body = quote(title), quote(f"{text('shardwise.site-share-text')}\n\n{address}\n")
    return f"mailto:?subject={subject}&body={body}"


# --- files


def _file(request: Request, core: Core, found: Issued, form: str) -> Response:
    """A certificate as a file. What is signed never changes, so that drawing it once is enough."""
    if not found.jwt:
        raise Missing("shardwise.service-no-such-certificate")
    asked = request.query_params.get("lang")
    code = asked if asked in released() else found.language
    headers = {**SHORTLY, "x-robots-tag": "noindex"}
    if form == "preview.png":
        issuer = issuing.issuing_of(core).issuer
        data = _preview(found.jwt, code, issuer.name(code))
        return Response(data, media_type="image/png", headers={**headers, **OPEN})
    if form not in FORMS:
        raise Missing("shardwise.service-no-such-certificate")
    name = f"shardwise-{found.id}.{form}"
    headers |= {"content-disposition": f'{"inline" if form == "png" else "attachment"}; filename="{name}"'}
    issuer = issuing.issuing_of(core).issuer
    return Response(_drawn(found.jwt, code, form, issuer), media_type=FORMS[form], headers=headers)


def released() -> set[str]:
    from translations import languages

    return {each.code for each in languages() if each.released}


def of_token(jwt: str, language: str) -> Certificate:
    """The certificate that a token of ours is."""
    body = strict.parse_json(strict.decode_base64url(jwt.split(".")[1]))
    return Certificate(id=body["id"], jwt=jwt, credential=body, language=language)


@lru_cache(maxsize=256)
def _drawn(jwt: str, language: str, form: str, issuer: Issuer) -> bytes:
    draw: Callable[..., bytes] = getattr(render, form)
    made = of_token(jwt, language)
    return draw(made) if form in ("jwt", "json") else draw(made, language=language, issuer=issuer)


@lru_cache(maxsize=128)
def _preview(jwt: str, language: str, issuer: str) -> bytes:
    return preview(of_token(jwt, language), language=language, issuer=issuer)


# --- what verifiers read


@router.get("/trust.json")
def trust(core: TheCore) -> Response:
    """The issuer's row, for verifiers' own lists; whoever adds it compares the fingerprint by another way."""
    return JSONResponse(issuing.issuing_of(core).issuer.trust.as_json(), headers={**OPEN, **SHORTLY})


@router.get("/logo")
def logo(core: TheCore) -> Response:
    data = issuing.issuing_of(core).issuer.logo
    if data is None:
        raise Missing("shardwise.service-no-such-certificate")
    kind = "image/png" if data.startswith(b"\x89PNG") else "image/svg+xml"
    return Response(data, media_type=kind, headers={"cache-control": "public, max-age=3600"})


@router.get("/verify")
def verify(core: TheCore) -> Response:
    """The verification page, built for this issuer; its policy names the one script that it may run."""
    html, policy = _verify_page(issuing.issuing_of(core).issuer)
    headers = {"content-security-policy": policy, "cache-control": "public, max-age=300"}
    return Response(html, media_type="text/html; charset=utf-8", headers=headers)


def _verify_page(issuer: Issuer) -> tuple[str, str]:
    from certificates.page import build

    page = build.build(issuer=issuer)
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert found is not None
    return page, f"{found[1]}; frame-ancestors 'none'"
