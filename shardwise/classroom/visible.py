"""Text out of a sandbox, so that it can be shown: in a terminal, a page, a file.

A student's words may hold codes that move a terminal's cursor, letters that turn the order of what follows, halves of
characters that no file takes, and a hundred megabytes. What is made visible here has none of that, and reads the same
otherwise. It is no HTML: whoever writes a page escapes it there.
"""

from __future__ import annotations

import re
from typing import Any

LONGEST = 20_000
"""Characters of one text that are kept."""
_HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\ud800-\udfff\ufeff]")
"""Control characters but tab and new line, what turns the direction of all that follows, separators that only some
programs take for a new line, and surrogates. Isolates (U+2066 to U+2069) end with their paragraph, and stay.
"""
_CUT = " [...]"


def visible(text: str, *, longest: int = LONGEST) -> str:
    """The text with an escape in place of each harmful character, and no longer than so many characters.

    A carriage return before a new line is only an end of a line.
    """
    cut = len(text) > longest
    shown = _HARMFUL.sub(_escaped, text[:longest].replace("\r\n", "\n"))
    return shown[:longest] + _CUT if cut or len(shown) > longest else shown


def visible_json(value: Any, *, longest: int = LONGEST) -> Any:
    """The same of every text in JSON, keys too."""
    if isinstance(value, str):
        return visible(value, longest=longest)
    if isinstance(value, dict):
        return {visible(str(key), longest=longest): visible_json(each, longest=longest) for key, each in value.items()}
    return [visible_json(each, longest=longest) for each in value] if isinstance(value, list) else value


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
