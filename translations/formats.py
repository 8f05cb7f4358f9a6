"""Numbers, bytes, durations and dates as a reader of each language expects them, and text that keeps its direction.

Digits are Western in every language. A unit follows a narrow no-break space.
"""

from __future__ import annotations

import datetime
import math
import re
import unicodedata
from itertools import pairwise

from translations.available import Language
from translations.available import language as find

NARROW_SPACE = "\N{NARROW NO-BREAK SPACE}"
ISOLATE, POP = "\N{LEFT-TO-RIGHT ISOLATE}", "\N{POP DIRECTIONAL ISOLATE}"
_DECIMAL = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_RIGHT_TO_LEFT = ("R", "AL")
_NOT_RIGHT_TO_LEFT = r"[^\u0590-\u08FF\u2066-\u2069\n]"
_INSIDE = r"[^()$`{}*\u0590-\u08FF\u2066-\u2069\n]"
_BRACKETED = rf"\((?:{_INSIDE}|\({_INSIDE}*\))*\)"
# A word, with the brackets of a call: "unit.part(flat)"; a flag, "--tp".
_RAISED = r"\u00B2\u00B3\u00B9\u2070-\u209C"  # superscripts and subscripts, "10⁻⁸"
_WORD = r"A-Za-z0-9_\u00B5\u00C0-\u024F\u0370-\u03FF"
_ATOM = rf"(?:--|[-−])?[{_WORD}][{_WORD}{_RAISED}]*%?(?:{_BRACKETED})*"
_JOINT = r"(?:[ \u00A0\u202F]|[.,:/+&'’@#–-]|[ \u00A0\u202F]?[+×÷=≈≤≥<>^·/−][ \u00A0\u202F]?)"
# A value with its unit, "{rate} GB/s", or in a small sum or product, "{a} × 10⁻⁸": one run, whatever the value.
_FILLED = r"\{[A-Za-z0-9_][^{}]*\}"
_UNIT = r"[ \u00A0\u202F](?:[kMGTPE]i?B|B|[kMGTP]?FLOPs?|[mµ]?s|Hz|[kM]?Wh?)(?:/s)?(?![A-Za-z0-9_])"
_SIGN = r"[ \u00A0\u202F]?[+×÷/−][ \u00A0\u202F]?"
_MORE = rf"(?:{_SIGN}|\.)(?:{_FILLED}|{_ATOM})"
_COUNTED = (
    rf"(?<![A-Za-z0-9_])(?:{_ATOM}{_SIGN})+{_FILLED}(?:{_MORE})*(?:{_UNIT})?"
    rf"|{_FILLED}(?:(?:{_MORE})+(?:{_UNIT})?|{_UNIT})"
)
# A sum or difference in brackets, with the factor before it, "2 (N - 1)", and a shape or list of names, "(B, S)".
_GROUP = (
    rf"(?:(?:[0-9]+ ?)?\({_INSIDE}*[A-Za-z0-9)] [-+−] [A-Za-z0-9(]{_INSIDE}*\)"
    r"|\([A-Za-z0-9_]+(?:, [A-Za-z0-9_]+)+\))"
)
# A work as it is cited, from the first initial on: "S. Rajbhandari, J. Rasley: *ZeRO: Memory Optimizations*, SC20".
_CITED = rf"(?<![A-Za-z0-9_.])(?:[A-Z]\. ?)+[A-Z][a-z]+(?:{_NOT_RIGHT_TO_LEFT}*[A-Za-z0-9*])?"
_EMPHASISED = r"(?<=\*)[A-Za-z][^*\u0590-\u08FF\u2066-\u2069\n]*(?=\*)"
_RUN = re.compile(
    rf"(?P<counted>{_COUNTED})|"
    r"(?P<kept>\$\$.+?\$\$|\$(?=\S)[^$\n]+?\$|\]\([^)]*\)|https?://\S+|</?[A-Za-z!][^>]*>|\{[^{}]*\})"
    rf"|`+[^`]+`+|{_CITED}|{_EMPHASISED}|(?<![A-Za-z0-9_])(?:{_GROUP}|{_ATOM})(?:{_JOINT}{_ATOM})*"
)


def number(x: float, language: Language | str, digits: int = 3) -> str:
    """A whole number (int) exactly and grouped; any other to ``digits`` significant digits."""
    from babel.numbers import format_decimal

    locale = find(language).locale
    if isinstance(x, int):
        return str(format_decimal(x, format="#,##0", locale=locale))
    if not math.isfinite(x):
        return str(x)
    rounded, decimals = _significant(x, digits)
    return str(format_decimal(rounded, format=_pattern(decimals), locale=locale))


def bytes_(n: float, language: Language | str, binary: bool = False) -> str:
    """``1.23 GB`` (10^9), with ``binary`` ``1.15 GiB`` (2^30): three significant digits; bytes are whole."""
    base, units = (1024, _BINARY) if binary else (1000, _DECIMAL)
    power, value = 0, float(n)
    while abs(value) >= base and power < len(units) - 1:
        value, power = value / base, power + 1
    if power and abs(_three_digits(value)) >= base and power < len(units) - 1:
        value, power = value / base, power + 1
    shown = number(round(value), language) if not power or abs(value) >= 999.5 else number(value, language)
    return f"{shown}{NARROW_SPACE}{units[power]}"


