"""What a lesson's cells left behind, as typst's markup: tables, code, boxes, figures, printed lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html import unescape
from html.parser import HTMLParser
from typing import Any

from lessons.editions.printed.drawings import drawing
from lessons.editions.printed.markup import array, breakable, call, isolated, longest_words, string, words
from lessons.editions.printed.prose import code
from translations import Language, translator

_STYLE = re.compile(r"<(style|script)\b.*?</\1>", re.DOTALL)
_FIGURE = re.compile(
    r'<figure role="img" aria-label="(?P<alt>[^"]*)"[^>]*>\s*(?P<svg><svg.*?</svg>)\s*</figure>'
    r"(?:<details[^>]*>.*?</details>)?",
    re.DOTALL,
)
_DRAWN = "x-drawn"
_VOID = frozenset({"br", "hr", "img", "input", "meta", "wbr", "col"})
_BLOCKS = frozenset(
    {"p", "ul", "ol", "li", "table", "pre", "div", "details", "figure", "section", "article", _DRAWN, "h2", "h3", "h4"}
)
_SCRIPT = re.compile("[\u0590-\u08ff]")


class OutputError(ValueError):
    """HTML for which nothing says how it is printed."""


@dataclass(kw_only=True)
class Element:
    """An element with its attributes, and what is in it: elements and texts."""

    tag: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    inside: list[Element | str] = field(default_factory=list)

    @property
    def kind(self) -> frozenset[str]:
        return frozenset(self.attributes.get("class", "").split())

    @property
    def text(self) -> str:
        return "".join(each if isinstance(each, str) else each.text for each in self.inside)

    def elements(self) -> list[Element]:
        return [each for each in self.inside if isinstance(each, Element)]

    def find(self, *tags: str) -> list[Element]:
        """Every element of these kinds below this one, in order."""
        found: list[Element] = []
        for each in self.elements():
            found += [each] if each.tag in tags else each.find(*tags)
        return found


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element(tag="root")
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        made = Element(tag=tag, attributes={name: value or "" for name, value in attrs})
        self.open[-1].inside.append(made)
        if tag not in _VOID:
            self.open.append(made)

    def handle_endtag(self, tag: str) -> None:
        for depth in range(len(self.open) - 1, 0, -1):
            if self.open[depth].tag == tag:
                del self.open[depth:]
                return

    def handle_data(self, data: str) -> None:
        self.open[-1].inside.append(data)


def read(html: str) -> Element:
    """A fragment as a tree."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader.root


@dataclass
class Outputs:
    """Sets outputs in a language. `cell` is the name of the cell that made them, which is printed beside a caption."""

    language: Language
    cell: str = ""

    def inline(self, fragment: str) -> str:
        """A fragment within a paragraph; paragraphs of its own are parted."""
        setter = _Setter(self.language, [], "")
        root = read(fragment)
        paragraphs = [each for each in root.elements() if each.tag == "p"]
        if paragraphs and len(paragraphs) == len(root.elements()):
            return "#parbreak();".join(setter.inline(each.inside).strip() for each in paragraphs)
        return setter.inline(root.inside)

    def html(self, fragment: str) -> str:
        """A fragment of HTML as our components make it."""
        drawn: list[str] = []

        def keep(found: re.Match[str]) -> str:
            drawn.append(drawing(found["svg"], unescape(found["alt"]), cell=self.cell))
            return f'<{_DRAWN} at="{len(drawn) - 1}"></{_DRAWN}>'

        plain = _FIGURE.sub(keep, _STYLE.sub("", fragment))
        return _Setter(self.language, drawn, self.cell).blocks(read(plain))

    def printed(self, text: str) -> str:
        """What a program printed."""
        return f"#printed({string(text.rstrip())})" if text.strip() else ""


