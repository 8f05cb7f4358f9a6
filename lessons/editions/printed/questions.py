"""The questions at a chapter's end, and their answers with the reasons: one try of the quiz, the same in every copy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from lessons.editions.printed.markup import array, call, string, words
from lessons.editions.printed.outputs import Outputs
from quiz import Session, Variant, grade, rendering
from quiz.grading import Graded, right_answer
from quiz.session import Question, question
from translations import Language, translator

READER = "the printed edition"
"""Who takes this try: what the seed of its numbers is made of."""


@dataclass
class Questions:
    """The questions of a unit in a language."""

    unit: str
    language: Language

    @cached_property
    def variants(self) -> tuple[Variant, ...]:
        return Session(self.unit, self.language, seed=READER).variants

    @cached_property
    def letters(self) -> list[str]:
        return translator(self.language)("lessons.book-letters").split()

    def asked(self) -> str:
        """All questions, without a key."""
        pieces = [
            self.question(number, question(variant, self.language)) for number, variant in enumerate(self.variants, 1)
        ]
        return call("questions", *pieces, unit=string(self.unit))

    def question(self, number: int, asked: Question) -> str:
        offered = [each for each in asked.offered if asked.form != "fault"]
        return call(
            "question",
            self.paragraphs(asked.text),
            number=str(number),
            form=string(asked.form),
            prompt=f"[{words(asked.prompt)}]",
            code=string(asked.code.rstrip()),
            lines=array(str(each.line) for each in asked.offered if asked.form == "fault"),
            offered=array(f"[{self.inline(each.text)}]" for each in offered),
            answers=array(f"[{self.inline(each.text)}]" for each in asked.answers),
            letters=array(string(each) for each in self.letters),
            unit=f"[{words(asked.unit)}]",
        )

    def answered(self) -> str:
        """The answer to each, and why."""
        pieces = []
        for number, variant in enumerate(self.variants, 1):
            graded = grade(variant, right_answer(variant), self.language)
            pieces.append(self.answer(number, variant, graded))
        return call("answers", *pieces, unit=string(self.unit))

    def answer(self, number: int, variant: Variant, graded: Graded) -> str:
        asked = question(variant, self.language)
        notes = [
            f"({self.marked(self.name(asked, at, note.key))}, [{self.inline(note.text)}])"
            for at, note in enumerate(self.notes(asked, graded))
            if note.text and note.text not in graded.feedback
        ]
        return call(
            "answer",
            self.paragraphs(graded.feedback),
            number=str(number),
            key=f"[{self.key(asked, variant, graded)}]",
            notes=array(notes),
        )

    def notes(self, asked: Question, graded: Graded) -> list:  # type: ignore[type-arg]
        places = [each.key for each in asked.offered]
        return sorted(graded.notes, key=lambda note: places.index(note.key) if note.key in places else 0)

    def name(self, asked: Question, at: int, key: str) -> str:
        """What a question calls one of the things that it offers."""
        if asked.form == "fault":
            return next(each.text for each in asked.offered if each.key == key)
        if asked.form == "match":
            return str(at + 1)
        return self.letters[[each.key for each in asked.offered].index(key)]

    def marked(self, name: str) -> str:
        return f"[{words(name)}]"

    def key(self, asked: Question, variant: Variant, graded: Graded) -> str:
        letter = {each.key: name for each, name in zip(asked.offered, self.letters, strict=False)}
        right = right_answer(variant)
        match asked.form:
            case "choice":
                assert isinstance(right, str)
                return words(letter[right])
            case "several" | "order":
                keys = [str(each) for each in right]
                named = sorted(letter[each] for each in keys) if asked.form == "several" else [letter[k] for k in keys]
                return words(" ".join(named))
            case "match":
                assert isinstance(right, dict)
                answers = {each.key: name for each, name in zip(asked.answers, self.letters, strict=False)}
                return words(", ".join(f"{at} {answers[right[each.key]]}" for at, each in enumerate(asked.offered, 1)))
        return self.inline(graded.key)

    def inline(self, text: str) -> str:
        return Outputs(self.language).inline(rendering.inline(text))

    def paragraphs(self, text: str) -> str:
        return Outputs(self.language).inline(rendering.html(text))
