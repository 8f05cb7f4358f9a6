"""An issuer's folder: who it is (``issuer.yaml``), its keys, its logo, and what it publishes.

    issuer.yaml         names, signatory, address, and every key it ever had; written by the commands, open to edits
    keys/key-1.pem      the private key, mode 0600; a hardware module has none of these
    logo.svg            or logo.png
    public/did.json     to be served at https://DOMAIN/.well-known/did.json
    public/trust.json   for verifiers: the issuer's row in a list of trusted issuers

A key's file is never overwritten and never removed here.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import jsonschema
import yaml

from certificates import keys, strict
from certificates.issuer import Issuer, Signatory
from certificates.signing import KeySigner, file_signer
from certificates.status import moment
from certificates.strict import Refused, decode_base64url, encode_base64url
from certificates.trust import PublicKey
from translations import CourseError

FILE = "issuer.yaml"
LOGO_BYTES = 200_000
_TEXT = {"type": "string", "minLength": 1, "maxLength": 200}
_WORDS = {
    "type": "object",
    "minProperties": 1,
    "propertyNames": {"pattern": "^[a-z]{2,3}$"},
    "additionalProperties": _TEXT,
}
_MOMENT = {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["version", "domain", "names", "keys"],
    "additionalProperties": False,
    "properties": {
        "version": {"const": 1},
        "domain": {**_TEXT, "pattern": r"^[A-Za-z0-9]([A-Za-z0-9.-]{0,200}[A-Za-z0-9])?(:[0-9]{1,5})?$"},
        "address": {**_TEXT, "pattern": "^https://[^ ?#]+[^/ ?#]$"},
        "names": _WORDS,
        "signatory": {
            "type": "object",
            "required": ["names"],
            "additionalProperties": False,
            "properties": {"names": _WORDS, "offices": _WORDS},
        },
        "contact": {**_TEXT, "pattern": "^[^ @]+@[^ @]+$"},
        "logo": {**_TEXT, "pattern": "^[A-Za-z0-9._-]+[.](svg|png)$"},
        "endorsements": {"type": "array", "maxItems": 4, "items": {"type": "string"}},
        "keys": {
            "type": "array",
            "minItems": 1,
            "maxItems": 64,
            "items": {
                "type": "object",
                "required": ["id", "x"],
                "additionalProperties": False,
                "properties": {
                    "id": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,60}$"},
                    "x": {"type": "string", "pattern": "^[A-Za-z0-9_-]{43}$"},
                    "until": _MOMENT,
                    "compromised": {"const": True},
                },
            },
        },
    },
}


@dataclass(frozen=True, kw_only=True)
class Made:
    """A folder that `init` or `rotate` has written, and the files in it that are to be published."""

    issuer: Issuer
    folder: Path
    key: Path
    published: tuple[Path, ...]


def init(
    folder: Path,
    *,
    domain: str,
    names: Mapping[str, str],
    signatory: Signatory | None = None,
    address: str | None = None,
    logo: Path | None = None,
    contact: str | None = None,
) -> Made:
    """Makes an issuer's folder with a new key. Raises CourseError where there is one already, or where a domain, a name
    or a logo can't be used.
    """
    if (folder / FILE).exists():
        raise CourseError("certificates.issuer-exists", file=str(folder / FILE))
    host = domain.strip().removeprefix("https://").rstrip("/").lower()
    did = f"did:web:{quote(host, safe='')}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "keys").mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise CourseError("certificates.file-unwritable", file=str(folder)) from error
    value: dict[str, Any] = {"version": 1, "domain": host, "names": dict(names)}
    value |= {"address": address.rstrip("/")} if address else {}
    if signatory:
        value["signatory"] = {"names": dict(signatory.names)}
        value["signatory"] |= {"offices": dict(signatory.offices)} if signatory.offices else {}
    value |= {"contact": contact} if contact else {}
    if logo is not None:
        value["logo"] = f"logo{logo.suffix.lower()}"
        drawn = _logo(logo)
    _check(value | {"keys": [{"id": "key-1", "x": "A" * 43}]}, FILE)
    path = folder / "keys" / "key-1.pem"
    key = keys.create()
    keys.save(key, path)
    value["keys"] = [{"id": "key-1", "x": encode_base64url(key.private.public_key().public_bytes_raw())}]
    if logo is not None:
        _write(folder / value["logo"], drawn)
    _keep(folder, value)
    issuer = read(folder)
    assert issuer.did == did
    return Made(issuer=issuer, folder=folder, key=path, published=publish(folder, issuer))


def rotate(folder: Path, *, compromised: bool = False, at: datetime | None = None) -> Made:
    """A new key takes the place of the present one, which signs nothing dated from now on; with ``compromised`` nothing
    that it ever signed counts any more. Publish the new documents before the service signs with the new key.
    """
    value = _read(folder)
    number = 1 + max(
        (int(found[1]) for each in value["keys"] if (found := re.fullmatch(r"key-(\d+)", each["id"]))), default=0
    )
    path = folder / "keys" / f"key-{number}.pem"
    key = keys.create()
    keys.save(key, path)
    value["keys"][-1]["until"] = moment(at or datetime.now(UTC))
    if compromised:
        value["keys"][-1]["compromised"] = True
    value["keys"].append({"id": f"key-{number}", "x": encode_base64url(key.private.public_key().public_bytes_raw())})
    _keep(folder, value)
    issuer = read(folder)
    return Made(issuer=issuer, folder=folder, key=path, published=publish(folder, issuer))


def condemn(folder: Path, key: str) -> Issuer:
    """Says of a key that was replaced earlier that it is compromised (``key-1``). Raises CourseError for one that the
    issuer never had, or that signs now: that one is rotated.
    """
    value = _read(folder)
    found = [each for each in value["keys"][:-1] if each["id"] == key]
    if not found:
        raise CourseError("certificates.key-unknown", key=key)
    found[0]["compromised"] = True
    _keep(folder, value)
    issuer = read(folder)
    publish(folder, issuer)
    return issuer


def endorsed(folder: Path, jwt: str) -> Issuer:
    """Adds what another party signed about this issuer; its certificates carry it from now on."""
    value = _read(folder)
    value["endorsements"] = [*(each for each in value.get("endorsements", []) if each != jwt), jwt]
    _check(value, FILE)
    _keep(folder, value)
    return read(folder)


def read(folder: Path) -> Issuer:
    """The issuer in a folder. Raises CourseError where a file can't be read or says something impossible."""
    value = _read(folder)
    host = value["domain"]
    did = f"did:web:{quote(host, safe='')}"
    found = []
    for each in value["keys"]:
        try:
            public = decode_base64url(each["x"])
            until = (
                datetime.strptime(each["until"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC) if "until" in each else None
            )
        except (Refused, ValueError) as error:
            raise CourseError("certificates.issuer-unreadable", file=FILE, where="keys") from error
        found.append(
            PublicKey(id=f"{did}#{each['id']}", public=public, until=until, compromised=each.get("compromised", False))
        )
    signatory = value.get("signatory")
    return Issuer(
        did=did,
        address=value.get("address") or f"https://{host}",
        names=value["names"],
        keys=tuple(found),
        signatory=Signatory(names=signatory["names"], offices=signatory.get("offices", {})) if signatory else None,
        logo=_logo(folder / value["logo"]) if "logo" in value else None,
        endorsements=tuple(value.get("endorsements", ())),
        contact=value.get("contact"),
    )


def signer(folder: Path, issuer: Issuer | None = None) -> KeySigner:
    """The signer of the key that signs now, from its file of mode 0600. Raises CourseError where the file is not such
    a one, or is not the key that `issuer.yaml` names.
    """
    issuer = issuer or read(folder)
    found = file_signer(
        folder / "keys" / f"{issuer.key.id.partition('#')[2]}.pem", did=issuer.did, key_id=issuer.key.id
    )
    if found.public_key != issuer.key.public:
        raise CourseError("certificates.key-other", file=FILE)
    return found


def publish(folder: Path, issuer: Issuer) -> tuple[Path, ...]:
    """Writes what is to be served: the DID document and the issuer's row for verifiers' lists."""
    public = folder / "public"
    public.mkdir(exist_ok=True)
    documents = {"did.json": issuer.did_document(), "trust.json": issuer.trust.as_json()}
    for name, document in documents.items():
        _write(public / name, (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode())
    return tuple(public / each for each in documents)


def _read(folder: Path) -> dict[str, Any]:
    path = folder / FILE
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise CourseError("certificates.issuer-missing", file=str(path)) from error
    except yaml.YAMLError as error:
        raise CourseError("certificates.issuer-unreadable", file=FILE, where="/") from error
    _check(value, FILE)
    assert isinstance(value, dict)
    return value


def _check(value: object, file: str) -> None:
    error = next(jsonschema.Draft202012Validator(SCHEMA).iter_errors(value), None)
    if error:
        where = ".".join(str(each) for each in error.absolute_path) or "/"
        raise CourseError("certificates.issuer-unreadable", file=file, where=where)
    assert isinstance(value, dict)
    words = [value["names"], *value.get("signatory", {}).values()]
    if not all(strict.is_safe_text(each) for found in words for each in found.values()):
        raise CourseError("certificates.issuer-unreadable", file=file, where="names")
    host = urlsplit(value.get("address", f"https://{value['domain']}")).hostname
    if host is None or unquote(host) != host:
        raise CourseError("certificates.issuer-unreadable", file=file, where="address")


def _logo(path: Path) -> bytes:
    """An SVG without script or outside references, or a PNG; at most 200 kB."""
    try:
        with path.open("rb") as file:
            data = file.read(LOGO_BYTES + 1)
    except OSError as error:
        raise CourseError("certificates.file-unreadable", file=path.name) from error
    is_png = data.startswith(b"\x89PNG\r\n\x1a\n")
    is_svg = path.suffix.lower() == ".svg" and b"<svg" in data and not _ACTIVE.search(data)
    if len(data) > LOGO_BYTES or not (is_png if path.suffix.lower() == ".png" else is_svg):
        raise CourseError("certificates.logo-unusable", file=path.name)
    return data


_ACTIVE = re.compile(
    rb"<!DOCTYPE|<!ENTITY|<script|<foreignObject|\son[a-z]+\s*=|href\s*=\s*[\"'](?!#|data:image/png)|url\(\s*[\"']?(?!#)",
    re.I,
)


def _keep(folder: Path, value: Mapping[str, Any]) -> None:
    _write(folder / FILE, yaml.safe_dump(dict(value), allow_unicode=True, sort_keys=False).encode())


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all, also when the machine stops in between."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with scratch.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    except OSError as error:
        raise CourseError("certificates.file-unwritable", file=path.name) from error
