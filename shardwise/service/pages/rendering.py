"""Pages out of templates: every value escaped, every word a message, in the reader's language and direction.

No page has a script, a style of its own or an address that is not ours. Values of questions hold the few marks of
`quiz.rendering`, which makes HTML of them; anything else that is shown is text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from quiz import rendering
from shardwise.service.accounts import Person
from shardwise.service.security import CSRF_FIELD, cookie_name, csrf_token
from translations import SOURCE, Language, formats, languages, translator
from translations import language as find

FOLDER = Path(__file__).parent
LANGUAGE_COOKIE = "shardwise-language"
LANGUAGE_SECONDS = 365 * 86_400
HOUSE = "Shardwise"
ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32" fill="none" stroke="#0068a3" stroke-width="2">'
    '<rect x="2" y="6" width="5" height="20" fill="#0068a3"/><rect x="10" y="6" width="5" height="20"/>'
    '<rect x="18" y="6" width="5" height="20"/><rect x="26" y="6" width="5" height="20"/></svg>'
)


def spoken(request: Request, person: Person | None = None, *, secure: bool) -> Language:
    """The reader's language: the address (`?lang=ar`), what was chosen, the browser's, the account's, English."""
    released = {each.code: each for each in languages() if each.released}
    asked = [request.query_params.get("lang"), request.cookies.get(cookie_name(LANGUAGE_COOKIE, secure=secure))]
    for code in asked:
        if code in released:
            return released[code]
    for code in (*accepted(request.headers.get("accept-language", "")), person.language if person else ""):
        if code in released:
            return released[code]
    return find(SOURCE)


def accepted(header: str) -> tuple[str, ...]:
    """The codes of an Accept-Language header, the most wanted first; what cannot be read is left out."""
    wanted: list[tuple[float, int, str]] = []
    for place, part in enumerate(header[:500].split(",")[:20]):
        found = re.fullmatch(
            r"\s*([A-Za-z]{2,3})(?:-[A-Za-z0-9-]+)?\s*(?:;\s*q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?))?\s*", part
        )
        if found and float(found[2] or 1) > 0:
            wanted.append((-float(found[2] or 1), place, found[1].lower()))
    return tuple(code for _, _, code in sorted(wanted))


@cache
def style() -> tuple[str, str]:
    """The style sheet, and the name under which it may be kept for ever."""
    text = (FOLDER / "style.css").read_text(encoding="utf-8")
    return text, f"style-{hashlib.sha256(text.encode()).hexdigest()[:16]}.css"


def clock_style(seconds: int) -> str:
    """A clock without a script: the style sheet itself counts down the minutes, from when the page was opened.

    It only shows; what counts is the server's clock, which also ends the exam.
    """
    left = max(0, seconds)
    minutes, rest = left // 60, left % 60
    return (
        '@property --left { syntax: "<integer>"; inherits: true; initial-value: 0; }\n'
        f".clock-left {{ --left: 0; animation: left {minutes * 60}s {rest}s steps({max(1, minutes)}, end) both; "
        "counter-reset: left var(--left); }\n"
        f"@keyframes left {{ from {{ --left: {minutes}; }} to {{ --left: 0; }} }}\n"
        '.clock-left::after { content: " · " attr(data-label) " " counter(left); }\n'
        f".clock {{ animation: soon 1s {max(0, left - 300)}s both; }}\n"
        "@keyframes soon { to { color: var(--bad); font-weight: 600; } }\n"
    )


class Renderer:
    """Makes responses of templates. `prefix` is the path below which the service stands (a Hub's), without its end."""

    def __init__(self, *, prefix: str = "", house: str = HOUSE, secure: bool = False, verifies: bool = False) -> None:
        self.prefix, self.house, self.secure, self.verifies = prefix, house, secure, verifies
        self.environment = Environment(
            loader=FileSystemLoader(FOLDER / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.environment.globals |= {"rich": rich, "line": line}

    def at(self, path: str) -> str:
        """The address of a path of ours."""
        return f"{self.prefix}{path}"

    def page(
        self,
        request: Request,
        template: str,
        /,
        *,
        title: str,
        language: Language,
        person: Person | None = None,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        **values: Any,
    ) -> HTMLResponse:
        """A page. Its title and everything else come in the reader's language; a language chosen by address is kept."""
        shown = {
            **self.words(language),
            "title": title,
            "language": language,
            "languages": [each for each in languages() if each.released],
            "in_language": lambda each: address_in(request, each),
            "account": person and {"name": person.name, "examiner": person.may("examiner")},
            "csrf": lambda: _field(request),
            "house": self.house,
            "style": self.at(f"/static/{style()[1]}"),
            "icon": self.at("/static/icon.svg"),
            "at": self.at,
            "verifies": self.verifies,
            "here": "",
            "notice": None,
            "wide": False,
            **values,
        }
        body = self.environment.get_template(template).render(shown)
        response = HTMLResponse(body, status_code=status, headers=dict(headers or {}))
        response.headers["content-language"] = language.code
        response.headers["vary"] = "Cookie, Accept-Language"
        if request.query_params.get("lang") == language.code:
            keep_language(response, language, secure=self.secure)
        return response

    def words(self, language: Language) -> dict[str, Any]:
        """What writes words, numbers and moments in a language."""
        text = translator(language)
        return {
            "t": lambda id, **values: text(f"shardwise.{id}", **values),
            "tc": lambda id, **values: text(f"certificates.{id}", **values),
            "day": lambda at: formats.date(at.date(), language),
            "moment": lambda at: moment(at, language),
            "ends": lambda at: clock_time(at, language),
            "duration": lambda seconds: formats.duration(seconds, language),
            "percent": lambda share: percent(share, language),
            "number": lambda value: formats.number(value, language),
            "plain": lambda said: rendering.plain(said, language),
        }


def keep_language(response: HTMLResponse, language: Language, *, secure: bool) -> None:
    from shardwise.service.security import set_cookie

    set_cookie(response, LANGUAGE_COOKIE, language.code, secure=secure, seconds=LANGUAGE_SECONDS)


def address_in(request: Request, language: Language) -> str:
    """This page in another language. A one-time token that stands in the address goes nowhere else."""
    kept = [(key, value) for key, value in request.query_params.multi_items() if key in ("q", "page", "kind")]
    return f"{request.url.path}?{urlencode([*kept, ('lang', language.code)])}"


def moment(at: datetime, language: Language) -> str:
    """A day and a time of day."""
    comma = "، " if language.direction == "rtl" else ", "
    return f"{formats.date(at.astimezone(UTC).date(), language)}{comma}{clock_time(at, language)}"


def clock_time(at: datetime, language: Language) -> str:
    """A time of day. The server knows no reader's zone, so it says which it means."""
    shown = f"{at.astimezone(UTC):%H:%M}{formats.NARROW_SPACE}UTC"
    return formats.isolate(shown) if language.direction == "rtl" else shown


def percent(share: float, language: Language) -> str:
    """A share as whole percents, rounded down: 79.9 never shows as the 80 that it did not reach."""
    whole = int(share * 100 + 1e-9)
    return formats.percent(whole / 100, language, digits=max(1, len(str(whole))))


def rich(text: str) -> Markup:
    """Paragraphs, code and formulas of a question's text, as HTML."""
    return Markup(rendering.html(text))


def line(text: str) -> Markup:
    """The same of one paragraph."""
    return Markup(rendering.inline(text))


def _field(request: Request) -> Markup:
    return Markup('<input type="hidden" name="{}" value="{}">').format(CSRF_FIELD, csrf_token(request))
