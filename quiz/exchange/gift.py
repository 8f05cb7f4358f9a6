"""GIFT, Moodle's plain text: one question a block, read sign by sign and never by a pattern that could run away.

It holds no block of steps to be ordered (they become a match with places), no feedback of a row, and no language.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence

from quiz.exchange.marked import from_html, inline_html, to_html
from quiz.exchange.model import LARGEST, MOST, Choice, Exchanged, Loss, Number, Pairing, losses_in, plain_fits, unmarked
from translations import CourseError

_SPECIAL = "~=#{}:\\"
_TAG = re.compile(r"\[(id|tag):([^\[\]]{0,200})\]")


def held(question: Exchanged) -> tuple[Exchanged, tuple[Loss, ...]]:
    """The question as GIFT can hold it, and what is lost."""
    question, lost = plain_fits(question)
    if question.form == "order":
        lost.append("order-as-match")
        pairs = tuple(Pairing(text=step, fit=str(place)) for place, step in enumerate(question.steps, 1))
        question = dataclasses.replace(question, form="match", pairs=pairs, steps=())
    if question.language != "en":
        lost.append("language")
        question = dataclasses.replace(question, language="en")
    if question.form == "match" and question.extra:
        lost.append("extra")
        question = dataclasses.replace(question, extra=())
    return question, losses_in(Loss(id=question.id, what=what) for what in lost)


def write(questions: Iterable[Exchanged]) -> tuple[bytes, tuple[Loss, ...]]:
    """The file, and what it cannot hold."""
    blocks, lost = [], list[Loss]()
    for each in questions:
        question, own = held(each)
        lost += own
        tags = "".join(f" [tag:{tag}]" for tag in question.tags)
        head = f"// [id:{question.id}]{tags}\n::{_escaped(question.id)}::[html]"
        body = f"{_escaped(to_html(question.text, question.code))} {{{_answers(question)}"
        general = f"####{_escaped(to_html(question.feedback))}" if question.feedback else ""
        blocks.append(f"{head}{body}{general}\n}}\n")
    return "\n".join(blocks).encode(), losses_in(lost)


def _answers(question: Exchanged) -> str:
    lines = []
    if question.form == "number":
        lines = [
            f"={'' if each.right else '%0%'}{each.value!r}:{each.tolerance!r}{_feedback(each.feedback)}"
            for each in question.numbers
        ]
        return "#\n" + "\n".join(lines) + "\n"
    if question.form == "match":
        lines = [f"={_html(each.text)} -> {_escaped(each.fit)}" for each in question.pairs]
    elif question.form == "choice":
        lines = [
            f"{'=' if each.right else '~'}{_html(each.text)}{_feedback(each.feedback)}" for each in question.choices
        ]
    else:
        share = 100 / sum(each.right for each in question.choices)
        lines = [
            f"~%{'' if each.right else '-'}{share:.5f}%{_html(each.text)}{_feedback(each.feedback)}"
            for each in question.choices
        ]
    return "\n" + "\n".join(lines) + "\n"


def _html(text: str) -> str:
    return f"[html]{_escaped(inline_html(text))}"


def _feedback(text: str) -> str:
    return f"#{_html(text)}" if text else ""


def _escaped(text: str) -> str:
    """Text in which no sign steers; a line break is written as \\n."""
    kept = "".join(f"\\{sign}" if sign in _SPECIAL else sign for sign in text)
    return kept.replace("\n", "\\n")


# --- reading


def read(data: bytes) -> tuple[tuple[Exchanged, ...], tuple[Loss, ...]]:
    """The questions of a file, and what was not understood. Raises CourseError for one that is no GIFT."""
    if len(data) > LARGEST:
        raise CourseError("quiz.exchange-too-large")
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise CourseError("quiz.exchange-unreadable", format="GIFT", reason=str(error)) from error
    found, lost = [], list[Loss]()
    for number, (comments, block) in enumerate(_blocks(text), 1):
        if number > MOST:
            raise CourseError("quiz.exchange-too-large")
        question, own = _question(block, comments, number)
        lost += own
        if question is not None:
            found.append(question)
    return tuple(found), losses_in(lost)


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """Comments and text of each question: blocks end at an empty line outside of braces."""
    comments, lines, depth = list[str](), list[str](), 0
    for line in [*text.split("\n"), ""]:
        bare = line.strip()
        if not depth and bare.startswith("//"):
            comments.append(bare)
            continue
        if not depth and bare.startswith("$CATEGORY"):
            continue
        if not bare and not depth:
            if lines:
                yield " ".join(comments), "\n".join(lines)
                comments = []
            lines = []
            continue
        if depth and bare.startswith("//"):
            continue
        lines.append(line)
        for place, sign in enumerate(line):
            if sign in "{}" and not _is_escaped(line, place):
                depth += 1 if sign == "{" else -1
                if depth not in (0, 1):
                    raise CourseError("quiz.exchange-unreadable", format="GIFT", reason=line.strip()[:80])
    if lines or depth:
        raise CourseError("quiz.exchange-unreadable", format="GIFT", reason="{")


def _is_escaped(text: str, place: int) -> bool:
    slashes = 0
    while place > slashes and text[place - slashes - 1] == "\\":
        slashes += 1
    return slashes % 2 == 1


def _find(text: str, signs: str, start: int = 0) -> int:
    """The place of the first of some signs that steers; -1 where there is none."""
    place = start
    while place < len(text):
        if text[place] == "\\":
            place += 2
            continue
        if text[place] in signs:
            return place
        place += 1
    return -1


def _plain(text: str) -> str:
    """Text with its escapes taken away."""
    pieces, place = [], 0
    while place < len(text):
        sign = text[place]
        if sign == "\\" and place + 1 < len(text):
            place += 1
            sign = {"n": "\n"}.get(text[place], text[place])
        pieces.append(sign)
        place += 1
    return "".join(pieces)


def _question(block: str, comments: str, number: int) -> tuple[Exchanged | None, list[Loss]]:
    tags = _TAG.findall(comments)
    name = f"question-{number}"
    rest = block.strip()
    if rest.startswith("::"):
        end = rest.find("::", 2)
        while end > 0 and _is_escaped(rest, end):
            end = rest.find("::", end + 1)
        if end > 0:
            name, rest = _plain(rest[2:end]).strip() or name, rest[end + 2 :].strip()
    name = next((value for kind, value in tags if kind == "id" and value), name)
    begin = _find(rest, "{")
    if begin < 0:
        return None, [Loss(id=name, what="description")]
    end = _find(rest, "}", begin + 1)
    lost = list[Loss]()
    if rest[end + 1 :].strip():
        lost.append(Loss(id=name, what="missing-word"))
    text, code = _marked(
        rest[:begin].strip() + (" _____ " + rest[end + 1 :] if rest[end + 1 :].strip() else ""), name, lost
    )
    inside, feedback = rest[begin + 1 : end], ""
    general = _general(inside)
    if general >= 0:
        feedback, _ = _marked(inside[general + 4 :], name, lost)
        inside = inside[:general]
    made = Exchanged(
        id=name,
        form="choice",
        text=text,
        code=code,
        feedback=feedback,
        tags=tuple(value for kind, value in tags if kind == "tag"),
    )
    filled = _filled(made, inside.strip(), lost)
    return filled, lost


def _general(inside: str) -> int:
    place = _find(inside, "#")
    while place >= 0:
        if inside.startswith("####", place):
            return place
        place = _find(inside, "#", place + 1)
    return -1


def _marked(raw: str, name: str, lost: list[Loss]) -> tuple[str, str]:
    """Text and code of a piece, which says in what it is written; without a word it may hold HTML too."""
    raw = raw.strip()
    kind = next((each for each in ("html", "moodle", "markdown", "plain") if raw.startswith(f"[{each}]")), "")
    bare = _plain(raw[len(kind) + 2 :] if kind else raw)
    if kind in ("plain", "markdown"):
        return unmarked(bare), ""
    text, code, media = from_html(bare)
    if media:
        lost.append(Loss(id=name, what="media"))
    return text, code


def _filled(made: Exchanged, inside: str, lost: list[Loss]) -> Exchanged | None:
    if inside.startswith("#"):
        return _numeric(made, inside[1:], lost)
    if inside.upper() in ("T", "TRUE", "F", "FALSE"):
        truth = inside.upper().startswith("T")
        choices = (Choice(text="True", right=truth), Choice(text="False", right=not truth))
        return dataclasses.replace(made, choices=choices)
    parts = _parts(inside, "=~")
    if not parts:
        lost.append(Loss(id=made.id, what="essay"))
        return None
    if all(sign == "=" for sign, _ in parts) and all("->" in body for _, body in parts):
        pairs = []
        for _, body in parts:
            left, _, right = body.partition("->")
            pairs.append(Pairing(text=_marked(left, made.id, lost)[0], fit=unmarked(_plain(right.strip()))))
        kept = tuple(each for each in pairs if each.text)
        extra = tuple(each.fit for each in pairs if not each.text)
        return dataclasses.replace(made, form="match", pairs=kept, extra=extra)
    if all(sign == "=" for sign, _ in parts):
        lost.append(Loss(id=made.id, what="short-answer"))
        return None
    return _choices(made, parts, lost)


def _parts(inside: str, signs: str) -> list[tuple[str, str]]:
    found, place = [], _find(inside, signs)
    while place >= 0:
        following = _find(inside, signs, place + 1)
        found.append((inside[place], inside[place + 1 : following if following >= 0 else len(inside)].strip()))
        place = following
    return found


def _weighed(body: str) -> tuple[float | None, str]:
    """The percentage at the beginning of an answer, and the rest."""
    weight = re.match(r"%(-?\d{1,3}(?:\.\d{1,9})?)%", body)
    return (float(weight[1]), body[weight.end() :]) if weight else (None, body)


def _choices(made: Exchanged, parts: Sequence[tuple[str, str]], lost: list[Loss]) -> Exchanged:
    choices, weights = [], []
    for sign, body in parts:
        weight, rest = _weighed(body)
        told = _find(rest, "#")
        text, _ = _marked(rest if told < 0 else rest[:told], made.id, lost)
        feedback = _marked(rest[told + 1 :], made.id, lost)[0] if told >= 0 else ""
        weights.append(100.0 if sign == "=" else weight or 0.0)
        choices.append(Choice(text=text, right=weights[-1] > 0, feedback=feedback))
    single = any(sign == "=" for sign, _ in parts)
    if len({weight for weight in weights if weight > 0}) > 1:
        lost.append(Loss(id=made.id, what="partial"))
        if single:
            choices = [
                dataclasses.replace(each, right=weight == 100) for each, weight in zip(choices, weights, strict=True)
            ]
    return dataclasses.replace(made, form="choice" if single else "several", choices=tuple(choices))


def _numeric(made: Exchanged, inside: str, lost: list[Loss]) -> Exchanged | None:
    parts = _parts(inside, "=~") or [("=", inside.strip())]
    numbers = []
    for _, body in parts:
        weight, rest = _weighed(body)
        told = _find(rest, "#")
        bare = (rest if told < 0 else rest[:told]).strip()
        feedback = _marked(rest[told + 1 :], made.id, lost)[0] if told >= 0 else ""
        number = number_of(bare)
        if number is None:
            lost.append(Loss(id=made.id, what="number"))
            return None
        numbers.append(
            Number(value=number[0], tolerance=number[1], right=weight is None or weight > 0, feedback=feedback)
        )
    if sum(each.right for each in numbers) != 1:
        lost.append(Loss(id=made.id, what="partial"))
    return dataclasses.replace(made, form="number", numbers=tuple(numbers))


def number_of(text: str) -> tuple[float, float] | None:
    """Value and tolerance of `7:0.1`, or of the range `6..8`; None where it is neither."""
    low, dots, high = text.partition("..")
    try:
        if dots:
            a, b = _finite(low), _finite(high)
            return (a + b) / 2, abs(b - a) / 2
        value, _, tolerance = text.partition(":")
        return _finite(value), _finite(tolerance) if tolerance.strip() else 0.0
    except ValueError:
        return None


def _finite(text: str) -> float:
    value = float(text.strip()[:60])
    if not abs(value) < float("inf"):
        raise ValueError(text)
    return value
