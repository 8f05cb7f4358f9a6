"""Numbers, units, dates and direction."""

from __future__ import annotations

import datetime
import zoneinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translations import formats, languages

CODES = [each.code for each in languages()]


@pytest.mark.parametrize(
    ("n", "binary", "shown"),
    [
        (0, False, "0 B"),
        (999, False, "999 B"),
        (1000, False, "1.00 kB"),
        (999_999, False, "1.00 MB"),
        (1_234_000_000, False, "1.23 GB"),
        (2**30, True, "1.00 GiB"),
        (1023.9 * 2**20, True, "1.00 GiB"),
        (80e9, False, "80.0 GB"),
    ],
)
def test_bytes_have_three_digits_and_name_their_unit(n: float, binary: bool, shown: str) -> None:
    assert formats.bytes_(n, "en", binary=binary) == shown.replace(" ", formats.NARROW_SPACE)


def test_each_language_has_its_separators() -> None:
    assert formats.number(1234567, "en") == "1,234,567"
    assert formats.number(1234567, "nl") == "1.234.567"
    assert formats.number(3.14159, "nl") == "3,14"
    assert formats.percent(0.256, "nl") == "25,6%"
    assert formats.duration(80, "nl") == "1 min 20 sec".replace(" ", formats.NARROW_SPACE, 1).replace(
        "20 ", f"20{formats.NARROW_SPACE}"
    )
    assert formats.date(datetime.date(2026, 11, 3), "ar") == "3 نوفمبر 2026"


@pytest.mark.parametrize("code", CODES)
@given(x=st.floats(min_value=1e-6, max_value=1e15))
def test_digits_are_western_everywhere(code: str, x: float) -> None:
    shown = formats.number(x, code) + formats.bytes_(x, code) + formats.percent(x, code) + formats.duration(x, code)
    assert formats.western(shown) == shown


@given(x=st.floats(min_value=1e-6, max_value=1e12))
def test_a_number_is_right_to_three_digits(x: float) -> None:
    assert float(formats.number(x, "en").replace(",", "")) == pytest.approx(x, rel=0.0051)


def test_any_digits_are_read() -> None:
    assert formats.western("١٢٫٥ ۱۲") == "12.5 12"


@pytest.mark.parametrize(
    ("text", "isolated"),
    [
        ("تحتاج إلى 16 GB من الذاكرة", "تحتاج إلى [16 GB] من الذاكرة"),
        ("نسبة 80% منها", "نسبة [80%] منها"),
        ("على 4 رُتَب", "على 4 رُتَب"),
        ("اختزال وتعميم (all-reduce) ثم ZeRO-1", "اختزال وتعميم ([all-reduce]) ثم [ZeRO-1]"),
        ("استدعِ `f()` مرة", "استدعِ [`f()`] مرة"),
        ("الصيغة $a + b$ هنا", "الصيغة $a + b$ هنا"),
        ("انظر [ZeRO](https://arxiv.org/abs/1) هنا", "انظر [[ZeRO]](https://arxiv.org/abs/1) هنا"),
        ("قيمة {bytes} لكل رتبة", "قيمة {bytes} لكل رتبة"),
        ("سرعة {rate} GB/s هنا، {rate:.0f} GB", "سرعة [{rate} GB/s] هنا، [{rate:.0f} GB]"),
        ("وعددها {G} / {tensor}، أو 2 × {n} + 1", "وعددها [{G} / {tensor}]، أو [2 × {n} + 1]"),
        ("زمن التأخير، \u00b5s", "زمن التأخير، [\u00b5s]"),
        ("تدرُّج قيمته {a} × 10⁻⁸ لا 3 × 10⁻⁸", "تدرُّج قيمته [{a} × 10⁻⁸] لا [3 × 10⁻⁸]"),
        ("الناتج -5 أو 3 × 4", "الناتج [-5] أو [3 × 4]"),
        ("only English", "[only English]"),
        ("اقرأ S. Rao, J. Ba: *ZeRO: Memory*, SC20. القسم 3", "اقرأ [S. Rao, J. Ba: *ZeRO: Memory*, SC20]. القسم 3"),
        ("كتبه D. P. Kingma وآخرون: *Adam: A Method*, SC21", "كتبه [D. P. Kingma] وآخرون: *[Adam: A Method]*, [SC21]"),
        ("كتبه Y. Xu وآخرون، وJ. Rasley بعده", "كتبه [Y. Xu] وآخرون، و[J. Rasley] بعده"),
        ("مع ZeRO-1. FSDP أبعد", "مع [ZeRO-1]. [FSDP] أبعد"),
        ("نافذة unit.part(flat) على", "نافذة [unit.part(flat)] على"),
        ("استدعِ f(g(x), y=[1]).h() مرة", "استدعِ [f(g(x), y=[1]).h()] مرة"),
        ("وحدة GPU (out of memory) هنا", "وحدة [GPU] ([out of memory]) هنا"),
        ("في 2 (N - 1) دورة", "في [2 (N - 1)] دورة"),
        ("الشكل (B, S) هنا", "الشكل [(B, S)] هنا"),
        ("خذ --tp 4 أو غيِّر --pp و--zero هنا", "خذ [--tp 4] أو غيِّر [--pp] و[--zero] هنا"),
    ],
)
def test_latin_runs_are_isolated_in_a_right_to_left_sentence(text: str, isolated: str) -> None:
    assert formats.isolate_runs(text).replace(formats.ISOLATE, "[").replace(formats.POP, "]") == isolated
    assert formats.isolate_runs(formats.isolate_runs(text)) == formats.isolate_runs(text)


def test_a_moment_is_told_with_its_zone() -> None:
    zone = zoneinfo.ZoneInfo("Africa/Cairo")
    at = datetime.datetime(2026, 12, 1, 23, 59, tzinfo=zone)
    assert formats.moment(at, "en") == "Tue 1 Dec 2026, 23:59 (Africa/Cairo)"
    assert formats.moment(at, "nl") == "di 1 dec 2026, 23:59 (Africa/Cairo)"
    assert formats.moment(at, "ar") == "الثلاثاء 1 ديسمبر 2026، 23:59 (\u2066Africa/Cairo\u2069)"
    assert formats.moment(at.astimezone(datetime.UTC), "en") == "Tue 1 Dec 2026, 21:59 (UTC)"
    with pytest.raises(ValueError, match="zone"):
        formats.moment(at.replace(tzinfo=None), "en")
