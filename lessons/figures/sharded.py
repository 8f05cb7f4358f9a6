"""FSDP2 beside our ZeRO: what a rank holds under each choice of sharding, measured and by formula, and moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labs.telemetry.drawing import Svg, Table
from labs.telemetry.drawing.legend import LABEL_SIZE, MARGIN, SMALL_SIZE, WIDTH, Words, entry, titled_sheet
from labs.telemetry.drawing.palette import FORMULA_DASH
from labs.telemetry.drawing.series import scale
from labs.telemetry.drawing.svg import text_width
from lessons.figures.base import Figure, Said
from translations import Language

STATES = ("parameters", "gradients", "optimizer_states")
_EACH, _THICK, _BETWEEN = 21.0, 13.0, 12.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """Of one sharding: whose, bytes at rest by category, the most that was gathered, and what a step moved; `formula`
    is of the first two together.
    """

    sharding: str
    whose: str
    rest: Mapping[str, int]
    gathered: int
    formula: int
    traffic: int

    @property
    def total(self) -> int:
        return sum(self.rest.values()) + self.gathered


def bars(data: Mapping[str, Any]) -> list[Bar]:
    """From the JSON of `lab run fsdp`."""
    found = []
    for each in data["shardings"]:
        for whose, own in (("PyTorch", each["fsdp"]), ("", each["ours"])):
            if own is not None:
                told = own["predicted"]
                gathered = told["gathered"] if "gathered" in told else told["communication"]
                found.append(
                    Bar(
                        sharding=each["sharding"],
                        whose=whose,
                        rest={name: own["rest"][name] for name in STATES},
                        gathered=own["gathered"],
                        formula=sum(told["states"].values()) + gathered,
                        traffic=own["traffic"],
                    )
                )
    return found


def shardings(data: Mapping[str, Any]) -> Figure:
    """Model states at rest and, on top of them, gathered parameters and buffers at the most; the formula is a line
    across each bar's end. `data` is the JSON of `lab run fsdp`.
    """
    drawn, layout = bars(data), data["layout"]

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        title = _title(drawn, said, words)
        called = {each.sharding: _call(each.sharding, layout["shards"]) for each in drawn}
        entries = [entry("category", name, words) for name in (*STATES, "communication")]
        entries.append(entry("formula", "formula", words))
        column = max(text_width(told, size=LABEL_SIZE) for told in called.values())
        owner = max(text_width(_whose(each, said), size=SMALL_SIZE) for each in drawn)
        left = MARGIN + column + owner + 30
        right = WIDTH - MARGIN - text_width(_numbers(drawn[0], said, words), size=SMALL_SIZE) - 16
        across = scale(0, max(max(each.total, each.formula) for each in drawn), start=left, end=right)
        height = len(drawn) * _EACH + len(called) * _BETWEEN
        sheet, top = titled_sheet(title, entries, gap=12, height=height, language=language)
        y, before = top, ""
        for each in drawn:
            if each.sharding != before:
                y += _BETWEEN if before else 0.0
                sheet.text(MARGIN, y + _THICK - 2, called[each.sharding], size=LABEL_SIZE, weight=600)
            before = each.sharding
            sheet.text(left - 10, y + _THICK - 2, _whose(each, said), at="right", size=SMALL_SIZE)
            done = 0
            for name, size in (*each.rest.items(), ("communication", each.gathered)):
                if size:
                    sheet.swatch(name, across(done), y, across(done + size) - across(done), _THICK)
                done += size
            at = across(each.formula)
            sheet.line(at, y - 3, at, y + _THICK + 3, width=1.8, dash=FORMULA_DASH)
            sheet.text(across(done) + 8, y + _THICK - 2, _numbers(each, said, words), size=SMALL_SIZE)
            y += _EACH
        header = [
            said("shardings-sharding"),
            said("shardings-whose"),
            *(words.category(name) for name in STATES),
            said("shardings-gathered"),
            words("formula"),
            said("shardings-traffic"),
        ]
        rows = [
            [
                called[each.sharding],
                _whose(each, said),
                *(words.bytes(size) for size in each.rest.values()),
                *(words.bytes(size) for size in (each.gathered, each.formula, each.traffic)),
            ]
            for each in drawn
        ]
        lines = [
            said(
                "shardings-alt",
                sharding=called[each.sharding],
                whose=_whose(each, said),
                states=words.bytes(sum(each.rest.values())),
                gathered=words.bytes(each.gathered),
                traffic=words.bytes(each.traffic),
            )
            for each in drawn
        ]
        about = said("shardings-about", ranks=layout["dp"], wrap=layout["wrap"])
        alt = " ".join([words.sentence(title), words.sentence(about), *lines])
        return sheet.svg(alt=alt).beside(Table(rows, header=header, language=language, caption=about).html)

    return draw


def _title(drawn: Sequence[Bar], said: Said, words: Words) -> str:
    own = {each.sharding: each for each in drawn if each.whose}
    if "keep" in own and "free" in own:
        sizes = {name: words.bytes(own[name].gathered) for name in ("keep", "free")}
        return said("shardings-title", kept=sizes["keep"], freed=sizes["free"])
    return said("shardings-title-alone")


def _call(sharding: str, shards: int) -> str:
    """As it stands in code, which no language changes."""
    freed = {"keep": "False", "free": "True", "part": str(shards)}
    return f"reshard={freed[sharding]}" if sharding in freed else {"none": "DDP", "hybrid": "HSDP"}[sharding]


def _whose(each: Bar, said: Said) -> str:
    return each.whose or said("shardings-ours")


def _numbers(each: Bar, said: Said, words: Words) -> str:
    return said("shardings-numbers", size=words.bytes(each.total), traffic=words.bytes(each.traffic))