def percent(x: float, language: Language | str, digits: int = 3) -> str:
    """A fraction as a percentage: 0.256 is ``25.6%``."""
    from babel.numbers import format_percent

    rounded, decimals = _significant(x * 100, digits)
    pattern = f"{_pattern(decimals)}%"
    return format_percent(rounded / 100, format=pattern, locale=find(language).locale)


def duration(seconds: float, language: Language | str) -> str:
    """``350 ms``, ``2.5 s``, ``1 min 20 s``, ``3 hr 5 min``, in the language's short unit names."""
    chosen = find(language)
    if seconds < 1:
        return _unit(seconds * 1000, "millisecond", chosen)
    if round(seconds, 1) < 60:
        return _unit(seconds, "second", chosen)
    steps = (("year", 31_557_600), ("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))
    whole = round(seconds)
    for (unit, size), (next_unit, next_size) in pairwise(steps):
        if whole >= size:
            first, rest = divmod(whole, size)
            parts = [_unit(int(first), unit, chosen)]
            if rest // next_size and (unit != "year" or first < 10):
                parts.append(_unit(int(rest // next_size), next_unit, chosen))
            return " ".join(parts)
    raise AssertionError("a duration of a minute or more has a unit")


def date(day: datetime.date, language: Language | str) -> str:
    """The day in words, as ``30 November 2026``."""
    from babel.dates import format_date

    return western(format_date(day, format="long", locale=find(language).locale))


def moment(at: datetime.datetime, language: Language | str) -> str:
    """A moment in words, with the zone that it is told in: ``Tue 1 Dec 2026, 23:59 (Europe/Amsterdam)``."""
    from babel.dates import format_datetime

    if at.tzinfo is None:
        raise ValueError(f"the moment {at} has no zone")
    chosen = find(language)
    comma = "،" if chosen.direction == "rtl" else ","
    said = western(format_datetime(at, format=f"EEE d MMM y'{comma}' HH:mm", locale=chosen.locale))
    zone = getattr(at.tzinfo, "key", "") or at.tzname() or ""
    return f"{said} ({isolate(zone) if chosen.direction == 'rtl' else zone})"


def isolate(text: str) -> str:
    """Left-to-right text that the sentence around it cannot reorder: U+2066 ... U+2069."""
    return f"{ISOLATE}{text}{POP}"


def isolate_latin(text: str) -> str:
    """Isolates a Latin or numeric value; leaves plain digits, addresses and right-to-left text as they are."""
    if not re.search(r"[A-Za-z0-9]", text) or text.isdecimal() or text.startswith(("http://", "https://")):
        return text
    if ISOLATE in text or any(unicodedata.bidirectional(each) in _RIGHT_TO_LEFT for each in text):
        return text
    return isolate(text)


def isolate_runs(text: str) -> str:
    """A right-to-left sentence with its code spans and Latin runs ("16 GB", "ZeRO-1", "80%") each isolated.

    Formulas, links, tags and placeholders stay as they are, a placeholder with its unit is one run; a text that is
    isolated already stays, too. A sentence without any right-to-left letter is isolated as one.
    """
    if ISOLATE in text:
        return text
    if not any(unicodedata.bidirectional(each) in _RIGHT_TO_LEFT for each in text):
        return isolate_latin(text)
    return _RUN.sub(_isolated, text)


def western(text: str) -> str:
    """Text with every kind of decimal digit as 0-9, the Arabic decimal and thousands separators as ``.`` and ``,``."""
    plain = (str(unicodedata.decimal(each)) if unicodedata.decimal(each, None) is not None else each for each in text)
    return "".join(plain).translate({0x066B: ".", 0x066C: ","})


def _isolated(run: re.Match[str]) -> str:
    return isolate(run[0]) if run["counted"] or (not run["kept"] and _reorders(run[0])) else run[0]


def _reorders(run: str) -> bool:
    """Whether a right-to-left sentence could show the run in another order: not plain digits, not ranges of them."""
    return bool(re.search(r"[^\W\d]|[`%×÷=≈≤≥<>^+]|^[-−]", run))


def _unit(value: float, unit: str, language: Language) -> str:
    from babel.units import format_unit

    number_format = "#,##0" if isinstance(value, int) else _pattern(_significant(value, 3)[1], trailing=False)
    shown = format_unit(value, unit, length="short", format=number_format, locale=language.locale)
    return shown.replace(" ", NARROW_SPACE)


def _three_digits(value: float) -> float:
    """As it will be shown: to three significant digits, or the next whole one from 1000 on."""
    return round(value) if abs(value) >= 999.5 else _significant(value, 3)[0]


def _significant(x: float, digits: int) -> tuple[float, int]:
    """The value rounded to significant digits, and how many decimals show them."""
    if x == 0 or not math.isfinite(x):
        return x, 0
    rounded = float(f"{x:.{digits - 1}e}")
    return rounded, max(0, digits - 1 - math.floor(math.log10(abs(rounded))))


def _pattern(decimals: int, *, trailing: bool = True) -> str:
    return "#,##0" + ("." + ("0" if trailing else "#") * decimals if decimals else "")
