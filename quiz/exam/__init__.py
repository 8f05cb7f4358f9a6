"""The exam: a blueprint, a paper drawn by a secret, a sitting, a result. Nothing here stores, asks a clock or a
network.

    rules = exam_policy(path)                                   # one file: time, marks, attempts, banks, practical part
    plan = blueprint(rules.blueprint)
    held = banks(rules.banks, public_bank=rules.public_bank)
    paper = draw(plan, held, secret=..., attempt=ID, practical=rules.practical, avoid=earlier.items)
    keep(paper.as_json(), paper.contents)                       # contents once for all papers, by their hash
    sitting = begin(paper, now=..., minutes=rules.minutes, extra=0.25)
    sitting.question(1, "ar")                                   # holds no key, no item's id and no seed
    sitting = sitting.answer(1, "2", now=...)                   # keep, then acknowledge
    sitting = sitting.hand_in(now=...)
    result(sitting, policy=rules, language="ar", now=..., tasks=[TaskResult(...)])
"""

from quiz.exam.banks import Banks, Content, Held, banks, digest_of, item_of
from quiz.exam.blueprint import Blueprint, Line, blueprint, shortages
from quiz.exam.difficulty import BANDS, Band, Measured, band, expected
from quiz.exam.drawing import draw
from quiz.exam.paper import Asked, Paper, Task
from quiz.exam.policy import ExamPolicy, PracticalPolicy, exam_policy
from quiz.exam.result import ExamResult, Explained, ObjectiveShare, Part, TaskResult, result
from quiz.exam.session import ExamQuestion, ExamSession, Given, Offered, begin

__all__ = [
    "BANDS",
    "Asked",
    "Band",
    "Banks",
    "Blueprint",
    "Content",
    "ExamPolicy",
    "ExamQuestion",
    "ExamResult",
    "ExamSession",
    "Explained",
    "Given",
    "Held",
    "Line",
    "Measured",
    "ObjectiveShare",
    "Offered",
    "Paper",
    "Part",
    "PracticalPolicy",
    "Task",
    "TaskResult",
    "band",
    "banks",
    "begin",
    "blueprint",
    "digest_of",
    "draw",
    "exam_policy",
    "expected",
    "item_of",
    "result",
    "shortages",
]
