"""Moodle XML: what Moodle itself exports and imports. Steps to be put in order need Moodle 4.4 or newer."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from xml.etree.ElementTree import Element, SubElement

from quiz.exchange.gift import number_of
from quiz.exchange.marked import from_html, inline_html, to_html
from quiz.exchange.model import MOST, Choice, Exchanged, Loss, Number, Pairing, losses_in, normal, plain_fits, unmarked
from quiz.exchange.xml import first, named, parsed, written
from translations import CourseError

_TYPES = {"choice": "multichoice", "several": "multichoice", "number": "numerical", "match": "matching"}


def held(question: Exchanged) -> tuple[Exchanged, tuple[Loss, ...]]:
    """The question as Moodle XML can hold it, and what is lost."""
    question, lost = plain_fits(question)
    if question.language != "en":
        lost.append("language")
        question = dataclasses.replace(question, language="en")
    if question.form == "order":
        lost.append("moodle-ordering")
    return question, losses_in(Loss(id=question.id, what=what) for what in lost)


def write(questions: Iterable[Exchanged]) -> tuple[bytes, tuple[Loss, ...]]:
    """The file, and what it cannot hold."""
    root, lost = Element("quiz"), list[Loss]()
    for each in questions:
        question, own = held(each)
        lost += own
        root.append(_written(question))
    return written(root), losses_in(lost)


def _written(question: Exchanged) -> Element:
    made = Element("question", type=_TYPES.get(question.form, "ordering"))
    _text(SubElement(made, "name"), question.id)
    _html(made, "questiontext", to_html(question.text, question.code))
    _html(made, "generalfeedback", to_html(question.feedback) if question.feedback else "")
    for name, value in (("defaultgrade", "1"), ("penalty", "0"), ("hidden", "0"), ("idnumber", question.id)):
        SubElement(made, name).text = value
    if question.form in ("choice", "several"):
        SubElement(made, "single").text = "true" if question.form == "choice" else "false"
        SubElement(made, "shuffleanswers").text = "false"
        SubElement(made, "answernumbering").text = "none"
        share = 100 / max(1, sum(each.right for each in question.choices))
        wrong = 0.0 if question.form == "choice" else -share
        for choice in question.choices:
            _answer(made, inline_html(choice.text), share if choice.right else wrong, choice.feedback)
    elif question.form == "number":
        for number in question.numbers:
            answer = _answer(made, repr(number.value), 100 if number.right else 0, number.feedback, plain=True)
            SubElement(answer, "tolerance").text = repr(number.tolerance)
        SubElement(made, "unitgradingtype").text = "0"
        SubElement(made, "showunits").text = "3"
    elif question.form == "match":
        SubElement(made, "shuffleanswers").text = "true"
        for text, fit in [*((p.text, p.fit) for p in question.pairs), *(("", fit) for fit in question.extra)]:
            row = _html(made, "subquestion", inline_html(text) if text else "")
            _text(SubElement(row, "answer"), fit)
    else:
        for name, value in (
            ("layouttype", "VERTICAL"),
            ("selecttype", "ALL"),
            ("gradingtype", "RELATIVE_ALL_PREVIOUS_AND_NEXT"),
        ):
            SubElement(made, name).text = value
        for step in question.steps:
            answer = _answer(made, inline_html(step), 1, "")
            answer.remove(answer[-1])
    if question.tags:
        tags = SubElement(made, "tags")
        for tag in question.tags:
            _text(SubElement(tags, "tag"), tag)
    return made


def _text(parent: Element, text: str) -> None:
    SubElement(parent, "text").text = text


def _html(parent: Element, name: str, markup: str) -> Element:
    made = SubElement(parent, name, format="html")
    _text(made, markup)
    return made


def _answer(parent: Element, body: str, share: float, feedback: str, *, plain: bool = False) -> Element:
    fraction = f"{share:.5f}".rstrip("0").rstrip(".")
    made = SubElement(parent, "answer", fraction=fraction, format="moodle_auto_format" if plain else "html")
    _text(made, body)
    _html(made, "feedback", inline_html(feedback) if feedback else "")
    return made


# --- reading


def read(data: bytes) -> tuple[tuple[Exchanged, ...], tuple[Loss, ...]]:
    """The questions of a file, and what was not understood. Raises CourseError for one that is no Moodle XML."""
    root = parsed(data, form="Moodle XML")
    if root.tag != "quiz":
        raise CourseError("quiz.exchange-unreadable", format="Moodle XML", reason=f"<{str(root.tag)[:60]}>")
    found, lost = [], list[Loss]()
    for number, element in enumerate(named(root, "question"), 1):
        if number > MOST:
            raise CourseError("quiz.exchange-too-large")
        if element.get("type") == "category":
            continue
        question = _Reader(element, number, lost).question()
        if question is not None:
            found.append(question)
    return tuple(found), losses_in(lost)


class _Reader:
    def __init__(self, element: Element, number: int, lost: list[Loss]) -> None:
        self._element = element
        self._lost = lost
        idnumber = first(element, "idnumber")
        name = (idnumber.text or "").strip() if idnumber is not None else ""
        self._name = normal(name or self._raw(first(element, "name")))[:200] or f"question-{number}"

    def question(self) -> Exchanged | None:
        kind = self._element.get("type") or ""
        text, code = self._marked(first(self._element, "questiontext"))
        made = Exchanged(
            id=self._name,
            form="choice",
            text=text,
            code=code,
            feedback=self._marked(first(self._element, "generalfeedback"))[0],
            tags=self._tags(),
        )
        match kind:
            case "multichoice" | "truefalse":
                return self._choices(made, kind)
            case "numerical":
                return self._numbers(made)
            case "matching":
                return self._pairs(made)
            case "ordering":
                steps = tuple(self._marked(each)[0] for each in named(self._element, "answer"))
                return dataclasses.replace(made, form="order", steps=steps)
        self._loses({"shortanswer": "short-answer", "essay": "essay", "description": "description"}.get(kind, "form"))
        return None

    def _loses(self, what: str) -> None:
        self._lost.append(Loss(id=self._name, what=what))

    def _raw(self, element: Element | None) -> str:
        """What stands in the `<text>` of an element, or in the element itself."""
        if element is None:
            return ""
        inner = first(element, "text")
        return "".join((element if inner is None else inner).itertext())

    def _marked(self, element: Element | None) -> tuple[str, str]:
        if element is None:
            return "", ""
        raw = self._raw(element)
        if element.get("format") in ("plain_text", "markdown"):
            return unmarked(raw), ""
        text, code, media = from_html(raw)
        if media or first(element, "file") is not None:
            self._loses("media")
        return text, code

    def _tags(self) -> tuple[str, ...]:
        tags = first(self._element, "tags")
        found = [] if tags is None else [normal(self._raw(each))[:200] for each in named(tags, "tag")]
        return tuple(each for each in found if each)

    def _fractions(self) -> list[float]:
        found = []
        for each in named(self._element, "answer"):
            number = number_of(each.get("fraction") or "0")
            found.append(number[0] if number else 0.0)
        return found

    def _choices(self, made: Exchanged, kind: str) -> Exchanged:
        shares = self._fractions()
        single = kind == "truefalse" or self._raw(first(self._element, "single")).strip().lower() in ("true", "1")
        best = max(shares, default=0.0)
        if len({share for share in shares if share > 0}) > 1:
            self._loses("partial")
        choices = tuple(
            Choice(
                text=self._marked(each)[0],
                right=share > 0 and (share == best or not single),
                feedback=self._marked(first(each, "feedback"))[0],
            )
            for each, share in zip(named(self._element, "answer"), shares, strict=True)
        )
        return dataclasses.replace(made, form="choice" if single else "several", choices=choices)

    def _numbers(self, made: Exchanged) -> Exchanged | None:
        numbers = []
        for each, share in zip(named(self._element, "answer"), self._fractions(), strict=True):
            allowed = first(each, "tolerance")
            tolerance = "" if allowed is None else (allowed.text or "")
            number = number_of(f"{self._raw(each).strip()}:{tolerance}")
            if number is None:
                self._loses("number")
                return None
            feedback = self._marked(first(each, "feedback"))[0]
            numbers.append(Number(value=number[0], tolerance=number[1], right=share > 0, feedback=feedback))
        if sum(each.right for each in numbers) != 1:
            self._loses("partial")
        return dataclasses.replace(made, form="number", numbers=tuple(numbers))

    def _pairs(self, made: Exchanged) -> Exchanged:
        pairs, extra = [], []
        for row in named(self._element, "subquestion"):
            text, fit = self._marked(row)[0], unmarked(self._raw(first(row, "answer")))
            if text:
                pairs.append(Pairing(text=text, fit=fit))
            elif fit:
                extra.append(fit)
        return dataclasses.replace(made, form="match", pairs=tuple(pairs), extra=tuple(extra))
