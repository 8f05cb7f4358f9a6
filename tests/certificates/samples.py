"""Evidence and keys that tests share. The key is public and worth nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from certificates import Evidence, Result
from certificates.keys import Key

KEY = Key(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
OTHER_KEY = Key(Ed25519PrivateKey.from_private_bytes(bytes(range(32, 64))))
EMAIL = "Noor@Example.org"


def evidence(**changes: Any) -> Evidence:
    """Four of five objectives mastered, everything passed."""
    values: dict[str, Any] = {
        "unit": "04-zero-1",
        "title": "ZeRO stage 1: shard the optimizer states",
        "holder": "Noor el-Amrani",
        "results": (
            Result(id="states", title="Say what each rank holds, and what is redundant", share=1.0),
            Result(id="step", title="Write the sharded optimizer step", share=11 / 12),
            Result(id="bytes", title="Compute the bytes that a rank holds", share=5 / 6),
            Result(id="traffic", title="Compute the traffic of a training step", share=2 / 3),
            Result(id="limits", title="Judge when stage 1 is enough", share=0.5),
        ),
        "quiz_score": 0.85,
        "objective_mark": 0.66,
        "pass_mark": 0.8,
        "checks_passed": 2,
        "checks": 2,
        "attempt_hash": f"sha256:{'a1' * 32}",
        "bank_hash": f"sha256:{'b2' * 32}",
        "seed": 20261130,
        "course_version": "0.1.0",
        "language": "en",
        "issued_at": datetime(2026, 11, 29, 12, 0, 5, tzinfo=UTC),
        "email": EMAIL,
    }
    return Evidence(**(values | changes))


def arabic(**changes: Any) -> Evidence:
    """The same in Arabic, with English terms in the middle of sentences."""
    values: dict[str, Any] = {
        "title": "المرحلة الأولى من ZeRO: تقسيم حالات المُحسِّن",
        "holder": "نور الهدى بنت عبد الرحمن العمراني",
        "language": "ar",
        "results": (
            Result(id="states", title="بيان ما تحمله كل رتبة وما هو مكرّر منه", share=1.0),
            Result(id="step", title="كتابة خطوة المُحسِّن المُقسَّمة", share=11 / 12),
            Result(id="traffic", title="حساب حجم البيانات المتبادَلة في all-gather", share=2 / 3),
        ),
    }
    return evidence(**(values | changes))


def georgian(**changes: Any) -> Evidence:
    """The same in Georgian, with Latin terms and case endings behind them."""
    values: dict[str, Any] = {
        "title": "ZeRO-1: ოპტიმიზატორის მდგომარეობების დანაწილება",
        "holder": "ნინო ბერიძე-ჭყონია",
        "language": "ka",
        "results": (
            Result(id="states", title="იმის თქმა, რას ინახავს თითოეული რანგი და რა არის ზედმეტი", share=1.0),
            Result(id="step", title="ოპტიმიზატორის დანაწილებული ბიჯის დაწერა", share=11 / 12),
            Result(id="traffic", title="all-gather-ით გადაცემული ბაიტების გამოთვლა", share=2 / 3),
        ),
    }
    return evidence(**(values | changes))


def dutch(**changes: Any) -> Evidence:
    """The same in Dutch, with diacritics."""
    values: dict[str, Any] = {
        "title": "ZeRO-stage 1: de optimizer states sharden",
        "holder": "Daniëlle van der Sijpt-Çelik",
        "language": "nl",
        "results": (
            Result(id="states", title="Zeggen wat elke rank vasthoudt en wat daarvan overbodig is", share=1.0),
            Result(id="step", title="De optimizerstap over de ranks verdeeld schrijven", share=11 / 12),
            Result(id="traffic", title="Het communicatievolume van een trainingsstap berekenen", share=2 / 3),
        ),
    }
    return evidence(**(values | changes))
