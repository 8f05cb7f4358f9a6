"""Puts the page together: template, style, scripts, rules and the words of every language that has them all.

The page may run exactly this script and this style (their hashes stand in its policy) and load nothing at all. An
issuer's build has its keys pinned, and may ask its own status lists, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

from certificates import strict
from certificates.issuer import Issuer
from translations import SOURCE, Language, catalogs, languages, translator, wording

FOLDER = Path(__file__).resolve().parent
PAGE = FOLDER / "verify.html"
_STEPS = ("step-", "result-", "verdict-", "format-", "signature-", "issuer-", "dates-", "revocation-", "recipient-")
_MORE = (
    "evidence-",
    "conditions",
    "skipped",
    "issued-on",
    "course-version",
    "exercises-passed",
    "awarded-on",
    "expires-",
)
_LAST = ("page-", "score-of-mark", "attempt", "items")
_WORDS = (*_STEPS, *_MORE, *_LAST)


def build(issuer: Issuer | None = None) -> str:
    """The whole page; with an issuer, the one that it hosts itself."""
    style = (FOLDER / "style.css").read_text(encoding="utf-8")
    pinned = issuer.trust.as_json() if issuer else None
    script = f"const RULES = {_literal(strict.rules())};\nconst LANGUAGES = {_literal(_languages())};\n"
    script += f"const PINNED = {_literal(pinned)};\n"
    script += "".join((FOLDER / name).read_text(encoding="utf-8") for name in ("verifier.js", "page.js"))
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src '{_hash(style)}'",
            *([f"connect-src {' '.join(issuer.party.status)}"] if issuer else []),
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    text = translator(SOURCE)
    parts = {
        "policy": policy,
        "title": text("certificates.page-title"),
        "no_script": "<br>".join(translator(each)("certificates.page-no-script") for each in _spoken()),
        "style": style,
        "script": script,
    }
    page = (FOLDER / "template.html").read_text(encoding="utf-8")
    for name, value in parts.items():
        page = page.replace(f"{{{name}}}", value, 1)
    return page


def _spoken() -> list[Language]:
    """Those released, and those in preparation that have every word of the page."""
    english = {each: str(text) for each, text in wording.messages(strict.FOLDER).items() if each.startswith(_WORDS)}

    def whole(chosen: Language) -> bool:
        words = catalogs.catalog(chosen, "certificates")
        return all(words.current(each, text) for each, text in english.items())

    return [each for each in languages() if each.released or whole(each)]


def _languages() -> dict[str, object]:
    english = wording.messages(strict.FOLDER)
    names = [each for each in english if each.startswith(_WORDS)]
    built: dict[str, object] = {}
    for chosen in _spoken():
        words = catalogs.catalog(chosen, "certificates")
        built[chosen.code] = {
            "name": chosen.name,
            "direction": chosen.direction,
            "locale": chosen.locale.replace("_", "-"),
            "messages": {each: words.get(each, str(english[each])) for each in names},
        }
    return built


def _literal(value: object) -> str:
    """JSON that may stand inside a script element."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode("ascii")


def main() -> None:
    """Writes the page."""
    PAGE.write_text(build(), encoding="utf-8")


if __name__ == "__main__":
    main()
