"""What a certificate says, as values and as labels for people. The verification page shows the same rows, and so does
the service's public page.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from translations import Language, Translator, formats, translator

OBJECTIVE, LAB = ":objective:", ":lab:"


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A credential's claims, taken out of it.

    ``kind``: ``unit`` (a practice certificate) or ``exam``. ``unit``: the title of what was mastered or passed.
    ``moment``: when it was issued; ``awarded``: when it was earned; ``expires``: None for never. ``results``: title and
    percentage of each objective, ``labs`` of each practical task; ``quiz`` and ``practical``: either as a whole.
    ``checks`` and ``mastered`` belong to a unit; ``attempt`` ("2/3"), ``public_bank`` and ``replaces`` to an exam.
    """

    kind: str
    id: str
    issuer: str
    holder: str
    holder_other: str | None
    unit: str
    achievement: str
    criteria: str
    moment: datetime
    awarded: datetime
    expires: datetime | None
    version: str
    language: str
    supervised: bool
    checks: str | None
    quiz: Decimal
    quiz_mark: Decimal | None
    mastered: int
    results: tuple[tuple[str, Decimal], ...]
    labs: tuple[tuple[str, Decimal], ...]
    practical: Decimal | None
    practical_mark: Decimal | None
    attempt: str | None
    public_bank: bool
    official: str | None
    replaces: str | None

    def holder_in(self, direction: str) -> str:
        """The name in the script that runs this way (``ltr``, ``rtl``), where there is one."""
        names = [each for each in (self.holder, self.holder_other) if each]
        return next((each for each in names if direction_of(each) == direction), self.holder)


def direction_of(text: str) -> str:
    """``rtl`` where the first letter belongs to a script written from right to left, else ``ltr``."""
    kinds = (unicodedata.bidirectional(each) for each in text)
    return "rtl" if next((each for each in kinds if each in ("L", "R", "AL")), "L") in ("R", "AL") else "ltr"


def summarize(credential: Mapping[str, Any]) -> Summary:
    """Needs a credential that was verified or just issued."""
    subject = credential["credentialSubject"]
    achievement = subject["achievement"]
    descriptions = {each["id"]: each for each in achievement["resultDescription"]}
    values = {each["resultDescription"]: Decimal(each["value"]) for each in subject["result"]}
    evidence = {each["genre"]: each["narrative"] for each in credential["evidence"]}
    names = [each["identityHash"] for each in subject["identifier"] if each["identityType"] == "name"]
    whole = achievement["id"]

    def part(kind: str) -> tuple[tuple[str, Decimal], ...]:
        return tuple((descriptions[id]["name"], values[id]) for id in descriptions if id.startswith(f"{whole}{kind}"))

    def mark(id: str) -> Decimal | None:
        required = descriptions.get(f"{whole}{id}", {}).get("requiredValue")
        return None if required is None else Decimal(required)

    issued = datetime.fromisoformat(credential["validFrom"])
    return Summary(
        kind="exam" if whole.startswith("urn:shardwise:exam:") else "unit",
        id=credential["id"],
        issuer=credential["issuer"]["id"],
        holder=names[0],
        holder_other=names[1] if len(names) > 1 else None,
        unit=achievement["name"],
        achievement=whole,
        criteria=achievement["criteria"]["narrative"],
        moment=issued,
        awarded=datetime.fromisoformat(credential["awardedDate"]) if "awardedDate" in credential else issued,
        expires=datetime.fromisoformat(credential["validUntil"]) if "validUntil" in credential else None,
        version=achievement["version"],
        language=achievement["inLanguage"],
        supervised=evidence["supervised"] == "yes",
        checks=evidence.get("checks"),
        quiz=values[f"{whole}:quiz"],
        quiz_mark=mark(":quiz"),
        mastered=sum(
            values[id] >= Decimal(each["requiredValue"])
            for id, each in descriptions.items()
            if id.startswith(f"{whole}{OBJECTIVE}") and "requiredValue" in each
        ),
        results=part(OBJECTIVE),
        labs=part(LAB),
        practical=values.get(f"{whole}:labs"),
        practical_mark=mark(":labs"),
        attempt=evidence.get("attempt-number"),
        public_bank=evidence.get("items") == "public",
        official=credential["issuer"].get("official"),
        replaces=evidence.get("replaces"),
    )


