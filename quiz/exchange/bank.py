"""Questions from elsewhere as items of a bank: what the other system did not have is marked, for an author to write.
A bank that still holds such a mark is not drawn from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import yaml

from quiz.exam.banks import UNFINISHED
from quiz.exchange.model import Exchanged, Loss, losses_in
from quiz.items import objectives
from quiz.numbers import unit as find_unit

LEAST_FEEDBACK = 20
_KINDS = ("recall", "compute", "predict", "diagnose", "explain")


@dataclass(frozen=True, kw_only=True)
class Imported:
    """Items as a bank's file holds them, and what was lost or is still to be written."""

    unit: str
    items: tuple[dict[str, Any], ...]
    losses: tuple[Loss, ...]

    def text(self) -> str:
        """The bank's file."""
        # By way of JSON no two values are one, and YAML writes no alias, which a bank may not have.
        content = json.loads(json.dumps({"version": 1, "unit": self.unit, "items": list(self.items)}))
        return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120)


def imported(questions: Iterable[Exchanged], *, unit: str, objective: str | None = None) -> Imported:
    """Items of questions.

    Their objective is the one that they are tagged with, if the unit has it, else `objective`.
    """
    own = [each.id for each in objectives(unit)]
    fallback = objective or (own[0] if own else "")
    items, losses, taken = [], list[Loss](), set[str]()
    for question in questions:
        made, lost = _item(question, objective=question.tag("objective"), own=own, fallback=fallback)
        losses += (Loss(id=question.id, what=what) for what in lost)
        if made is None:
            continue
        made["id"] = _free(made["id"], taken)
        items.append(made)
    return Imported(unit=unit, items=tuple(items), losses=losses_in(losses))


def _item(
    question: Exchanged, *, objective: str, own: list[str], fallback: str
) -> tuple[dict[str, Any] | None, list[str]]:
    lost = []
    if objective not in own:
        objective = fallback
        lost.append("objective")
    kind = question.tag("kind")
    if kind not in _KINDS:
        kind = "explain"
        lost.append("kind")
    item: dict[str, Any] = {
        "id": _key(question.id),
        "version": 1,
        "objective": objective,
        "kind": kind,
        "form": question.form,
        "text": _braces(question.text) or UNFINISHED,
        **({"code": question.code} if question.code else {}),
        "feedback": _feedback(question.feedback),
    }
    if question.code and re.search(r"\{[A-Za-z]\w*\}", question.code):
        lost.append("braces")
    parts = _parts(question, lost)
    if parts is None:
        return None, lost
    if UNFINISHED in str({**item, **parts}):
        lost.append("unfinished")
    return {**item, **parts}, lost


def _parts(question: Exchanged, lost: list[str]) -> dict[str, Any] | None:
    match question.form:
        case "choice" | "several":
            right = sum(each.right for each in question.choices)
            if not 3 <= len(question.choices) <= 6 or not right or (question.form == "choice" and right != 1):
                lost.append("options")
                return None
            return {
                "options": [
                    {
                        "key": f"option-{n}",
                        "text": _braces(each.text) or UNFINISHED,
                        **({"correct": True} if each.right else {}),
                        "feedback": _feedback(each.feedback),
                    }
                    for n, each in enumerate(question.choices, 1)
                ]
            }
        case "number":
            return _number(question, lost)
        case "order":
            if not 3 <= len(question.steps) <= 7:
                lost.append("steps")
                return None
            steps = [
                {"key": f"step-{n}", "text": _braces(each) or UNFINISHED} for n, each in enumerate(question.steps, 1)
            ]
            swapped = {"key": "swapped", "first": "step-2", "then": "step-1", "feedback": UNFINISHED}
            return {"steps": steps, "inversions": [swapped]}
    fits = list(dict.fromkeys([*(pair.fit for pair in question.pairs), *question.extra]))
    if not 3 <= len(question.pairs) <= 7 or not 2 <= len(fits) <= 7:
        lost.append("steps")
        return None
    return {
        "pairs": [
            {
                "key": f"row-{n}",
                "text": _braces(pair.text) or UNFINISHED,
                "match": f"answer-{fits.index(pair.fit) + 1}",
                "feedback": UNFINISHED,
            }
            for n, pair in enumerate(question.pairs, 1)
        ],
        "answers": [{"key": f"answer-{n}", "text": _braces(fit) or UNFINISHED} for n, fit in enumerate(fits, 1)],
    }


