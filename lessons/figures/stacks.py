"""Figures of the real stacks beside our own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labs.telemetry.drawing import Svg, Table
from labs.telemetry.drawing.legend import LABEL_SIZE, MARGIN, SMALL_SIZE, WIDTH, Words, entry, titled_sheet
from labs.telemetry.drawing.palette import FORMULA_DASH
from labs.telemetry.drawing.series import scale
from labs.telemetry.drawing.svg import rectangle, text_width
from lessons.figures.base import Figure, Said
from translations import Language
from translations.formats import number

STATES = ("parameters", "optimizer_states", "gradients")
_STAGE, _ROW, _THICK = 70.0, 28.0, 18.0


def stages_beside(data: Mapping[str, Any]) -> Figure:
    """The JSON of `deepspeed-zero`: for each stage model states at rest, ours above and DeepSpeed's below, with the
    formula's marks; beside them what one step moved, and under the figure the peaks with DeepSpeed's bucket.
    """
    stages = data["stages"]
    rows = [(each["stage"], who, each[who]) for each in stages for who in ("ours", "deepspeed")]

    def states(found: Mapping[str, Any]) -> int:
        return sum(found["rest"][name] for name in STATES)

    def formula(found: Mapping[str, Any]) -> int:
        return int(sum(found["predicted"]["states"].values()))

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        held_more = [states(each["deepspeed"]) / states(each["ours"]) for each in stages]
        moved_more = [each["deepspeed"]["traffic"] / max(each["ours"]["traffic"], 1) for each in stages]
        title = said(
            "stacks-beside",
            low=number(min(held_more), language),
            high=number(max(held_more), language),
            least=number(min(moved_more), language),
            most=number(max(moved_more), language),
        )
        names = {"ours": said("stacks-ours"), "deepspeed": "DeepSpeed"}
        entries = [entry("category", name, words) for name in STATES]
        entries += [entry("category", "communication", words), entry("formula", "formula", words)]
        sheet, first = titled_sheet(title, entries, gap=40, height=_STAGE * len(stages) + 4, language=language)
        stage_names = [said("stacks-stage", stage=each["stage"]) for each in stages]
        left = MARGIN + max(text_width(name, size=LABEL_SIZE) for name in stage_names) + 16
        left += max(text_width(name, size=LABEL_SIZE) for name in names.values()) + 14
        room = text_width(words.bytes(888e6), size=LABEL_SIZE) + 10
        held_end = left + (WIDTH - MARGIN - left) * 0.62 - room
        moved_start, moved_end = held_end + room + 12, WIDTH - MARGIN - room
        held = scale(0, max(max(states(found), formula(found)) for _, _, found in rows), start=left, end=held_end)
        moved = scale(0, max(found["traffic"] for _, _, found in rows) or 1, start=moved_start, end=moved_end)
        sheet.text(left, first - 12, said("stacks-held"), size=SMALL_SIZE, weight=600)
        sheet.text(moved_start, first - 12, said("stacks-moved"), size=SMALL_SIZE, weight=600)
        for index, (stage, who, found) in enumerate(rows):
            y = first + _STAGE * (index // 2) + _ROW * (index % 2)
            if who == "ours":
                name = said("stacks-stage", stage=stage)
                sheet.text(MARGIN, y + _ROW + 2, name, at="left", size=LABEL_SIZE, weight=600)
            sheet.text(left - 12, y + _THICK / 2 + 4, names[who], at="right", size=LABEL_SIZE)
            x = left
            for category in STATES:
                width = held(found["rest"][category]) - left
                sheet.category(category, path=rectangle(x, y, width, _THICK))
                x += width
            at = held(formula(found))
            sheet.line(at, y - 3, at, y + _THICK + 3, width=1.8, dash=FORMULA_DASH)
            told = words.bytes(states(found))
            sheet.text(max(x, at) + 8, y + _THICK / 2 + 4, told, size=LABEL_SIZE, weight=600, ltr=True)
            end = moved(found["traffic"])
            sheet.category("communication", path=rectangle(moved_start, y, max(end - moved_start, 0.5), _THICK))
            sheet.text(
                end + 8, y + _THICK / 2 + 4, words.bytes(found["traffic"]), size=LABEL_SIZE, weight=600, ltr=True
            )
        header = [said("stacks-run"), *map(words.category, STATES), said("stacks-held"), words("formula")]
        header += [said("stacks-moved"), said("stacks-peak")]
        lines = []
        for stage, who, found in rows:
            sizes = [*(found["rest"][name] for name in STATES), states(found), formula(found)]
            sizes += [found["traffic"], found["peak_total"]]
            lines.append([f"{said('stacks-stage', stage=stage)} · {names[who]}", *map(words.bytes, sizes)])
        sentences = [said("stacks-alt", run=line[0], held=line[4], moved=line[6]) for line in lines]
        figure = sheet.svg(alt=" ".join([words.sentence(title), *sentences]))
        return figure.beside(Table(lines, header=header, language=language).html)

    return draw


def megatron_beside(data: Mapping[str, Any]) -> Figure:
    """The JSON of `megatron-gpt`: model states of the fullest rank and bytes of each axis, ours above and Megatron
    Core's below.
    """
    axes = [name for name in ("tensor", "pipeline", "data") if any(name in rank["axes"] for rank in data["ours"])]

    def most(who: str, name: str) -> int:
        """The most of any rank: model states at rest, or bytes that one axis moved in all steps."""
        if name == "held":
            return max(sum(int(rank["bytes"]["rest"][each]) for each in STATES) for rank in data[who])
        return max(sum(int(count["bytes"]) for count in rank["axes"].get(name, {}).values()) for rank in data[who])

    found = {name: (most("ours", name), most("ranks", name)) for name in ("held", *axes)}

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        same = all(ours == theirs for name, (ours, theirs) in found.items() if name != "held")
        title = said("megatron-beside" if same else "megatron-apart", ranks=len(data["ranks"]))
        names = {name: said("stacks-held") if name == "held" else said(f"megatron-{name}") for name in found}
        who = (said("stacks-ours"), "Megatron Core")
        sheet, first = titled_sheet(title, gap=18, height=_STAGE * len(found), language=language)
        left = MARGIN + max(text_width(name, size=LABEL_SIZE) for name in names.values()) + 16
        left += max(text_width(name, size=LABEL_SIZE) for name in who) + 14
        room = text_width(words.bytes(888e6), size=LABEL_SIZE) + 10
        for index, (name, pair) in enumerate(found.items()):
            along = scale(0, max(pair) or 1, start=left, end=WIDTH - MARGIN - room)
            y = first + _STAGE * index
            sheet.text(MARGIN, y + _ROW + 2, names[name], at="left", size=LABEL_SIZE, weight=600)
            for row, amount in enumerate(pair):
                at = y + _ROW * row
                category = "parameters" if name == "held" else "communication"
                sheet.text(left - 12, at + _THICK / 2 + 4, who[row], at="right", size=LABEL_SIZE)
                sheet.category(category, path=rectangle(left, at, along(amount) - left, _THICK))
                label = words.bytes(amount)
                sheet.text(along(amount) + 8, at + _THICK / 2 + 4, label, size=LABEL_SIZE, weight=600, ltr=True)
        lines = [(names[name], *map(words.bytes, pair)) for name, pair in found.items()]
        sentences = [said("megatron-alt", quantity=name, ours=ours, theirs=theirs) for name, ours, theirs in lines]
        figure = sheet.svg(alt=" ".join([words.sentence(title), *sentences]))
        return figure.beside(Table(lines, header=[said("stacks-run"), *who], language=language).html)

    return draw
