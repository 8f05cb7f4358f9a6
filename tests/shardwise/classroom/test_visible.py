"""Text out of a sandbox: nothing in it moves a cursor, turns a line around, breaks a file or fills a disk."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwise.classroom.visible import visible, visible_json

HARMFUL = {
    "colour": ("\x1b[31mred", "\\x1b[31mred"),
    "title of the terminal": ("\x1b]0;root\x07$ ", "\\x1b]0;root\\x07$ "),
    "one byte for two": ("\x9b2J", "\\x9b2J"),
    "over the line": ("0 of 10\r10 of 10", "0 of 10\\x0d10 of 10"),
    "backwards": ("\u202e01 fo 01", "\\u202e01 fo 01"),
    "half a character": ("\ud800", "\\ud800"),
    "deleting": ("no\b\byes", "no\\x08\\x08yes"),
    "nul": ("a\0b", "a\\x00b"),
}


@pytest.mark.parametrize("name", HARMFUL)
def test_what_would_act_is_shown_instead(name: str) -> None:
    given_text, shown = HARMFUL[name]
    assert visible(given_text) == shown


@pytest.mark.parametrize("text", ["a\tb\nc", "زيرو \u2066ZeRO-1\u2069", "één", "日本語 🙂", "<b>&amp;", "line\r\nline"])
def test_what_is_harmless_stays(text: str) -> None:
    assert visible(text) == text.replace("\r\n", "\n")


@given(st.text(st.characters(codec=None, categories=None), max_size=300))
def test_it_can_always_be_written_and_once_is_enough(text: str) -> None:
    shown = visible(text)
    shown.encode("utf-8")
    assert all(each in "\t\n" or each.isprintable() or ord(each) > 0x9F for each in shown)
    assert visible(shown) == shown


def test_it_is_never_long() -> None:
    assert len(visible("\x1b" * 10_000_000, longest=100)) < 120
    assert visible("x" * 100, longest=100) == "x" * 100


def test_texts_within_json_and_their_keys() -> None:
    told = {"\x1b[2J": ["\ud800", 1, None, {"a": "\x07"}]}
    assert visible_json(told) == {"\\x1b[2J": ["\\ud800", 1, None, {"a": "\\x07"}]}