def _number(question: Exchanged, lost: list[str]) -> dict[str, Any] | None:
    right = [each for each in question.numbers if each.right]
    if len(right) != 1:
        lost.append("number")
        return None
    key = right[0]
    relative = key.tolerance / abs(key.value) if key.value else 0.0
    if not 0 < relative <= 0.05:
        lost.append("tolerance")
    measure = question.tag("measure")
    if find_unit(measure) is None:
        measure = "times"
        lost.append("unit")
    return {
        "unit": measure,
        "tolerance": round(min(0.05, relative), 9) or 0.01,
        "key": key.value,
        "slips": [
            {"key": f"slip-{n}", "value": each.value, "feedback": _feedback(each.feedback)}
            for n, each in enumerate((each for each in question.numbers if not each.right), 1)
        ],
    }


def _feedback(text: str) -> str:
    text = _braces(text)
    return text if len(text) >= LEAST_FEEDBACK else f"{UNFINISHED} {text}".strip()


def _braces(text: str) -> str:
    """A text in which no brace names a parameter: an imported question has none."""
    return re.sub(r"\{([A-Za-z][A-Za-z0-9_]*)\}", r"{ \1 }", text)


def _key(id: str) -> str:
    kept = re.sub(r"[^a-z0-9]+", "-", id.lower()).strip("-")[:60]
    return kept if kept and kept[0].isalpha() else f"question-{kept}".rstrip("-")


def _free(id: str, taken: set[str]) -> str:
    number, found = 1, id
    while found in taken:
        number += 1
        found = f"{id}-{number}"
    taken.add(found)
    return found


def template_items(objective: str) -> tuple[dict[str, Any], ...]:
    """A question of each form for a private bank, with every text still to be written."""
    head = {"version": 1, "objective": objective}
    words = {"text": UNFINISHED, "feedback": UNFINISHED}
    options = [
        {"key": key, "text": UNFINISHED, **({"correct": True} if key == "right" else {}), "feedback": UNFINISHED}
        for key in ("right", "wrong-1", "wrong-2")
    ]
    ranks = {"parameters": {"N": {"choose": [4, 8, 16]}}, "unit": "GB", "tolerance": 0.01, "ranks": "N"}
    slip = {"key": "not-shared", "value": "48", "feedback": UNFINISHED}
    steps = [{"key": f"step-{n}", "text": UNFINISHED} for n in (1, 2, 3)]
    swapped = {"key": "swapped", "first": "step-2", "then": "step-1", "feedback": UNFINISHED}
    rows = [{"key": f"row-{n}", "text": UNFINISHED, "match": f"answer-{n}", "feedback": UNFINISHED} for n in (1, 2, 3)]
    answers = [{"key": f"answer-{n}", "text": UNFINISHED} for n in (1, 2, 3)]
    lines = [
        {"key": f"line-{n}", "line": n, **({"correct": True} if n == 2 else {}), "feedback": UNFINISHED}
        for n in (1, 2, 3)
    ]
    code = "loss = model(batch)\nloss.forward()\noptimizer.step()"
    two = [*options[:1], {**options[1], "correct": True}, options[2]]
    return (
        {"id": "own-choice", **head, "kind": "predict", "form": "choice", **words, "options": options},
        {"id": "own-several", **head, "kind": "predict", "form": "several", **words, "options": two},
        {
            "id": "own-number",
            **head,
            "kind": "compute",
            "form": "number",
            **words,
            **ranks,
            "key": "48 / N",
            "slips": [slip],
        },
        {
            "id": "own-order",
            **head,
            "kind": "explain",
            "form": "order",
            **words,
            "steps": steps,
            "inversions": [swapped],
        },
        {"id": "own-match", **head, "kind": "recall", "form": "match", **words, "pairs": rows, "answers": answers},
        {"id": "own-fault", **head, "kind": "diagnose", "form": "fault", **words, "code": code, "lines": lines},
    )
