"""Figures of the real stacks beside our own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from labs.planner.deepspeed_config import Reading
from labs.planner.platforms import KINDS, differences
from labs.telemetry.drawing import Svg, Table
from labs.telemetry.drawing.legend import (
    LABEL_SIZE,
    MARGIN,
    SMALL_SIZE,
    WIDTH,
    Words,
    entry,
    swatch_entry,
    titled_sheet,
)
from labs.telemetry.drawing.palette import FORMULA_DASH
from labs.telemetry.drawing.series import scale
from labs.telemetry.drawing.svg import rectangle, text_width, wrapped
from lessons.figures.base import Figure, Said
from translations import Language, translator
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


LAYERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("script", ()),
    ("wrapper", ("Accelerate", "Trainer")),
    ("engine", ("labs", "DeepSpeed", "FSDP2", "Megatron Core")),
    ("torch", ("autograd", "torch.distributed")),
    ("collectives", ("gloo", "NCCL", "RCCL")),
    ("chip", ()),
)
"""From the script down; under each name what may stand there, `labs` for the course's own."""


def layers_of_software() -> Figure:
    """What lies between a training script and the chip, what each layer decides, and that only the lower ones know."""

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        title = said("software-title")
        row, tall, names, decides = 62.0, 46.0, 116.0, 190.0
        sheet, top = titled_sheet(title, gap=26, height=row * len(LAYERS), language=language)
        inside = WIDTH - 2 * MARGIN - names - decides - 40
        left = MARGIN + (decides + 40 if sheet.rtl else names)
        begin, end = (WIDTH - MARGIN, MARGIN) if sheet.rtl else (MARGIN, WIDTH - MARGIN)
        sheet.text(left + inside / 2, top - 10, said("software-asks"), at="middle", size=SMALL_SIZE, quiet=True)
        told = []
        for index, (layer, parts) in enumerate(LAYERS):
            y = top + index * row
            name = said(f"software-{layer}")
            lines = wrapped(name, size=LABEL_SIZE, width=names - 14)
            for nth, line in enumerate(lines):
                middle = y + tall / 2 + 4 + (nth - (len(lines) - 1) / 2) * 15
                sheet.text(begin, middle, line, at="right" if sheet.rtl else "left", size=LABEL_SIZE, weight=600)
            boxes = [said("stacks-ours") if each == "labs" else each for each in parts] or [
                said(f"software-{layer}-box")
            ]
            gap = 8.0
            wide = (inside - gap * (len(boxes) - 1)) / len(boxes)
            for place, each in enumerate(reversed(boxes) if sheet.rtl else boxes):
                x = left + place * (wide + gap)
                sheet.shade(x, y, wide, tall, strength=0.05 + 0.05 * (layer == "engine"))
                sheet.outline(x, y, wide, tall, radius=4)
                lines = wrapped(each, size=SMALL_SIZE, width=wide - 8)
                for nth, line in enumerate(lines):
                    middle = y + tall / 2 + 4 + (nth - (len(lines) - 1) / 2) * 14
                    sheet.text(x + wide / 2, middle, line, at="middle", size=SMALL_SIZE, ltr=each in parts)
            decision = said(f"software-{layer}-decides")
            lines = wrapped(decision, size=SMALL_SIZE, width=decides)
            for nth, line in enumerate(lines):
                middle = y + tall / 2 + 4 + (nth - (len(lines) - 1) / 2) * 14
                x = end + decides if sheet.rtl else end - decides
                sheet.text(x, middle, line, at="right" if sheet.rtl else "left", size=SMALL_SIZE)
            told.append(said("software-alt", layer=name, parts=words.listed(boxes), decides=decision))
        gutter = left - 20 if sheet.rtl else left + inside + 20
        sheet.arrow([(gutter, top + row * len(LAYERS) - 16), (gutter, top + 2)])
        return sheet.svg(alt=" ".join([words.sentence(title), *told]))

    return draw


