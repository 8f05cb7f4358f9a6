"""Who is who: one-time links by e-mail, identities of a hub or a provider, visits, roles.

Of every token only the hash is kept. Asking for a link says the same and takes as long whether or not there is an
account; a link opens one visit, once, for some minutes.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, func, or_, select
from sqlalchemy.orm import Session

from shardwise.service.core import Core
from shardwise.service.mail import Letter
from shardwise.service.settings import Settings
from shardwise.service.store import Forbidden, Missing, audit
from shardwise.service.tables import ROLES, Account, Attempt, Errand, Identity, LoginLink, Visit
from translations import CourseError, languages, translator

_EMAIL = re.compile(
    r"[^\s@<>()\[\]\\,;:\"\x00-\x1f\x7f]{1,64}@(?:[\w-]{1,63}\.)+[\w-]{2,63}|[^\s@<>,;:\"\x00-\x1f]{1,64}@localhost"
)
LINKS_KEPT = timedelta(days=1)
ERRAND_MINUTES = 10


@dataclass(frozen=True, kw_only=True)
class Person:
    """Whoever is signed in."""

    id: str
    name: str
    email: str | None
    role: str
    language: str
    provider: str

    def may(self, role: str) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)


@dataclass(frozen=True, kw_only=True)
class SignedIn:
    """A visit that has begun: `token` goes to the browser (cookie) or program (Bearer), and nowhere else."""

    account: str
    token: str
    expires: datetime
    wanted: dict[str, Any]


def hashed(token: str) -> str:
    """What is kept of a token: it has 256 random bits, so that a plain hash can't be turned back."""
    return hashlib.sha256(token.encode()).hexdigest()


def address(text: str) -> str:
    """An e-mail address as accounts hold it. Raises CourseError where it is none."""
    found = unicodedata.normalize("NFC", text.strip()).lower()
    if len(found) > 254 or not _EMAIL.fullmatch(found) or "=?" in found:  # a header would read that as encoded words
        raise CourseError("shardwise.service-bad-email")
    return found


def spoken(code: str) -> str:
    """A language that the course has, else English."""
    return code if any(each.code == code and each.released for each in languages()) else "en"


# --- links by e-mail


def ask_link(
    core: Core,
    *,
    email: str,
    language: str,
    next: str = "",
    purpose: str = "sign-in",
    wanted: dict[str, Any] | None = None,
) -> None:
    """Sends a one-time link to the address, if it may have one; tells the caller nothing either way.

    Raises CourseError where accounts by e-mail are off, or where the text is no address.
    """
    settings, at = core.settings, core.clock()
    if settings.accounts == "off":
        raise Forbidden("shardwise.service-no-email-accounts")
    to, token = address(email), secrets.token_urlsafe(32)
    with core.store.writing() as session:
        session.execute(delete(LoginLink).where(LoginLink.made < at - LINKS_KEPT))
        asked = session.scalar(
            select(func.count()).where(LoginLink.email == to, LoginLink.made > at - timedelta(hours=1))
        )
        may = (asked or 0) < settings.links_per_hour
        if may:
            session.add(
                LoginLink(
                    hash=hashed(token),
                    email=to,
                    purpose=purpose,
                    wanted={**(wanted or {}), "language": spoken(language), "next": inside(next)},
                    made=at,
                    expires=at + timedelta(minutes=settings.link_minutes),
                )
            )
        known = session.scalar(select(Account).where(Account.email == to))
        welcome = known.active if known is not None else settings.accounts == "open" or to in settings.administrators
    if may and welcome:
        text = translator(spoken(language))
        values = {"url": f"{settings.public_url}/sign-in/link?token={token}", "minutes": settings.link_minutes}
        core.mail.send(
            Letter(
                to=to,
                subject=text("shardwise.service-link-subject"),
                text=text("shardwise.service-link-text", **values),
            )
        )


