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

from translations import CourseError

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
                sys_inputs={"data": json.dumps(data, ensure_ascii=False)},
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
    own = [str(files("fontpkg_amiri") / "files")]
    return typst.Fonts(include_system_fonts=not own_only, font_paths=own)


@cache
def _source(template: str) -> bytes:
    return (FOLDER / "common.typ").read_bytes() + (FOLDER / template).read_bytes()
