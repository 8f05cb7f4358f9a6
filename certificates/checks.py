"""What an issuer still has to put right before strangers can verify what it issues: its server's TLS, the documents
that are published there, and its mail. Every check is bounded in time and changes nothing.
"""

from __future__ import annotations

import json
import smtplib
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit

from certificates import status
from certificates.issuer import Issuer
from certificates.network import Fetch, Fetcher, Unreachable
from certificates.revocation import read as read_list
from certificates.strict import Refused
from certificates.trust import document_address
from translations import Language, translator

SECONDS = 10
FEW_DAYS = 14


@dataclass(frozen=True, kw_only=True)
class Check:
    """``name``: ``tls did status mail``. ``reason``: the message's id, with its values."""

    name: str
    good: bool
    reason: str
    values: dict[str, object]

    def detail(self, language: Language | str) -> str:
        return translator(language)(f"certificates.check-{self.reason}", **self.values)


def examine(
    issuer: Issuer, *, smtp: tuple[str, int] | None = None, context: ssl.SSLContext | None = None
) -> tuple[Check, ...]:
    """TLS, DID document and status list of the issuer's server; mail where ``smtp`` names a server. ``context``: which
    roots to trust, those of the computer if None.
    """
    context = context or ssl.create_default_context()
    fetch = Fetcher(context=context)
    found = [_tls(issuer, context)]
    if found[0].good:
        found += [_did(issuer, fetch), _status(issuer, fetch)]
    if smtp is not None:
        found.append(_mail(*smtp, context))
    return tuple(found)


def _tls(issuer: Issuer, context: ssl.SSLContext) -> Check:
    """A certificate that browsers accept, for some days yet."""
    parts = urlsplit(issuer.address)
    host, port = parts.hostname or "", parts.port or 443
    try:
        with (
            socket.create_connection((host, port), timeout=SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=host) as secure,
        ):
            ends = str((secure.getpeercert() or {}).get("notAfter", ""))
    except ssl.SSLError as error:
        return _check("tls", False, "tls-refused", host=host, why=error.reason or type(error).__name__)
    except OSError:
        return _check("tls", False, "tls-unreachable", host=host)
    days = (datetime.fromtimestamp(ssl.cert_time_to_seconds(ends), UTC) - datetime.now(UTC)).days
    return _check("tls", days >= FEW_DAYS, "tls" if days >= FEW_DAYS else "tls-ends", host=host, days=days)


def _did(issuer: Issuer, fetch: Fetch) -> Check:
    """The DID document that is served says what the issuer's folder says."""
    where = document_address(issuer.did)
    try:
        served = json.loads(fetch(where))
    except (Unreachable, Refused):
        return _check("did", False, "did-missing", address=where)
    except ValueError:
        return _check("did", False, "did-other", address=where)
    same = served == issuer.did_document()
    return _check("did", same, "did" if same else "did-other", address=where)


def _status(issuer: Issuer, fetch: Fetch) -> Check:
    """The first status list is served, and a verifier accepts it."""
    where = status.address(issuer, "suspension", 1)
    try:
        read_list(fetch(where), address=where, purpose="suspension", party=issuer.party)
    except Unreachable:
        return _check("status", False, "status-missing", address=where)
    except Refused as refused:
        why = translator("en")(f"certificates.{refused.reason}", date=refused.values.get("date", ""))
        return _check("status", False, "status-refused", address=where, why=why)
    return _check("status", True, "status", address=where)


def _mail(host: str, port: int, context: ssl.SSLContext) -> Check:
    """The mail server answers and offers an encrypted connection whose certificate holds. Nothing is sent."""
    server: smtplib.SMTP | None = None
    try:
        if port == 465:
            server = smtplib.SMTP_SSL(host, port, timeout=SECONDS, context=context)
            server.ehlo()
        else:
            server = smtplib.SMTP(host, port, timeout=SECONDS)
            server.ehlo()
            if not server.has_extn("starttls"):
                return _check("mail", False, "mail-in-clear", host=host)
            server.starttls(context=context)
            server.ehlo()
    except ssl.SSLError as error:
        return _check("mail", False, "mail-refused", host=host, why=error.reason or type(error).__name__)
    except (OSError, smtplib.SMTPException):
        return _check("mail", False, "mail-unreachable", host=host)
    finally:
        if server is not None:
            with suppress(OSError, smtplib.SMTPException):
                server.quit()
    return _check("mail", True, "mail", host=host)


def _check(name: str, good: bool, reason: str, **values: object) -> Check:
    return Check(name=name, good=good, reason=reason, values=values)
