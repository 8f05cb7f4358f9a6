"""Reading untrusted bytes so that there is one way to understand them: strict base64url, JSON, text and shape.

The limits, the forbidden characters and the shape stand in ``rules.json``, which the verification page carries too.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import unicodedata
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

import jsonschema

FOLDER = Path(__file__).resolve().parent
OPEN_BADGES_SCHEMA = FOLDER / "schema" / "ob_v3p0_achievementcredential_schema.json"


class Refused(Exception):
    """Bytes that are no certificate. ``reason`` is the id of the message that says why."""

    def __init__(self, reason: str, **values: object) -> None:
        super().__init__(reason)
        self.reason = reason
        self.values = values


@cache
def rules() -> dict[str, Any]:
    """What both verifiers hold a credential to."""
    return cast("dict[str, Any]", json.loads((FOLDER / "rules.json").read_text(encoding="utf-8")))


def decode_base64url(text: str) -> bytes:
    """The bytes of unpadded base64url, of which each has exactly one spelling."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise Refused("format-base64") from error
    if encode_base64url(data) != text:
        raise Refused("format-base64")
    return data


def encode_base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def parse_json(data: bytes) -> dict[str, Any]:
    """One JSON object in UTF-8: no name twice, no NaN, no deep nesting, and text that shows as what it is."""
    try:
        value = json.loads(
            data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant, parse_int=_whole
        )
    except (ValueError, RecursionError) as error:
        raise Refused("format-json") from error
    if not isinstance(value, dict):
        raise Refused("format-json")
    _check_text(value, depth=1)
    return value


def is_safe_text(text: str) -> bool:
    """NFC, without controls, direction marks and invisible characters."""
    if re.search(rules()["unsafe_text"], text):
        return False
    return text.isascii() or (
        not any("\ud800" <= each <= "\udfff" for each in text) and unicodedata.is_normalized("NFC", text)
    )


def check_header(header: dict[str, Any]) -> None:
    """EdDSA and nothing else; a key in the header is only ever compared, never trusted."""
    if header.get("alg") != "EdDSA":
        raise Refused("format-algorithm")
    if next(profile("header").iter_errors(header), None):
        raise Refused("format-header")


def check_shape(credential: dict[str, Any]) -> None:
    """Our own profile, which allows nothing that it doesn't name, and 1EdTech's schema for Open Badges 3.0."""
    check_profile(credential)
    _find_error(_open_badges_validator(), credential, "format-shape")


def is_open_badge(credential: dict[str, Any]) -> bool:
    """Whether 1EdTech's schema holds. Our profile implies it (a test says so), and is ten times as quick."""
    return next(_open_badges_validator().iter_errors(credential), None) is None


def check_profile(credential: dict[str, Any]) -> None:
    """Our own profile alone."""
    kinds = credential.get("type")
    if not isinstance(kinds, list) or "OpenBadgeCredential" not in kinds:
        raise Refused("format-type")
    check(credential, "issued" if is_exam(credential) else "credential", reason="format-shape")


def is_exam(credential: Mapping[str, Any]) -> bool:
    """Whether it says to be an issuer's, of an exam; any other is held to the shape of a practice certificate."""
    subject = credential.get("credentialSubject")
    achievement = subject.get("achievement") if isinstance(subject, dict) else None
    id = achievement.get("id") if isinstance(achievement, dict) else None
    return isinstance(id, str) and id.startswith("urn:shardwise:exam:")


def check(value: dict[str, Any], kind: str, *, reason: str) -> None:
    """One of the shapes of ``rules.json``: ``credential issued list endorsement trust``."""
    _find_error(profile(kind), value, reason)


def _find_error(validator: Any, value: dict[str, Any], reason: str) -> None:
    error = next(validator.iter_errors(value), None)
    if error:
        raise Refused(reason, where=".".join(str(each) for each in error.absolute_path) or "/")


@cache
def profile(kind: str) -> jsonschema.Draft202012Validator:
    """A shape of ``rules.json`` by its name."""
    return jsonschema.Draft202012Validator({"parts": rules()["parts"], **rules()[kind]})


@cache
def _open_badges_validator() -> jsonschema.Draft201909Validator:
    return jsonschema.Draft201909Validator(json.loads(OPEN_BADGES_SCHEMA.read_text(encoding="utf-8")))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise Refused("format-repeated-name")
    return value


def _whole(digits: str) -> int | float:
    """A whole number; one that is longer than any double is infinite, as it is to JavaScript."""
    return int(digits) if len(digits) < 300 else float(digits)


def _no_constant(_name: str) -> None:
    raise Refused("format-json")


def _check_text(value: object, *, depth: int) -> None:
    if isinstance(value, str):
        if not is_safe_text(value):
            raise Refused("format-text")
    elif isinstance(value, dict | list):
        if depth > rules()["json_depth"]:
            raise Refused("format-json")
        children = [*value.keys(), *value.values()] if isinstance(value, dict) else value
        for child in children:
            _check_text(child, depth=depth + 1)
