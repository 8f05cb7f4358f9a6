"""Writes the pages: a folder a language, one style sheet and one script for all, and what each page's reader may want
to go to next. Every address in it is relative.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from html import escape
from importlib import metadata
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from lessons.builder import ROOT
from lessons.editions.site import lesson, plain
from lessons.editions.site.lesson import Heading, Page
from quiz.items import objectives
from translations import Language, formats, languages, translator

FOLDER = Path(__file__).parent
VERIFIER = ROOT / "certificates" / "page" / "verify.html"
LOCK = ROOT / "requirements.lock"
_DARK = '[data-jp-theme-light="false"]'


@dataclass(frozen=True, kw_only=True)
class Site:
    """What was written: its folder, how many pages, and how many bytes in all."""

    folder: Path
    pages: int
    bytes: int


def build(
    notebooks: Mapping[tuple[str, str], Any], *, out: Path, english: Mapping[str, Any], books: Mapping[str, Path] = {}
) -> Site:
    """Writes the pages of executed notebooks, by language and unit, into a folder that holds nothing else.

    `english` has each unit's notebook in the source language, for its anchors; `books` the printed edition's files by
    language, where there are such. What stood in the folder before is taken away.
    """
    spoken = [each for each in languages() if any(code == each.code for code, _ in notebooks)]
    fresh = out.parent / f".{out.name}.part"
    shutil.rmtree(fresh, ignore_errors=True)
    (fresh / "assets").mkdir(parents=True)
    shutil.copyfile(VERIFIER, fresh / "verify.html")
    made: dict[str, list[Page]] = {}
    for language in spoken:
        units = sorted(unit for code, unit in notebooks if code == language.code)
        made[language.code] = [
            lesson.page(notebooks[language.code, unit], english[unit], language, units=units) for unit in units
        ]
    styles = list(dict.fromkeys(style for pages in made.values() for page in pages for style in page.styles))
    assets = _assets(fresh / "assets", styles)
    for language in spoken:
        book = books.get(language.code)
        if book is not None:
            shutil.copyfile(book, fresh / book.name)
        _Edition(fresh, language, spoken, made, assets, book.name if book else "").write()
    _write(fresh / "index.html", _template("root.html.j2").render(languages=spoken, titles=_titles(spoken), **assets))
    shutil.rmtree(out, ignore_errors=True)
    fresh.replace(out)
    files = [path for path in out.rglob("*") if path.is_file()]
    return Site(
        folder=out,
        pages=sum(path.suffix == ".html" for path in files),
        bytes=sum(path.stat().st_size for path in files),
    )


class _Edition:
    """One language's folder."""

    def __init__(
        self,
        folder: Path,
        language: Language,
        spoken: Sequence[Language],
        made: Mapping[str, Sequence[Page]],
        assets: Mapping[str, str],
        book: str,
    ) -> None:
        self.folder, self.language, self.spoken, self.made = folder / language.code, language, spoken, made
        self.assets, self.book = assets, book
        self.pages = made[language.code]
        self.text = translator(language)
        self.folder.mkdir()
        self.index: list[tuple[str, str, Sequence[Heading]]] = []

    def write(self) -> None:
        for number, page in enumerate(self.pages):
            before = self.pages[number - 1] if number else None
            after = self.pages[number + 1] if number + 1 < len(self.pages) else None
            contents = [heading for heading in page.headings if heading.anchor and heading.level in (2, 3)]
            minutes = self.text("lessons.reading-time", count=page.minutes)
            self._page(
                page.unit,
                "lesson.html.j2",
                page.title,
                page=page,
                before=before,
                after=after,
                minutes=minutes,
                contents=contents,
                body=Markup(page.body),
            )
            about = " ".join(self._objectives()[page.unit])
            head = replace(page.headings[0], text=f"{about} {page.headings[0].text}".strip())
            self.index.append((page.unit, page.title, [head, *page.headings[1:]]))
        self._page(
            "index", "home.html.j2", self.text("lessons.site-title"), pages=self.pages, objectives=self._objectives()
        )
        self._page(
            "reading",
            "reading.html.j2",
            self.text("lessons.site-reading"),
            contents=(),
            size=self._download(),
            run=Markup(self._run()),
        )
        self._page("search", "search.html.j2", self.text("lessons.site-search"), contents=())
        self._search()

    def _page(self, name: str, template: str, title: str, **values: Any) -> None:
        others = [
            (each, f"../{each.code}/{name}.html" if self._has(each, name) else f"../{each.code}/index.html")
            for each in self.spoken
        ]
        html = _template(template).render(
            name=name,
            title=title,
            language=self.language,
            languages=others,
            t=self.text,
            linked=self.linked,
            units=self.pages,
            book=self.book,
            version=metadata.version("shardwise"),
            **{"contents": (), **self.assets, **values},
        )
        if name not in ("index", "search") and name not in {page.unit for page in self.pages}:
            self.index.append((name, title, _sections(html)))
        _write(self.folder / f"{name}.html", html)

    def _has(self, language: Language, name: str) -> bool:
        return name in ("index", "reading", "search") or any(page.unit == name for page in self.made[language.code])

    def linked(self, id: str, /, **values: str) -> Markup:
        """A message with its marks around words as links and code: `<verify>here</verify>`, `` `make site` ``.

        A value that is an address makes a link of its mark; other values fill in placeholders.
        """
        targets = {name: value for name, value in values.items() if value.endswith((".html", ".pdf"))}
        said = escape(self.text(id, **{name: value for name, value in values.items() if name not in targets}))
        for name, target in targets.items():
            said = said.replace(f"&lt;{name}&gt;", f'<a href="{escape(target)}">').replace(f"&lt;/{name}&gt;", "</a>")
        return Markup(re.sub(r"`([^`]+)`", r'<code dir="ltr">\1</code>', said))

    def _objectives(self) -> Mapping[str, Sequence[str]]:
        return {page.unit: [each.say(self.language) for each in objectives(page.unit)] for page in self.pages}

    def _run(self) -> str:
        """What a lab left behind: one of four ranks, if there is such."""
        runs = [page.run for page in self.pages if page.run]
        fourth = plain.text(self.text("labs.telemetry-rank", rank=3))
        return next((run for run in runs if f">{fourth}<" in plain.bare(run)), next(iter(runs), ""))

    def _download(self) -> str:
        """What installing downloads on the most common machine, as the lock counts it."""
        lock = LOCK.read_text(encoding="utf-8")
        sizes = re.findall(r"^# (?:download|torch cpu) linux-x86_64 (\d+)$", lock, re.MULTILINE)
        return formats.bytes_(sum(map(int, sizes)), self.language)

    def _search(self) -> None:
        """The words of every section, in one file that a page loads once somebody searches."""
        sections = [
            [name, title, heading.anchor, heading.title, heading.text]
            for name, title, headings in self.index
            for heading in headings
            if heading.text or heading.anchor
        ]
        shown = plain.bare(json.dumps(sections, ensure_ascii=False, separators=(",", ":"))).replace("</", "<\\/")
        _write(self.folder / "words.js", f"window.shardwiseWords = {shown};\n")


