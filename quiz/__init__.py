"""Practice questions: seeded variants, grading that explains, and the quiz of each unit."""

from quiz.grading import Graded, grade
from quiz.items import Item, item, items, misconceptions, objectives, units
from quiz.policy import Policy, policy
from quiz.session import Answered, Result, Session
from quiz.variants import Variant, seed_of, variant

__all__ = [
    "Answered",
    "Graded",
    "Item",
    "Policy",
    "Result",
    "Session",
    "Variant",
    "grade",
    "item",
    "items",
    "misconceptions",
    "objectives",
    "policy",
    "seed_of",
    "units",
    "variant",
]