def use_link(core: Core, token: str) -> SignedIn:
    """The visit that a link opens, once. Raises Forbidden for one that is unknown, used or too old: which, it does not
    say.
    """
    at = core.clock()
    with core.store.writing() as session:
        link = session.get(LoginLink, hashed(token), with_for_update=True)
        if link is None or link.used is not None or link.expires <= at:
            raise Forbidden("shardwise.service-link-over")
        link.used = at
        account = session.scalar(select(Account).where(Account.email == link.email))
        if account is None:
            if core.settings.accounts != "open" and link.email not in core.settings.administrators:
                raise Forbidden("shardwise.service-link-over")
            account = Account(email=link.email, language=link.wanted.get("language", "en"), made=at)
            session.add(account)
            session.flush()
            audit(session, actor=account.id, action="account-made", about=account.id)
        identify(session, account, provider="email", subject=link.email)
        return enter(session, account, provider="email", settings=core.settings, at=at, wanted=dict(link.wanted))


# --- identities elsewhere


def arrive(core: Core, *, provider: str, subject: str, email: str | None, name: str, language: str = "en") -> SignedIn:
    """The visit of a person whom a provider knows; an account is found by the identity, then by a verified address,
    then made.
    """
    at = core.clock()
    to = address(email) if email else None
    with core.store.writing() as session:
        known = session.scalar(select(Identity).where(Identity.provider == provider, Identity.subject == subject))
        account = None if known is None else session.get(Account, known.account)
        if account is None and to is not None:
            account = session.scalar(select(Account).where(Account.email == to))
        if account is None:
            account = Account(email=to, name=clean_name(name), language=spoken(language), made=at)
            session.add(account)
            session.flush()
            audit(session, actor=account.id, action="account-made", about=account.id)
        if not account.name:
            account.name = clean_name(name)
        identify(session, account, provider=provider, subject=subject)
        return enter(session, account, provider=provider, settings=core.settings, at=at, wanted={})


def clean_name(name: str) -> str:
    """A name that can stand on a certificate, or none yet."""
    from certificates.credential import holder_name

    try:
        return holder_name(name)
    except CourseError:
        return ""


def identify(session: Session, account: Account, *, provider: str, subject: str) -> None:
    found = session.scalar(select(Identity).where(Identity.provider == provider, Identity.subject == subject))
    if found is None:
        session.add(Identity(account=account.id, provider=provider, subject=subject))


def enter(
    session: Session, account: Account, *, provider: str, settings: Settings, at: datetime, wanted: dict[str, Any]
) -> SignedIn:
    """A new visit of the account. Raises Forbidden where an administrator closed it."""
    if not account.active or account.erased is not None:
        raise Forbidden("shardwise.service-account-closed")
    named = {account.email} | {
        each.subject for each in session.scalars(select(Identity).where(Identity.account == account.id))
    }
    if account.role != "administrator" and named & set(settings.administrators):
        account.role = "administrator"
        audit(session, actor=account.id, action="role-set", about=account.id, role="administrator")
    token, expires = secrets.token_urlsafe(32), at + timedelta(hours=settings.session_hours)
    session.add(Visit(hash=hashed(token), account=account.id, provider=provider, made=at, expires=expires))
    session.execute(delete(Visit).where(Visit.expires < at))
    audit(session, actor=account.id, action="signed-in", about=account.id, provider=provider.partition(" ")[0])
    return SignedIn(account=account.id, token=token, expires=expires, wanted=wanted)


# --- visits


def person_of(session: Session, token: str, at: datetime) -> Person | None:
    """Whose visit this is, while it lasts."""
    row = session.execute(
        select(Account, Visit.provider)
        .join(Visit, Visit.account == Account.id)
        .where(Visit.hash == hashed(token), Visit.expires > at, Account.active, Account.erased.is_(None))
    ).first()
    if row is None:
        return None
    account, provider = row
    return Person(
        id=account.id,
        name=account.name,
        email=account.email,
        role=account.role,
        language=account.language,
        provider=provider,
    )


def leave(core: Core, token: str) -> None:
    """Ends a visit."""
    with core.store.writing() as session:
        session.execute(delete(Visit).where(Visit.hash == hashed(token)))


# --- errands (a sign-in under way elsewhere)


