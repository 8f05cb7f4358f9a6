import pytest

from quiz.rendering import fill, fill_code, html, plain


def test_marks_become_html_and_everything_else_is_escaped() -> None:
    shown = html("Take `a<b>` and $12 P / N^2$ <script>\n\nthen")
    assert shown.startswith('<p>Take <code dir="ltr">a&lt;b&gt;</code>')
    assert "<var>P</var> / <var>N</var><sup>2</sup>" in shown
    assert "&lt;script&gt;</p><p>then</p>" in shown


def test_values_are_written_as_the_language_writes_them() -> None:
    values = {"P": 1_300_000_000, "share": 0.25, "word": "bf16", "x": 1.5}
    show = {"P": "bytes", "share": "percent"}
    assert fill("{P} {share} {word} {x}", values, show, "en") == "1.30\u202fGB 25.0% bf16 1.5"
    assert "1,5" in fill("{x}", values, show, "nl")


def test_arabic_keeps_latin_values_in_their_direction() -> None:
    assert fill("القيمة {P}", {"P": 12_000}, {"P": "bytes"}, "ar") == "القيمة \u206612.0\u202fkB\u2069"


def test_an_unknown_name_is_an_error_in_a_text_and_stays_in_code() -> None:
    with pytest.raises(KeyError):
        fill("{missing}", {}, {}, "en")
    assert fill_code("run {N} {other}", {"N": 4}) == "run 4 {other}"


def test_a_terminal_gets_no_marks_and_isolated_code_in_arabic() -> None:
    assert plain("use `f()` or $2 P$", "en") == "use f() or 2 P"
    assert plain("`f()`", "ar") == "\u2066f()\u2069"


def test_braces_hold_what_is_raised_or_lowered() -> None:
    assert "2<sup>-24</sup>/|<var>g</var>|" in html("$2^{-24}/|g|$")
    assert "2<sup>-<var>k</var>-7</sup>" in html("$2^{-k-7}$")
    assert "<var>P</var><sub>max</sub>" in html("$P_{max}$")
