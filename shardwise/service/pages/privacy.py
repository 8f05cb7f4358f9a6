"""The privacy page, made of the settings: what it says is what this service does, or a test fails."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from sqlalchemy.engine import make_url

from shardwise.service.accounts import ERRAND_MINUTES, LINKS_KEPT
from shardwise.service.core import Core
from shardwise.service.pages.rendering import LANGUAGE_SECONDS
from shardwise.service.security import VISITOR_SECONDS
from translations import Language, formats, translator


def parts(core: Core, language: Language) -> list[dict[str, Any]]:
    """Headings, each with its sentences."""
    text, settings = translator(language), core.settings

    def say(name: str, **values: object) -> str:
        return text(f"shardwise.privacy-{name}", **values)

    def lasting(seconds: float) -> str:
        return formats.duration(seconds, language)

    ways = []
    if settings.accounts != "off":
        ways.append(say("email", minutes=settings.link_minutes, kept=lasting(LINKS_KEPT.total_seconds())))
    if settings.hub is not None:
        ways.append(say("hub"))
    if settings.oidc is not None:
        ways.append(say("oidc", provider=settings.oidc.name, kept=lasting(ERRAND_MINUTES * 60)))
    mail = []
    if settings.accounts != "off":
        mail.append(say("mail-server", host=settings.smtp.host) if settings.smtp else say("mail-outbox"))
    issuer = core.issuing.issuer if core.issuing else None
    certificates = [say("no-issuer")]
    if issuer is not None:
        certificates = [
            say("certificate-holds", issuer=issuer.name(language)),
            say("certificate-email"),
            say("certificate-public", domain=urlsplit(issuer.address).netloc),
            say("certificate-listed"),
            say("certificate-status"),
        ]
    contact = issuer.contact if issuer else None
    where = "database-file" if make_url(settings.database).get_backend_name() == "sqlite" else "database-server"
    return [
        {
            "title": say("who"),
            "lines": [say("who-runs", issuer=issuer.name(language) if issuer else "Shardwise")]
            + ([say("contact", email=contact)] if contact else []),
        },
        {"title": say("account"), "lines": [say("account-holds"), *ways, *mail]},
        {"title": say("exam"), "lines": [say("exam-holds"), say("exam-who"), say("exam-code"), say("exam-report")]},
        {"title": say("certificate"), "lines": certificates},
        {
            "title": say("cookies"),
            "lines": [
                say("cookie-session", kept=lasting(settings.session_hours * 3600)),
                say("cookie-visitor", kept=lasting(VISITOR_SECONDS)),
                say("cookie-language", kept=lasting(LANGUAGE_SECONDS)),
                *([say("cookie-errand", kept=lasting(600))] if settings.hub or settings.oidc else []),
                say("cookie-none"),
            ],
        },
        {"title": say("logs"), "lines": [say("logs-hold"), say("limits"), say("audit")]},
        {"title": say("where"), "lines": [say(where), say("nobody-else"), say("backups")]},
        {
            "title": say("rights"),
            "lines": [say("rights-see"), say("rights-name"), say("rights-erase"), say("rights-stays")],
        },
    ]