def send_away(core: Core, *, provider: str, carried: dict[str, Any]) -> str:
    """The state of a new errand; what it carries waits here."""
    state, at = secrets.token_urlsafe(32), core.clock()
    with core.store.writing() as session:
        session.execute(delete(Errand).where(Errand.expires < at))
        expires = at + timedelta(minutes=ERRAND_MINUTES)
        session.add(Errand(hash=hashed(state), provider=provider, carried=carried, expires=expires))
    return state


def come_back(core: Core, *, provider: str, state: str) -> dict[str, Any]:
    """What an errand carried; it can come back once. Raises Forbidden where there is none."""
    with core.store.writing() as session:
        errand = session.get(Errand, hashed(state), with_for_update=True)
        if errand is None or errand.provider != provider or errand.expires <= core.clock():
            raise Forbidden("shardwise.service-sign-in-failed")
        session.delete(errand)
        return dict(errand.carried)


def inside(path: str) -> str:
    """A path within the service, to go on to after signing in; anything else becomes the first page."""
    return path if re.fullmatch(r"/(?![/\\])[\w./?=&%~-]{0,300}", path) else "/"


# --- what people may do with accounts


def change(core: Core, person: Person, *, name: str | None = None, language: str | None = None) -> None:
    """A person's own name (as certificates will show it) and language. Raises CourseError for another name than the one
    under which a supervised exam was begun: whoever looked at who sat there saw that one.
    """
    from certificates.credential import holder_name

    with core.store.writing() as session:
        account = session.get_one(Account, person.id)
        if name is not None:
            shown = holder_name(name)
            seen = select(Attempt.id).where(Attempt.account == person.id, Attempt.supervised).limit(1)
            if account.name and shown != account.name and session.scalar(seen) is not None:
                raise CourseError("shardwise.service-name-seen")
            account.name = shown
        if language is not None:
            account.language = spoken(language)


def set_role(core: Core, person: Person, account: str, role: str) -> None:
    """Raises Forbidden where nobody would be left who could give the role back."""
    if role not in ROLES:
        raise CourseError("shardwise.service-bad-role", known=", ".join(ROLES))
    with core.store.writing() as session:
        found = session.get(Account, account, with_for_update=True)
        if found is None:
            raise Missing("shardwise.service-no-such-account")
        if found.id == person.id and role != "administrator":
            raise Forbidden("shardwise.service-own-role")
        found.role = role
        audit(session, actor=person.id, action="role-set", about=account, role=role)


def appoint(core: Core, email: str, role: str) -> None:
    """From the machine itself (`shardwise service role`): the account of an address, made where there is none."""
    if role not in ROLES:
        raise CourseError("shardwise.service-bad-role", known=", ".join(ROLES))
    to = address(email)
    with core.store.writing() as session:
        found = session.scalar(select(Account).where(Account.email == to))
        if found is None:
            found = Account(email=to, language=core.settings.language, made=core.clock())
            session.add(found)
            session.flush()
        found.role = role
        audit(session, actor=None, action="role-set", about=found.id, role=role)


def set_active(core: Core, person: Person, account: str, active: bool) -> None:
    """Closes an account (its visits end at once) or opens it again."""
    with core.store.writing() as session:
        found = session.get(Account, account, with_for_update=True)
        if found is None:
            raise Missing("shardwise.service-no-such-account")
        if found.id == person.id:
            raise Forbidden("shardwise.service-own-role")
        found.active = active
        if not active:
            session.execute(delete(Visit).where(Visit.account == account))
        audit(session, actor=person.id, action="account-opened" if active else "account-closed", about=account)


def search(session: Session, text: str = "", *, limit: int = 200) -> Sequence[Account]:
    """Accounts by a part of name or address, in any case; the latest first."""
    query = select(Account).where(Account.erased.is_(None)).order_by(Account.made.desc()).limit(limit)
    if wanted := text.strip().lower():
        like = f"%{wanted.replace('%', '').replace('_', '')}%"
        query = query.where(or_(func.lower(Account.name).like(like), Account.email.like(like), Account.id == wanted))
    return session.scalars(query).all()