def _sections(html: str) -> Sequence[Heading]:
    """The headings of a page that is no lesson, with the words under each."""
    found = []
    main = html[html.index("<main") :]
    for piece in re.split(r"(?=<h[12][ >])", main)[1:]:
        head = re.match(r"<h([12])([^>]*)>(.*?)</h\1>", piece, re.DOTALL)
        assert head is not None
        anchor = re.search(r'id="([^"]*)"', head[2])
        under = piece[head.end() :].partition("</main>")[0]
        found.append(
            Heading(
                anchor=anchor[1] if anchor else "",
                title=plain.text(head[3]),
                level=int(head[1]),
                text=plain.text(under),
            )
        )
    return found


def _titles(spoken: Sequence[Language]) -> Mapping[str, tuple[str, str]]:
    """The course's name and what it is, in each language."""
    texts = {each.code: translator(each) for each in spoken}
    return {code: (text("lessons.site-title"), text("lessons.site-read-in")) for code, text in texts.items()}


def _assets(folder: Path, styles: Sequence[str]) -> Mapping[str, str]:
    """The one style sheet and the one script, under names that change with them."""
    style = (FOLDER / "assets" / "site.css").read_text(encoding="utf-8")
    own = [style, *(themed(each) for each in styles)]
    names = {}
    for kind, content in {
        "css": "\n".join(own),
        "js": (FOLDER / "assets" / "site.js").read_text(encoding="utf-8"),
    }.items():
        names["style" if kind == "css" else "script"] = name = (
            f"site-{hashlib.sha256(content.encode()).hexdigest()[:12]}.{kind}"
        )
        _write(folder / name, content)
    return names


def themed(style: str) -> str:
    """A style sheet of the notebook's, whose dark rules follow the page's theme, and never go to paper."""
    dark = [rule for rule in re.findall(r"[^{}]+\{[^{}]*\}", style) if _DARK in rule]
    for rule in dark:
        style = style.replace(rule, "")
    chosen = "".join(rule.replace(_DARK, 'html[data-theme="dark"]') for rule in dark)
    system = "".join(rule.replace(_DARK, 'html:not([data-theme="light"])') for rule in dark)
    return f"{style}\n@media screen {{ {chosen} }}\n@media screen and (prefers-color-scheme: dark) {{ {system} }}\n"


@lru_cache(maxsize=1)
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _template(name: str) -> Any:
    return _environment().get_template(name)


def _write(path: Path, content: str) -> None:
    path.write_text(content, encoding="utf-8")
