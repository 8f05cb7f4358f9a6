"""An item with a seed and in a language, as a question that can travel; and what of it stays behind in any format."""

from __future__ import annotations

from collections.abc import Callable

from quiz import grading
from quiz.curriculum import misconceptions_of
from quiz.exchange.model import Choice, Exchanged, Loss, Number, Pairing, losses_in, normal, normal_code
from quiz.items import Item
from quiz.rendering import fill, fill_code
from quiz.variants import Variant, variant
from translations import Language, translator
from translations import language as find


def exported(item: Item, *, seed: int, language: Language | str) -> tuple[Exchanged, tuple[Loss, ...]]:
    """The question, and the losses that no format is to blame for."""
    made, reader = variant(item, seed), find(language)
    return _question(made, reader), losses_in(Loss(id=item.id, what=what) for what in _left_behind(item))


def _left_behind(item: Item) -> list[str]:
    lost = []
    if item.parameters:
        lost.append("parameters")
    if any(misconceptions_of(item)):
        lost.append("misconceptions")
    if item.form in ("number", "bytes"):
        lost.append("readings")
    if item.form == "fault":
        lost.append("fault")
    if item.form == "match":
        lost.append("rows")
    if item.form == "order":
        lost.append("inversions")
    return lost


def _question(made: Variant, language: Language) -> Exchanged:
    item, text = made.item, translator(language)

    def say(context: str, english: str) -> str:
        return normal(fill(item.say(context, english, language), made.values, item.show, language))

    code = normal_code(fill_code(item.code, made.values))
    lines = code.split("\n")
    by_key = {option.key: option for option in item.options}
    keys = made.order if item.form in ("choice", "several") else tuple(by_key)
    fields = "lines" if item.form == "fault" else "options"
    choices = tuple(
        Choice(
            text=_line(option.line, lines, language)
            if item.form == "fault"
            else say(f"options.{option.key}.text", option.text),
            right=option.correct,
            feedback=say(f"{fields}.{option.key}.feedback", option.feedback),
        )
        for option in (by_key[key] for key in keys)
    )
    answers = {each.key: say(f"answers.{each.key}.text", each.text) for each in item.answers}
    fitting = {pair.match for pair in item.pairs}
    tags = {
        "unit": item.unit,
        "objective": item.objective,
        "kind": item.kind,
        "version": str(item.version),
        "seed": str(made.seed),
        **({"measure": item.answer_unit} if item.answer_unit else {}),
    }
    asked = say("text", item.text)
    if item.form in ("number", "bytes"):
        unit = grading.unit_name(grading.answer_unit(item), language)
        asked = f"{asked}\n\n{normal(text('quiz.answer-label', unit=unit))}"
    return Exchanged(
        id=item.id,
        form="number" if item.form == "bytes" else "choice" if item.form == "fault" else item.form,
        text=asked,
        code=code,
        feedback=say("feedback", item.feedback),
        choices=choices,
        numbers=_numbers(made, say) if item.form in ("number", "bytes") else (),
        pairs=tuple(
            Pairing(text=say(f"pairs.{pair.key}.text", pair.text), fit=answers[pair.match]) for pair in item.pairs
        ),
        extra=tuple(said for key, said in answers.items() if key not in fitting),
        steps=tuple(say(f"steps.{step.key}.text", step.text) for step in item.steps),
        language=language.code,
        tags=tuple(f"{name}={value}" for name, value in sorted(tags.items())),
    )


def _line(number: int, lines: list[str], language: Language) -> str:
    said = translator(language)("quiz.line", number=number)
    shown = lines[number - 1].strip().replace("`", "'") if number <= len(lines) else ""
    return normal(f"{said}: `{shown}`" if shown else said)


def _numbers(made: Variant, say: Callable[[str, str], str]) -> tuple[Number, ...]:
    """The right number, and the slips that are wrong in this variant: one equal to the key is none."""
    item, key = made.item, grading.key_of(made)

    def tolerance(value: float) -> float:
        return abs(value) * item.tolerance

    found = [Number(value=key, tolerance=tolerance(key), right=True)]
    for slip in item.slips:
        value = made.number(slip.value)
        if abs(value - key) > tolerance(key):
            feedback = say(f"slips.{slip.key}.feedback", slip.feedback)
            found.append(Number(value=value, tolerance=tolerance(value), right=False, feedback=feedback))
    return tuple(found)
