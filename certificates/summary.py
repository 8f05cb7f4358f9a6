"""What a certificate says, as labels and values for people. The verification page shows the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from translations import Language, formats, translator


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A credential's claims, taken out of it. ``results``: title and percentage of each objective."""

    holder: str
    unit: str
    achievement: str
    moment: datetime
    version: str
    language: str
    supervised: bool
    checks: str
    quiz: Decimal
    mastered: int
    results: tuple[tuple[str, Decimal], ...]


def summarize(credential: Mapping[str, Any]) -> Summary:
    """Needs a credential that was verified or just issued."""
    subject = credential["credentialSubject"]
    achievement = subject["achievement"]
    descriptions = {each["id"]: each for each in achievement["resultDescription"]}
    values = {each["resultDescription"]: Decimal(each["value"]) for each in subject["result"]}
    objectives = [id for id in descriptions if ":objective:" in id]
    evidence = {each["genre"]: each["narrative"] for each in credential["evidence"]}
    return Summary(
        holder=next(each["identityHash"] for each in subject["identifier"] if each["identityType"] == "name"),
        unit=achievement["name"],
        achievement=achievement["id"],
        moment=datetime.fromisoformat(credential["validFrom"]),
        version=achievement["version"],
        language=achievement["inLanguage"],
        supervised=evidence["supervised"] == "yes",
        checks=evidence["checks"],
        quiz=values[f"{achievement['id']}:quiz"],
        mastered=sum(values[id] >= Decimal(descriptions[id]["requiredValue"]) for id in objectives),
        results=tuple((descriptions[id]["name"], values[id]) for id in objectives),
    )


def rows(credential: Mapping[str, Any], language: Language | str) -> tuple[tuple[str, str], ...]:
    """What a verifier shows of a credential whose signature is intact: label and value, holder first."""
    text = translator(language)
    summary = summarize(credential)
    conditions = "supervised" if summary.supervised else "unsupervised"
    mastered = text("certificates.mastered-of", mastered=summary.mastered, objectives=len(summary.results))
    return (
        (text("certificates.page-holder"), summary.holder),
        (text("certificates.page-unit"), summary.unit),
        (text("certificates.issued-on"), formats.date(summary.moment.date(), text.language)),
        (text("certificates.result-mastery"), mastered),
        (text("certificates.result-quiz"), percentage(summary.quiz, text.language)),
        (text("certificates.exercises-passed"), formats.isolate_latin(summary.checks)),
        (text("certificates.conditions"), text(f"certificates.conditions-{conditions}")),
        (text("certificates.course-version"), formats.isolate_latin(summary.version)),
        (text("certificates.page-issuer-id"), formats.isolate_latin(credential["issuer"]["id"])),
        (text("certificates.page-id"), formats.isolate_latin(credential["id"])),
    )


def percentage(value: Decimal, language: Language | str) -> str:
    """``85%``, ``66.6%``: as many digits as the credential gives."""
    return formats.percent(float(value) / 100, language, digits=sum(each.isdigit() for each in str(value)))
