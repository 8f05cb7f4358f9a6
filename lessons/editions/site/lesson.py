"""An executed lesson as a page: its prose, what its cells showed, and in place of live parts what a reader can do.

Anchors are those of the English lesson, so that the same place has the same address in every language.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments import highlight  # type: ignore[import-untyped]
from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]
from pygments.lexers import BashLexer, PythonLexer, TextLexer  # type: ignore[import-untyped]

from labs.exercises.content import exercise, hint
from lessons.editions.site import plain, practice
from lessons.formulas import formulas
from quiz import rendering
from translations import CourseError, Language, translator

_STYLE = re.compile(r"<style[^>]*>(.*?)</style>", re.DOTALL)
_EMPTY_HEAD = re.compile(r"<th\b[^>]*>\s*</th>")
_NOTHING = re.compile(r"""<div class="shardwise"[^>]*>\s*</div>""")
_CALL = re.compile(r"^course\.(\w+)\((.*)\)$", re.DOTALL)
_NAME = re.compile(r'"([\w-]+)"')
_OBJECTIVE = re.compile(r'objective="([\w-]+)"')
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_SHOWN_ALONE = {"figure", "source", "difference", "solution", "recall", "quiz", "precheck", "predict", "diagnose"}
_SHOWN_ALONE |= {"certificate", "controls", "explore", "hint"}
"""Calls that only show something: what they show stands there without them."""

_LONGEST = 14
"""Lines of code that stand open. Longer cells are folded up, but for those that a learner is to change; so are cells
that only set a table or a drawing.
"""
_SETS = re.compile(r"course\.(?:table|figure|compare|save|formula)\(")


@dataclass(frozen=True, kw_only=True)
class Heading:
    """A heading of the lesson, with the text under it as a search finds it."""

    anchor: str
    title: str
    level: int
    text: str


@dataclass(kw_only=True)
class Page:
    """A lesson's page without what is around it."""

    unit: str
    title: str
    minutes: int
    objectives: tuple[str, ...]
    body: str = ""
    headings: list[Heading] = field(default_factory=list)
    styles: list[str] = field(default_factory=list)
    run: str = ""
    """What the first lab of the lesson left behind."""


def page(notebook: Any, english: Any, language: Language, *, units: Sequence[str]) -> Page:
    """The page of an executed notebook; `english` is the same lesson in English, executed or not."""
    course = notebook.metadata.course
    made = Page(unit=course.unit, title=course.title, minutes=course.minutes, objectives=tuple(course.objectives))
    _Writer(made, language, anchors(english), units).write(notebook.cells)
    return made


def anchors(notebook: Any) -> Mapping[tuple[int, int], str]:
    """The anchor of each heading by its cell and its place there: the English words, each anchor once."""
    found: dict[tuple[int, int], str] = {}
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            for place, heading in enumerate(_headings(_parser().parse(cell.source))):
                slug = _slug(heading)
                same = sum(other == slug or other.startswith(f"{slug}-again") for other in found.values())
                found[number, place] = slug if not same else f"{slug}-again{'' if same == 1 else f'-{same}'}"
    return found


def _headings(tokens: Sequence[Token]) -> Iterator[str]:
    for token, after in pairwise(tokens):
        if token.type == "heading_open":
            yield plain.text(_parser().renderer.render(after.children or [], _parser().options, {}))


def _slug(title: str) -> str:
    bare = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", bare).strip("-") or "section"


def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def code(source: str, *, lexer: str = "python") -> str:
    """Code with its colours, left to right, with the classes of the course's own pages."""
    chosen = {"python": PythonLexer, "bash": BashLexer}.get(lexer, TextLexer)
    coloured = highlight(source.strip("\n"), chosen(stripnl=False), HtmlFormatter(nowrap=True)).rstrip("\n")
    return f'<div class="shardwise"><pre dir="ltr"><code>{coloured}</code></pre></div>'