def rows_by_head(*, heads: int = 4, ranks: int = 2) -> Figure:
    """The rows of a fused matrix of queries, keys and values: in the plain order, and head by head, each cut over the
    ranks.
    """
    kinds = ("q", "k", "v")
    plain = [(kind, head) for kind in kinds for head in range(heads)]
    by_head = [(kind, head) for head in range(heads) for kind in kinds]
    looks = {"q": "parameters", "k": "gradients", "v": "optimizer_states"}

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        title = said("heads-title")
        row, box = 96.0, 40.0
        entries = [swatch_entry(said(f"heads-{kind}"), looks[kind]) for kind in kinds]
        sheet, top = titled_sheet(title, entries, gap=22, height=2 * row, language=language)
        # Rows of a matrix have an order of their own: from the left in every language.
        wide = (WIDTH - 2 * MARGIN) / len(plain)
        for index, (name, order) in enumerate((("plain", plain), ("by-head", by_head))):
            y = top + index * row
            sheet.opening(MARGIN, WIDTH - MARGIN, y, said(f"heads-{name}"), size=LABEL_SIZE, weight=600)
            for place, (kind, head) in enumerate(order):
                x = MARGIN + place * wide
                sheet.swatch(looks[kind], x + 1, y + 12, wide - 2, box)
                sheet.text(x + wide / 2, y + 12 + box + 15, f"{kind}{head}", at="middle", size=SMALL_SIZE, ltr=True)
            for cut in range(1, ranks):
                x = MARGIN + cut * len(order) // ranks * wide
                sheet.line(x, y + 6, x, y + box + 32, width=2.4)
        return sheet.svg(alt=" ".join([words.sentence(title), said("heads-alt", heads=heads, ranks=ranks)]))

    return draw


QUESTIONS = ("fits", "alone", "shards", "tensor")


def decision() -> Figure:
    """Four questions in their order, with what to take at each yes, and what is left at the last no."""

    def draw(language: Language) -> Svg:
        said, words = Said(language), Words.of(language)
        title = said("decision-title")
        row, tall = 84.0, 58.0
        sheet, top = titled_sheet(title, gap=16, height=row * (len(QUESTIONS) + 1), language=language)
        wide, between = (WIDTH - 2 * MARGIN - 90) / 2, 90.0
        left, right = (MARGIN + wide + between, MARGIN) if sheet.rtl else (MARGIN, MARGIN + wide + between)

        def box(x: float, y: float, told: str, *, strong: bool) -> None:
            sheet.shade(x, y, wide, tall, strength=0.1 if strong else 0.04)
            sheet.outline(x, y, wide, tall, radius=4)
            lines = wrapped(told, size=LABEL_SIZE, width=wide - 20)
            for nth, line in enumerate(lines):
                middle = y + tall / 2 + 4 + (nth - (len(lines) - 1) / 2) * 16
                sheet.text(x + wide / 2, middle, line, at="middle", size=LABEL_SIZE)

        told = []
        for index, name in enumerate(QUESTIONS):
            y = top + index * row
            question, answer = said(f"decision-{name}"), said(f"decision-{name}-yes")
            box(left, y, question, strong=False)
            box(right, y, answer, strong=True)
            start, end = (left - 6, right + wide + 6) if sheet.rtl else (left + wide + 6, right - 6)
            sheet.arrow([(start, y + tall / 2), (end, y + tall / 2)])
            sheet.text((start + end) / 2, y + tall / 2 - 8, said("decision-yes"), at="middle", size=SMALL_SIZE)
            sheet.arrow([(left + wide / 2, y + tall + 3), (left + wide / 2, y + row - 4)])
            sheet.text(
                left + wide / 2 + (-26 if sheet.rtl else 26),
                y + tall + 17,
                said("decision-no"),
                at="middle",
                size=SMALL_SIZE,
            )
            told.append(said("decision-alt", question=question, answer=answer))
        last = said("decision-left")
        box(left, top + len(QUESTIONS) * row, last, strong=True)
        return sheet.svg(alt=" ".join([words.sentence(title), *told, last]))

    return draw


def remarks(reading: Reading) -> Callable[[Language], Table]:
    """What `shardwise deepspeed-config` says of a file, its lines first."""

    def table(language: Language) -> Table:
        said, text = Said(language), translator(language)
        rows = [[each.line or "–", text(each.id, **each.values)] for each in (*reading.errors, *reading.notes)]
        return Table(rows, header=[said("remarks-line"), said("remarks-said")], language=language)

    return table


def on_amd(*, changes: Sequence[str] = KINDS) -> Callable[[Language], Table]:
    """What changes from NVIDIA's GPUs to AMD's, of these kinds."""

    def table(language: Language) -> Table:
        said, text = Said(language), translator(language)
        header = [said("amd-what"), "NVIDIA", "AMD", said("amd-changes"), said("amd-do")]
        rows = [
            [each.what(text), each.nvidia, each.amd, text(f"labs.amd-changes-{each.changes}"), each.told(text)]
            for each in differences()
            if each.changes in changes
        ]
        return Table(rows, header=header, language=language)

    return table
