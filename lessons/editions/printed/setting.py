"""The book as a PDF: typst with the fonts that it brings and Amiri. Equal content gives equal bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from importlib.resources import files
from pathlib import Path

from translations import languages

TEMPLATE = Path(__file__).with_name("book.typ")


def typeset(body: str, data: Mapping[str, object], *, at: datetime) -> bytes:
    """Markup that calls the template's functions, as a PDF that is dated `at`."""
    import typst

    source = TEMPLATE.read_text(encoding="utf-8") + "\n#show: setting\n\n" + body
    made = typst.compile(
        input=source.encode("utf-8"),
        format="pdf",
        font_paths=_fonts(),
        timestamp=at,
        pdf_standards=["ua-1"],
        sys_inputs={"data": json.dumps(data, ensure_ascii=False)},
    )
    assert isinstance(made, bytes)
    return made


@cache
def _fonts():  # type: ignore[no-untyped-def]
    import typst

    brought = [str(each.fonts) for each in languages() if each.fonts]
    return typst.Fonts(include_system_fonts=False, font_paths=[str(files("fontpkg_amiri") / "files"), *brought])
