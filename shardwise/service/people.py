"""How a route knows who asks: `TheCore`, `Visitor` (somebody or nobody), `SignedInPerson`, `Examiner`, `Administrator`.

The token comes in the session's cookie or as `Authorization: Bearer`, never in an address.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from shardwise.service.accounts import Person, person_of
from shardwise.service.core import Core
from shardwise.service.security import cookie_name
from shardwise.service.store import Forbidden
from translations import CourseError

COOKIE = "shardwise"


class NotSignedIn(CourseError):
    """Nobody is signed in (HTTP 401; a page leads to the sign-in)."""

    def __init__(self) -> None:
        super().__init__("shardwise.service-sign-in-first")


def core_of(request: Request) -> Core:
    core: Core = request.app.state.core
    return core


def token_of(request: Request) -> str:
    """The visit's token; empty where the request brings none."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return token.strip()
    return request.cookies.get(cookie_name(COOKIE, secure=core_of(request).settings.https), "")


def visitor(request: Request) -> Person | None:
    """Whoever asks, if anybody is signed in."""
    token, core = token_of(request), core_of(request)
    if not token:
        return None
    with core.store.reading() as session:
        found = person_of(session, token, core.clock())
    if found is not None:
        request.scope["shardwise.account"] = found.id
    return found


def signed_in(found: Annotated[Person | None, Depends(visitor)]) -> Person:
    if found is None:
        raise NotSignedIn
    return found


def examiner(found: Annotated[Person, Depends(signed_in)]) -> Person:
    return _with_role(found, "examiner")


def administrator(found: Annotated[Person, Depends(signed_in)]) -> Person:
    return _with_role(found, "administrator")


def _with_role(person: Person, role: str) -> Person:
    if not person.may(role):
        raise Forbidden("shardwise.service-not-yours")
    return person


TheCore = Annotated[Core, Depends(core_of)]
Visitor = Annotated[Person | None, Depends(visitor)]
SignedInPerson = Annotated[Person, Depends(signed_in)]
Examiner = Annotated[Person, Depends(examiner)]
Administrator = Annotated[Person, Depends(administrator)]
