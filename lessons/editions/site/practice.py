"""Questions of the bank that can be tried on a page without a kernel: folded answers, each option with its why.

Their numbers are drawn with a seed that never changes, so that a page says the same to everyone.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from quiz import grading, rendering, session, variants
from quiz.items import BANK, Item, items
from translations import Language, Translator, translator

READER = "edition"
RECALLED = 2
"""How many questions stand between two sections; the rest stand at the end."""


class Practice:
    """A unit's questions, each shown once."""

    def __init__(self, unit: str, language: Language) -> None:
        self.language, self.text = language, translator(language)
        self.left: list[Item] = sorted(
            items(unit) if (BANK / f"{unit}.yaml").exists() else (),
            key=lambda each: variants.seed_of(learner=READER, attempt=0, item=each.id),
        )

    def recall(self, objective: str) -> str:
        """A few questions of one objective."""
        return self._shown(
            [each for each in self.left if each.objective == objective][:RECALLED], "lessons.site-recall"
        )

    def rest(self) -> str:
        """All that were not shown yet."""
        return self._shown(self.left, "lessons.site-quiz")

    def _shown(self, chosen: Sequence[Item], heading: str) -> str:
        if not chosen:
            return ""
        self.left = [each for each in self.left if each not in chosen]
        shown = "".join(item(each, self.language) for each in chosen)
        return f'<div class="items"><p class="told">{escape(self.text(heading))}</p>{shown}</div>'


def item(asked: Item, language: Language) -> str:
    """One question, with its answer folded up."""
    text = translator(language)
    made = variants.variant(asked, variants.seed_of(learner=READER, attempt=1, item=asked.id))
    question = session.question(made, language)
    graded = grading.grade(made, grading.right_answer(made), language)
    stem = rendering.html(question.text)
    if question.code:
        stem += _code(question.code, numbered=question.form == "fault")
    notes = {note.key: note for note in graded.notes}
    if question.form in ("choice", "fault"):
        options = [
            (rendering.inline(shown.text), notes[shown.key].right, _paragraphs(notes[shown.key].text, ""))
            for shown in question.offered
        ]
        return choices(stem, options, text, ending=_paragraphs(_general(graded.feedback, notes), ""))
    offered = "".join(f"<li>{rendering.inline(shown.text)}</li>" for shown in question.offered)
    if question.form == "match":
        given = "".join(f"<li>{rendering.inline(shown.text)}</li>" for shown in question.answers)
        stem += f'<div class="beside"><ul>{offered}</ul><ul>{given}</ul></div>'
    elif offered:
        stem += f"<ul>{offered}</ul>"
    else:
        stem += f'<p class="quiet">{rendering.inline(text("quiz.answer-label", unit=question.unit))}</p>'
    answer = _paragraphs(graded.key.replace("\n", "\n\n"), "key")
    if question.form == "several":
        mark = {True: text("quiz.right-mark"), False: text("quiz.wrong-mark")}
        answer = "".join(
            f"<dt>{rendering.inline(shown.text)} <em>({escape(mark[notes[shown.key].right])})</em></dt>"
            f"<dd>{_paragraphs(notes[shown.key].text, '')}</dd>"
            for shown in question.offered
        )
        answer = f"<dl>{answer}</dl>"
    answer += _paragraphs(graded.feedback, "")
    return (
        f'<section class="item">{stem}<details><summary>{escape(text("lessons.site-answer"))}</summary>'
        f"{answer}</details></section>"
    )


def choices(stem: str, options: Sequence[tuple[str, bool, str]], text: Translator, *, ending: str = "") -> str:
    """A question and its options, all as HTML: each option opens and says whether it is right, and why.

    `ending` stands under the right option's why.
    """
    shown = "".join(
        f'<li><details><summary>{option}</summary><div class="{"good" if right else "bad"}"><p><strong>'
        f"{escape(text('quiz.right' if right else 'quiz.wrong'))}</strong></p>{why}{ending if right else ''}"
        "</div></details></li>"
        for option, right, why in options
    )
    return f'<section class="item">{stem}<ul class="options">{shown}</ul></section>'


def _general(feedback: str, notes: dict[str, grading.Note]) -> str:
    """What is said beside the right option's own why."""
    own = {note.text for note in notes.values()}
    return "\n\n".join(part for part in feedback.split("\n\n") if part not in own)


def _paragraphs(text: str, kind: str) -> str:
    html = rendering.html(text) if text.strip() else ""
    return html.replace("<p>", f'<p class="{kind}">') if kind else html


def _code(code: str, *, numbered: bool) -> str:
    lines = code.rstrip().splitlines()
    width = len(str(len(lines)))
    shown = "\n".join(
        f'<span class="line-number">{number:>{width}}</span>  {escape(line)}' if numbered else escape(line)
        for number, line in enumerate(lines, 1)
    )
    return f'<pre dir="ltr"><code>{shown}</code></pre>'
