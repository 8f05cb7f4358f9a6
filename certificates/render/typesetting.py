"""typst with the course's fonts. Data goes in as data, never as markup, so that a hostile name stays a name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal

import typst

from translations import CourseError, language, languages

FOLDER = Path(__file__).resolve().parent


def typeset(
    template: str,
    data: Mapping[str, object],
    *,
    format: Literal["pdf", "png", "svg"],
    at: datetime,
    standards: Sequence[Literal["a-3a", "ua-1"]] = (),
    ppi: float | None = None,
) -> bytes:
    """A template of this folder with this data, dated ``at``; equal arguments give equal bytes.

    Raises CourseError for a script that no font here shows.

    The course's own fonts come first, so that a certificate looks the same everywhere; the computer's are only asked
    where those lack a character.
    """
    for own_only in (True, False):
        try:
            result = typst.compile(
                input=_source(template),
                format=format,
                font_paths=_fonts(own_only),
                timestamp=at,
                pdf_standards=list(standards),
                ppi=ppi,
                sys_inputs={"data": json.dumps({**data, **_families(data)}, ensure_ascii=False)},
            )
        except typst.TypstError as error:
            if "could not be displayed" not in str(error):
                raise
            continue
        assert isinstance(result, bytes)
        return result
    raise CourseError("certificates.name-script")


@cache
def _fonts(own_only: bool) -> typst.Fonts:
    return typst.Fonts(include_system_fonts=not own_only, font_paths=font_folders())


def font_folders() -> list[str]:
    """The folders of the course's own fonts, those that languages bring along included: a name may be in any script."""
    return [str(files("fontpkg_amiri") / "files"), *(str(each.fonts) for each in languages() if each.fonts)]


def _families(data: Mapping[str, object]) -> dict[str, list[str]]:
    """The family that the certificate's language brings along, and those of other languages, for names."""
    own = language(str(data["language"])).font
    others = {each.font for each in languages()} - {own, ""}
    return {"own-font": [own] if own else [], "more-fonts": sorted(others)}


@cache
def _source(template: str) -> bytes:
    return (FOLDER / "common.typ").read_bytes() + (FOLDER / template).read_bytes()