class _Writer:
    """Writes one page, cell by cell."""

    def __init__(
        self, made: Page, language: Language, anchors: Mapping[tuple[int, int], str], units: Sequence[str]
    ) -> None:
        self.page, self.language, self.anchors, self.units = made, language, anchors, units
        self.text = translator(language)
        self.pieces: list[str] = []
        self.practice = practice.Practice(made.unit, language)
        self.parser = _parser()
        self.parser.add_render_rule("table_open", lambda *_: '<div class="scroll"><table>')
        self.parser.add_render_rule("table_close", lambda *_: "</table></div>")
        self.parser.add_render_rule("fence", _fence)
        self._under: list[tuple[str, str, int, list[str]]] = [("", made.title, 1, [])]

    def write(self, cells: Sequence[Any]) -> None:
        for number, cell in enumerate(cells):
            if cell.id == "title":
                continue
            html = self.prose(cell.source, number) if cell.cell_type == "markdown" else self.code(cell)
            if html:
                self.pieces.append(html)
        self.page.body = "\n".join(self.pieces)
        self.page.headings = [
            Heading(anchor=anchor, title=title, level=level, text=" ".join(said).strip())
            for anchor, title, level, said in self._under
        ]

    # --- prose

    def prose(self, source: str, number: int) -> str:
        tokens = self.parser.parse(formulas(source))
        place = 0
        spoken: list[Token] = []
        for index, token in enumerate(tokens):
            if token.type == "heading_open":
                self._say(spoken)
                spoken = []
                inside = self.parser.renderer.render(tokens[index + 1].children or [], self.parser.options, {})
                anchor = self.anchors.get((number, place), f"section-{number}-{place}")
                token.attrSet("id", anchor)
                token.attrSet("dir", self.language.direction)
                self._under.append((anchor, plain.text(inside), int(token.tag[1:]), []))
                place += 1
            for child in token.children or []:
                href = child.attrGet("href") if child.type == "link_open" else None
                if isinstance(href, str) and (linked := re.fullmatch(r"([\w-]+)\.ipynb(#.*)?", href)):
                    child.attrSet("href", f"{linked[1] if linked[1] in self.units else 'index'}.html{linked[2] or ''}")
            spoken.append(token)
        self._say(spoken)
        return _EMPTY_HEAD.sub("<td></td>", self.parser.renderer.render(tokens, self.parser.options, {}))

    def _say(self, tokens: Sequence[Token]) -> None:
        """Keeps what stands under the last heading for the search."""
        kept = [token for token in tokens if token.type not in ("heading_open", "heading_close", "fence")]
        headed = {id(after) for before, after in pairwise(tokens) if before.type == "heading_open"}
        kept = [token for token in kept if id(token) not in headed]
        self._under[-1][3].append(plain.text(self.parser.renderer.render(kept, self.parser.options, {})))

    # --- cells

    def code(self, cell: Any) -> str:
        source = cell.source.strip()
        call = _CALL.match(source) if source.count("course.") == 1 else None
        moved = next((each for each in ("controls", "explore") if f"course.{each}(" in source), "")
        name = call[1] if call else moved
        live = self.live(name, source) if name else None
        if live is not None and name not in ("diagnose", "controls") and call:
            return f'<div class="cell" id="cell-{cell.id}">{live}</div>'
        outputs = "" if source.startswith("%%exercise") else "".join(self.outputs(cell))
        if "course.lab(" in source and not self.page.run:
            self.page.run = outputs.partition("<details")[0].rstrip() + ("</div>" if "<details" in outputs else "")
        shown = "" if name in _SHOWN_ALONE and call else self.source(cell, source)
        if name == "check":
            shown += f'<p class="aside">{escape(self.text("lessons.site-check"))}</p>'
        return f'<div class="cell" id="cell-{cell.id}">{shown}{outputs}{live or ""}</div>'

    def source(self, cell: Any, source: str) -> str:
        shown = code(source)
        is_aside = "setup" in cell.metadata.get("tags", []) or (_SETS.search(source) and "course.lab(" not in source)
        if source.startswith("%%") or (not is_aside and len(source.splitlines()) <= _LONGEST):
            return shown
        return f'<details class="source"><summary>{escape(self.text("lessons.site-code"))}</summary>{shown}</details>'

    def outputs(self, cell: Any) -> Iterator[str]:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if output.output_type == "stream":
                yield _printed(output.text)
            elif output.output_type == "error":
                yield _printed("\n".join(output.traceback))
            elif "text/html" in data:
                yield self.output(data["text/html"])
            elif "image/svg+xml" in data:
                yield f'<div class="output">{data["image/svg+xml"]}</div>'
            elif "text/plain" in data and not any(kind.startswith("application/vnd.jupyter") for kind in data):
                yield _printed(data["text/plain"])

    def output(self, html: str) -> str:
        for style in _STYLE.findall(html):
            if style not in self.page.styles:
                self.page.styles.append(style)
        bare = _NOTHING.sub("", _STYLE.sub("", html)).replace(' role="region"', ' role="group"')
        bare = _EMPTY_HEAD.sub("<td></td>", bare)
        # A reader could not type a prediction: the place for it stays, and nobody is told off.
        bare = bare.replace(f"<p>{escape(self.text('shardwise.nothing-predicted'))}</p>", "")
        none = f'<td class="number">{escape(self.text("shardwise.not-predicted"))}</td>'
        bare = bare.replace(none, '<td class="number blank"></td>')
        self._under[-1][3].extend(re.findall(r'<figure role="img" aria-label="([^"]*)"', bare))
        return f'<div class="output">{bare}</div>' if bare.strip() else ""

    # --- what lives only beside a kernel

    def live(self, name: str, source: str) -> str | None:
        found: Callable[[str], str] | None = getattr(self, f"live_{name}", None)
        return found(source) if found else None

    def note(self, id: str, **values: object) -> str:
        return f'<p class="told">{escape(self.text(f"lessons.site-{id}", **values))}</p>'

    def live_precheck(self, _source: str) -> str:
        return f'<p class="told">{self.linked("precheck", practice="#cell-quiz")}</p>'

    def live_predict(self, _source: str) -> str:
        return self.note("predict")

    def live_explore(self, _source: str) -> str:
        return self.note("live")

    def live_controls(self, _source: str) -> str:
        return self.note("live-kept")

    def live_certificate(self, _source: str) -> str:
        return f'<p class="told">{self.linked("certificate", verify="../verify.html")}</p>'

    def live_recall(self, source: str) -> str:
        objective = _OBJECTIVE.search(source)
        return self.practice.recall(objective[1]) if objective else self.note("live")

    def live_quiz(self, _source: str) -> str:
        return self.practice.rest() or self.note("live")

    def live_hint(self, source: str) -> str | None:
        """The hints that the lesson gives one by one, each folded up."""
        named = _NAME.search(source)
        if named is None:
            return None
        hints = [rendering.html(hint(named[1], number, self.language)) for number in (1, 2, 3)]
        return "".join(
            f"<details><summary>{escape(self.text('shardwise.hint-of', number=number, total=len(hints)))}</summary>"
            f"{said}</details>"
            for number, said in enumerate(hints, 1)
        )

    def live_diagnose(self, source: str) -> str:
        named = _NAME.search(source)
        try:
            diagnosis = exercise(named[1], self.language).diagnosis if named else None
        except CourseError:
            diagnosis = None
        if diagnosis is None:
            return self.note("live")
        parts = "".join(
            practice.choices(
                rendering.html(part.question),
                [
                    (rendering.inline(option.text), option.key == part.answer, rendering.html(option.feedback))
                    for option in part.options
                ],
                self.text,
            )
            for part in diagnosis.parts
        )
        return f'<div class="items">{self.note("diagnose")}{parts}</div>'

    def linked(self, id: str, **targets: str) -> str:
        """A message with its {marks} around words as links: `<practice>the questions</practice>`."""
        said = escape(self.text(f"lessons.site-{id}"))
        for name, target in targets.items():
            said = said.replace(f"&lt;{name}&gt;", f'<a href="{target}">').replace(f"&lt;/{name}&gt;", "</a>")
        return said


def _fence(_renderer: Any, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:
    return code(
        tokens[index].content, lexer={"sh": "bash", "console": "bash"}.get(tokens[index].info, tokens[index].info)
    )


def _printed(said: str) -> str:
    bare = _ANSI.sub("", said).rstrip()
    return f'<div class="output"><pre class="printed" dir="auto">{escape(bare)}</pre></div>' if bare else ""