class _Setter:
    def __init__(self, language: Language, drawn: list[str], cell: str) -> None:
        self.language, self.drawn, self.name = language, drawn, cell

    def blocks(self, parent: Element) -> str:
        pieces: list[str] = []
        loose: list[Element | str] = []

        def settle() -> None:
            content = self.inline(loose).strip()
            if content:
                pieces.append(call("paragraph", content))
            loose.clear()

        for each in parent.inside:
            if isinstance(each, Element) and each.tag in _BLOCKS:
                settle()
                pieces.append(self.block(each))
            else:
                loose.append(each)
        settle()
        return "\n\n".join(piece for piece in pieces if piece)

    def block(self, element: Element) -> str:
        match element.tag:
            case "x-drawn":
                return self.drawn[int(element.attributes["at"])]
            case "p":
                content = self.inline(element.inside).strip()
                if element.text.strip() == translator(self.language)("shardwise.nothing-predicted"):
                    return ""
                return call("paragraph", content) if content else ""
            case "h2" | "h3" | "h4":
                return call("paragraph", f"#strong[{self.inline(element.inside)}]")
            case "ul" | "ol":
                first = "1" if element.tag == "ol" else None
                return call("items", *(self.blocks(each) for each in element.elements()), first=first)
            case "table":
                return self.table(element)
            case "pre":
                return self.pre(element)
            case "details":
                summary = next(iter(element.find("summary")), None)
                rest = Element(tag="div", inside=[each for each in element.inside if each is not summary])
                title = call("paragraph", f"#strong[{self.inline(summary.inside)}]") if summary else ""
                return f"{title}\n\n{self.blocks(rest)}"
            case "div" | "section" | "article" | "figure":
                inside = self.blocks(element)
                if "box" in element.kind and inside:
                    mood = next((each for each in ("good", "bad", "note") if each in element.kind), "note")
                    return call("box-of", inside, mood=string(mood))
                return inside
        raise OutputError(f"an output has <{element.tag}>, which is not printed yet")

    def table(self, element: Element) -> str:
        caption = next(iter(element.find("caption")), None)
        head = [each for part in element.find("thead") for row in part.find("tr") for each in row.elements()]
        rows = [row.elements() for part in element.find("tbody") for row in part.find("tr")]
        if not head and not rows:
            rows = [row.elements() for row in element.find("tr")]
        columns = max([len(head), *(len(row) for row in rows)])
        sides = []
        for at in range(columns):
            numeric = all("number" in row[at].kind for row in rows if at < len(row)) and bool(rows)
            sides.append(string("right" if numeric else "start"))
        text = translator(self.language)
        compared = caption is not None and caption.text.strip() == text("shardwise.comparison")
        blank = text("shardwise.not-predicted") if compared else None
        written = array(array(self.cell(cell, blank=blank) for cell in row) for row in rows)
        title = f"[{self.inline(caption.inside)}]" if caption else "none"
        titles = array(self.cell(cell) for cell in head)
        longest = longest_words([[cell.text for cell in row] for row in [head, *rows]], columns)
        return call(
            "grid-of",
            rows=written,
            head=titles,
            sides=array(sides),
            longest=array(map(string, longest)),
            caption=title,
            cell=string(self.name),
        )

    def cell(self, element: Element, *, blank: str | None = None) -> str:
        """What a cell holds; the reader's prediction, where it says `blank`, is a line to write on."""
        if element.text.strip() == blank:
            return "[#to-fill-in]"
        return f"[{self.inline(element.inside).strip()}]"

    def pre(self, element: Element) -> str:
        """Code, or what a program printed; of a difference the marks of its lines too."""
        lines = element.find("ins", "del", "span")
        marked = [each for each in lines if "line" in each.kind or "gap" in each.kind]
        if not marked:
            name = element.attributes.get("aria-label", "")
            spoken = "python" if element.find("span") else ""
            return f"#listing({string(element.text.rstrip())}, lang: {string(spoken)}, name: {string(name)})"
        written, marks = [], []
        for each in marked:
            mark = next((part for part in each.elements() if "mark" in part.kind), None)
            written.append(
                "".join(part if isinstance(part, str) else part.text for part in each.inside if part is not mark)
            )
            marks.append({"ins": "+", "del": "-"}.get(each.tag, "gap" if "gap" in each.kind else ""))
        return f'#listing({string(chr(10).join(written))}, lang: "python", marks: {array(map(string, marks))})'

    def inline(self, inside: Iterable[Element | str]) -> str:
        return "".join(words(breakable(each)) if isinstance(each, str) else self.run(each) for each in inside)

    def run(self, element: Element) -> str:
        content = self.inline(element.inside)
        match element.tag:
            case "strong" | "b":
                return f"#strong[{content}];"
            case "em" | "i" | "var":
                return f"#emph[{content}];"
            case "code":
                return code(element.text, self.language)
            case "sub" | "sup":
                return f"#{'sub' if element.tag == 'sub' else 'super'}[{content}];"
            case "bdi":
                return isolated(content, self.language) if not _SCRIPT.search(element.text) else content
            case "br":
                return " \\ "
            case "span" | "abbr":
                return f"#quiet[{content}];" if "quiet" in element.kind else content
            case "a":
                target = element.attributes.get("href", "")
                return f"#away({string(target)})[{content}];" if target.startswith("http") else content
            case "p":
                return content + " "
            case "meter" | "button" | "input":
                return ""
        raise OutputError(f"an output has <{element.tag}> in a line, which is not printed yet")


def of_output(output: Mapping[str, Any], outputs: Outputs) -> str:
    """One output of a cell, printed; nothing for what a page alone can show."""
    if output["output_type"] == "stream":
        return outputs.printed(str(output["text"]))
    data = output.get("data", {})
    if "text/html" in data:
        return outputs.html(str(data["text/html"]))
    if output["output_type"] == "execute_result":
        return outputs.printed(str(data.get("text/plain", "")))
    return ""
