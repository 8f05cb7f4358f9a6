"""`shardwise certificate request`: who an issuer is, which exams it has, and asking for one. The learner's side of the
service.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from shardwise.service.settings import is_loopback
from translations import CourseError, Translator

SECONDS = 15
LARGEST = 200_000


def checked(url: str) -> str:
    """The issuer's address. Raises CourseError for one that is not https, except on this machine."""
    at = urlsplit(url if "://" in url else f"https://{url}")
    safe = at.scheme == "https" or (at.scheme == "http" and is_loopback(at.hostname or ""))
    if not at.hostname or not safe or at.username or at.query or at.fragment:
        raise CourseError("shardwise.request-in-clear", url=url)
    return f"{at.scheme}://{at.netloc}{at.path.rstrip('/')}"


def who(url: str, language: str) -> dict[str, Any]:
    """Who issues there, its exams and how one signs in. Raises CourseError where the address is no exam service."""
    found = _asked(f"{url}/api/issuer?lang={language}")
    exams = found.get("exams")
    if not isinstance(exams, list) or not all(isinstance(each, dict) and "exam" in each for each in exams):
        raise CourseError("shardwise.request-failed", url=url, reason="?")
    return {
        "issuer": url,
        **{name: found.get(name) for name in ("did", "name", "fingerprint")},
        "exams": exams,
        "sign_in": found.get("sign_in") or [],
    }


def ask(url: str, *, exam: str, email: str, language: str) -> str:
    """Asks for an exam; what the issuer says."""
    body = {"email": email, "exam": exam, "language": language}
    return str(_asked(f"{url}/api/requests", body).get("message", ""))


def lines(found: Mapping[str, Any], text: Translator, *, email: str | None, url: str) -> Iterator[str]:
    """What is shown of an issuer, and what happened or what to do next."""
    if found["did"]:
        yield text("shardwise.request-who", name=_shown(found["name"]))
        yield text("shardwise.request-did", did=_shown(found["did"]))
        yield text("shardwise.request-fingerprint", fingerprint=_shown(found["fingerprint"]))
    else:
        yield text("shardwise.request-no-certificates")
    yield text("shardwise.request-exams")
    for each in found["exams"]:
        yield f"  {_shown(each['exam'])}  {_shown(each.get('title', ''))}"
    yield ""
    if "asked" in found:
        yield text("shardwise.request-asked", name=_shown(found["name"] or url), email=email)
    elif "email" not in found["sign_in"]:
        yield text("shardwise.request-sign-in-there", url=url)
    else:
        yield text("shardwise.request-choose")


def _shown(value: object) -> str:
    """A stranger's text on a terminal: one line, nothing that steers it."""
    return "".join(each for each in str(value or "") if each.isprintable())[:200]


def _asked(url: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers={"accept": "application/json"})
    if data is not None:
        request.add_header("content-type", "application/json")
    opener = urllib.request.build_opener(_Stay)
    try:
        with opener.open(request, timeout=SECONDS) as answer:
            found = json.loads(answer.read(LARGEST))
    except urllib.error.HTTPError as error:
        with error:
            raise _refused(url, error) from error
    except (OSError, HTTPException, ValueError) as error:
        raise CourseError("shardwise.request-failed", url=url, reason=type(error).__name__) from error
    if not isinstance(found, dict):
        raise CourseError("shardwise.request-failed", url=url, reason="JSON")
    return found


def _refused(url: str, error: urllib.error.HTTPError) -> CourseError:
    try:
        said = json.loads(error.read(LARGEST))["message"]
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return CourseError("shardwise.request-failed", url=url, reason=error.code)
    return CourseError("shardwise.request-refused", message=_shown(said))


class _Stay(urllib.request.HTTPRedirectHandler):
    """What an issuer is asked stays with that issuer: no redirect is followed."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None
