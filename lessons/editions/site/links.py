"""Walks every page of a built site: whatever it names must be there, and nothing may come from elsewhere."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED = {
    "script": ("src",),
    "link": ("href",),
    "img": ("src", "srcset"),
    "image": ("href", "xlink:href"),
    "use": ("href", "xlink:href"),
    "source": ("src", "srcset"),
    "iframe": ("src",),
    "embed": ("src",),
    "object": ("data",),
    "video": ("src", "poster"),
    "audio": ("src",),
    "track": ("src",),
    "form": ("action",),
}
"""What a browser fetches by itself, or sends to."""

_STYLED = re.compile(r"""@import|url\(\s*['"]?(?!#|data:)""")
_CALLS = re.compile(r"\b(?:fetch|XMLHttpRequest|WebSocket|EventSource|sendBeacon|importScripts)\b|\bimport\s*\(")


@dataclass
class _Found:
    """What a page names: links with their lines, what it loads, and its anchors."""

    links: list[tuple[int, str]] = field(default_factory=list)
    loaded: list[tuple[int, str]] = field(default_factory=list)
    wrong: list[tuple[int, str]] = field(default_factory=list)
    anchors: Counter[str] = field(default_factory=Counter)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found = _Found()
        self.inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        line, given = self.getpos()[0], {name: value or "" for name, value in attrs}
        if "id" in given:
            self.found.anchors[given["id"]] += 1
        if tag in ("a", "area") and "href" in given:
            self.found.links.append((line, given["href"]))
        for name in _LOADED.get(tag, ()):
            if name in given:
                self.found.loaded += (
                    [(line, one.split()[0]) for one in given[name].split(",") if one.strip()]
                    if (name == "srcset")
                    else [(line, given[name])]
                )
        if tag == "img" and "alt" not in given:
            self.found.wrong.append((line, "a picture without alternative text"))
        if tag == "base" or given.get("http-equiv", "").lower() == "refresh":
            self.found.wrong.append((line, f"<{tag}> sends a reader elsewhere"))
        if _STYLED.search(given.get("style", "")):
            self.found.wrong.append((line, "a style that loads something"))
        self.inside = tag if tag in ("script", "style") else ""

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside == "style" and _STYLED.search(data):
            self.found.wrong.append((self.getpos()[0], "a style sheet that loads something"))


def faults(folder: Path) -> Iterator[str]:
    """What is wrong with the pages of a folder, by file and line."""
    pages = {path.resolve(): _read(path) for path in sorted(folder.rglob("*.html"))}
    if not pages:
        yield f"{folder}: no page"
    root = folder.resolve()
    for path, found in pages.items():
        name = path.relative_to(root).as_posix()
        own = name == "verify.html"  # judged by its own tests: all that it needs is in it
        yield from (f"{name}:{line}: {what}" for line, what in found.wrong if not own)
        yield from (
            f"{name}: the anchor {each} is there {n} times"
            for each, n in found.anchors.items()
            if n > 1 and _counts(each)
        )
        for line, target in found.loaded:
            if target.startswith("data:") or own:
                continue
            if wrong := _inside(path, target, pages, root):
                yield f"{name}:{line}: loads {target}: {wrong}"
        for line, target in found.links:
            if wrong := _link(path, target, pages, root):
                yield f"{name}:{line}: {target}: {wrong}"
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.suffix == ".css" and _STYLED.search(path.read_text(encoding="utf-8")):
            yield f"{name}: loads something"
        if (
            path.suffix == ".js"
            and path.name != "words.js"
            and (call := _CALLS.search(path.read_text(encoding="utf-8")))
        ):
            yield f"{name}: {call.group()} asks for something"


def _read(path: Path) -> _Found:
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    reader.close()
    return reader.found


def _counts(anchor: str) -> bool:
    """Patterns of one drawing shown twice are the same pattern; any other anchor must be one place."""
    return not re.match(r"sw[0-9a-f]{8}-", anchor)


def _link(page: Path, target: str, pages: dict[Path, _Found], root: Path) -> str:
    try:
        parts = urlsplit(target)
    except ValueError:
        return "no address"
    if parts.scheme in ("http", "https"):
        return "" if re.fullmatch(r"[\w.-]+\.[a-z]{2,}(:\d+)?", parts.netloc) else "no address of a server"
    if parts.scheme == "mailto":
        return "" if "@" in parts.path else "no address of a mailbox"
    if parts.scheme or parts.netloc:
        return "neither a page of the site nor a web address"
    return _inside(page, target, pages, root)


def _inside(page: Path, target: str, pages: dict[Path, _Found], root: Path) -> str:
    """Why a relative address leads nowhere; empty where it leads to something in the site."""
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        return "comes from elsewhere"
    if parts.path.startswith("/"):
        return "is absolute: the site may lie in any folder"
    place = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if place.is_dir():
        return "is a folder: a browser opens none from a disk"
    if not place.is_relative_to(root) or not place.is_file():
        return "is not there"
    if parts.fragment and place in pages and unquote(parts.fragment) not in pages[place].anchors:
        return "has no such anchor"
    return ""
