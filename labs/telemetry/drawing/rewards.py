"""How a policy's rewards go while it learns: means over the last steps, since those of one step are noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from labs.telemetry.drawing.legend import LABEL_SIZE, MARGIN, SMALL_SIZE, WIDTH, Words, gridline, titled_sheet
from labs.telemetry.drawing.series import apart, scale, ticks
from labs.telemetry.drawing.svg import Svg, text_width
from labs.telemetry.drawing.table import Table
from translations import Language
from translations.formats import number

Point = Mapping[str, float]
"""Of one step: `reward`, from 0 to 2; the shares `form`, `right` and `any`."""
LINES = {"reward": "", "right": "8 3", "any": "2 3"}
"""What is drawn of a run, and how its line is broken."""
SMOOTHED, ROWS = 10, 10
"""Steps of which a mean is shown, and rows of the table at the most."""
_HEIGHT = 200.0


def smoothed(values: Sequence[float]) -> list[float]:
    """Each value's mean with those before it, over `SMOOTHED` steps at the most."""
    windows = [values[max(0, end - SMOOTHED) : end] for end in range(1, len(values) + 1)]
    return [sum(window) / len(window) for window in windows]


def rewards_over_steps(curve: Sequence[Point], *, language: Language | str) -> Svg:
    """The rewards of one run."""
    words = Words.of(language)
    lines = {name: [point[name] for point in curve] for name in LINES}
    named = {words(f"reward-{name}"): values for name, values in lines.items()}
    return lines_over_steps(named, language=words.language, message=reward_message(curve, words), highest=2.0)


def reward_message(curve: Sequence[Point], words: Words) -> str:
    """What has become of the mean reward, in a sentence."""
    if not curve:
        return words("reward-none")
    rewards = [point["reward"] for point in curve]
    first = rewards[:SMOOTHED]
    values = {"first": decimals(sum(first) / len(first), words), "last": decimals(smoothed(rewards)[-1], words)}
    return words("reward-went", count=len(curve), **values)


def decimals(value: float, words: Words) -> str:
    return number(value, words.language, digits=3)


def lines_over_steps(
    lines: Mapping[str, Sequence[float]],
    *,
    language: Language | str,
    message: str,
    lowest: float = 0.0,
    highest: float,
) -> Svg:
    """Values against steps, a line for each name, smoothed; its name at its end."""
    words = Words.of(language)
    drawn = {name: smoothed(values) for name, values in lines.items() if values}
    steps = max((len(values) for values in drawn.values()), default=0)
    room = max((text_width(name, size=LABEL_SIZE) for name in drawn), default=0) + 14
    left, right = MARGIN + 34, WIDTH - MARGIN - room
    sheet, top = titled_sheet(message, gap=16, height=_HEIGHT + 44, language=words.language)

    x = scale(0, max(steps - 1, 1), start=left, end=right)
    y = scale(lowest, highest, start=top + _HEIGHT, end=top)
    for tick in (lowest + each for each in ticks(highest - lowest)):
        digits = len(f"{tick:g}".replace(".", "").lstrip("0")) or 1
        gridline(sheet, left, right, y(tick), number(tick, words.language, digits=digits))
    for step in ticks(float(steps), most=6):
        sheet.text(x(step), top + _HEIGHT + 18, f"{step:g}", at="middle", size=SMALL_SIZE, quiet=True, ltr=True)
    middle = (left + right) / 2
    sheet.text(middle, top + _HEIGHT + 36, words("reward-steps"), at="middle", size=SMALL_SIZE, quiet=True)
    ends = apart({name: y(values[-1]) for name, values in drawn.items()}, most=top + _HEIGHT)
    for (name, values), dash in zip(drawn.items(), _dashes(len(drawn)), strict=True):
        points = "L".join(f"{x(step):.1f} {y(value):.1f}" for step, value in enumerate(values))
        sheet.shape(f"M{points}", stroke=1.8, dash=dash)
        sheet.text(x(len(values) - 1) + 8, ends[name] + 4, name, size=LABEL_SIZE, weight=600)

    told = [
        words("reward-line", name=name, first=decimals(values[0], words), last=decimals(values[-1], words))
        for name, values in drawn.items()
    ]
    figure = sheet.svg(alt=" ".join([words.sentence(message), *told]))
    chosen = sorted({round(row * (steps - 1) / (ROWS - 1)) for row in range(ROWS)}) if steps else []
    rows = [
        [step + 1, *(decimals(values[step], words) if step < len(values) else "" for values in drawn.values())]
        for step in chosen
    ]
    header = [words("reward-step"), *drawn]
    return figure.beside(Table(rows, header=header, language=words.language).html) if rows else figure


def _dashes(count: int) -> list[str]:
    kinds = [*LINES.values(), "9 3 2 3"]
    return [kinds[index % len(kinds)] for index in range(count)]