def rows(credential: Mapping[str, Any], language: Language | str) -> tuple[tuple[str, str], ...]:
    """What a verifier shows of a credential whose signature is intact: label and value, holder first."""
    text = translator(language)
    summary = summarize(credential)
    holder = [(text("certificates.page-holder"), summary.holder)]
    if summary.holder_other:
        holder.append((text("certificates.page-holder-other"), summary.holder_other))
    shown = (*holder, *(_exam(summary, text) if summary.kind == "exam" else _unit(summary, text)))
    return (
        *shown,
        (text("certificates.course-version"), formats.isolate_latin(summary.version)),
        (text("certificates.page-issuer-id"), formats.isolate_latin(summary.issuer)),
        (text("certificates.page-id"), formats.isolate_latin(summary.id)),
    )


def _unit(summary: Summary, text: Translator) -> tuple[tuple[str, str], ...]:
    mastered = text("certificates.mastered-of", mastered=summary.mastered, objectives=len(summary.results))
    return (
        (text("certificates.page-unit"), summary.unit),
        (text("certificates.issued-on"), formats.date(summary.moment.date(), text.language)),
        (text("certificates.result-mastery"), mastered),
        (text("certificates.result-quiz"), percentage(summary.quiz, text.language)),
        (text("certificates.exercises-passed"), formats.isolate_latin(summary.checks or "-")),
        (text("certificates.conditions"), conditions(summary, text)),
    )


def _exam(summary: Summary, text: Translator) -> tuple[tuple[str, str], ...]:
    return ((text("certificates.page-exam"), summary.unit), *facts(summary, text))


def facts(summary: Summary, language: Translator | Language | str) -> tuple[tuple[str, str], ...]:
    """An exam's dates, scores and conditions: what the printed certificate, the verification page and the service's
    public page have in common.
    """
    text = language if isinstance(language, Translator) else translator(language)
    shown = [(text("certificates.awarded-on"), formats.date(summary.awarded.date(), text.language))]
    if summary.moment.date() != summary.awarded.date():
        shown.append((text("certificates.issued-on"), formats.date(summary.moment.date(), text.language)))
    ends = (
        formats.date(summary.expires.date(), text.language) if summary.expires else text("certificates.expires-never")
    )
    shown.append((text("certificates.expires-on"), ends))
    shown.append((text("certificates.result-quiz"), scored(summary.quiz, summary.quiz_mark, text)))
    if summary.practical is not None:
        shown.append((text("certificates.result-labs"), scored(summary.practical, summary.practical_mark, text)))
    shown.append((text("certificates.conditions"), conditions(summary, text)))
    if summary.attempt:
        number, _, most = summary.attempt.partition("/")
        tries = text("certificates.attempt-of", attempt=number, attempts=most) if most else number
        shown.append((text("certificates.attempt"), tries))
    items = "certificates.items-public" if summary.public_bank else "certificates.items-private"
    shown.append((text("certificates.items"), text(items)))
    return tuple(shown)


def scored(value: Decimal, mark: Decimal | None, text: Translator) -> str:
    """``85% (at least 80%)``"""
    shown = percentage(value, text.language)
    if mark is None:
        return shown
    return text("certificates.score-of-mark", score=shown, mark=percentage(mark, text.language))


def conditions(summary: Summary, text: Translator) -> str:
    """Under supervision or without."""
    return text(f"certificates.conditions-{'supervised' if summary.supervised else 'unsupervised'}")


def percentage(value: Decimal, language: Language | str) -> str:
    """``85%``, ``66.6%``: as many digits as the credential gives."""
    return formats.percent(float(value) / 100, language, digits=sum(each.isdigit() for each in str(value)))
