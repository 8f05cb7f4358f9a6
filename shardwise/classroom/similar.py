"""How alike the code of a class is, in pairs: something to look at, never a finding about anybody.

Code is compared by what it does in order, not by how it looks: comments, docstrings and layout are dropped, own names
are numbered in the order in which they come. What everybody was given is taken out first. Where a task is small, honest
solutions are alike; so the class's own middle value always stands beside a pair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

Line = tuple[str, ...]
LEAST = 30
"""Tokens of a student's own below which nothing can be said."""
ALIKE = 0.9
"""The share from which a pair is shown."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two students, and the share of tokens that stand in both in the same order: 0 to 1."""

    first: str
    second: str
    share: float


@dataclass(frozen=True, kw_only=True)
class Likeness:
    """`pairs`, the most alike first; `middle`, the median of all pairs (None where there is none); `solution`: the
    share that each student's code has with the published one; `short`: who has written too little to compare.
    """

    pairs: tuple[Pair, ...]
    middle: float | None
    solution: Mapping[str, float]
    short: tuple[str, ...]


def likeness(sources: Mapping[str, str], *, template: str, solution: str, alike: float = ALIKE) -> Likeness:
    """The code of each student compared with every other's and with the published solution, without the template."""
    from rapidfuzz.distance.Indel import normalized_similarity

    given = frozenset(normal(template))
    own = {student: _own(source, given) for student, source in sources.items()}
    known = {student: tokens for student, tokens in own.items() if len(tokens) >= LEAST}
    published = _own(solution, given)
    every = [
        Pair(first=one, second=other, share=normalized_similarity(known[one], known[other]))
        for one, other in combinations(sorted(known), 2)
    ]
    shown = sorted(
        (each for each in every if each.share >= alike), key=lambda each: (-each.share, each.first, each.second)
    )
    return Likeness(
        pairs=tuple(shown),
        middle=median(each.share for each in every) if every else None,
        solution={student: normalized_similarity(tokens, published) for student, tokens in known.items()},
        short=tuple(sorted(set(own) - set(known))),
    )


def normal(source: str) -> list[Line]:
    """The source as lines of tokens, without what is only for people. Names of the source's own are numbered by line:
    the same line reads the same in whatever program it stands.
    """
    from pygments.lexers import PythonLexer  # type: ignore[import-untyped]
    from pygments.token import Comment, Name, String, Text, Token, Whitespace  # type: ignore[import-untyped]

    lines: list[Line] = []
    line: list[str] = []
    numbers: dict[str, str] = {}
    for kind, value in PythonLexer(ensurenl=True).get_tokens(source):
        if kind in Text or kind in Whitespace:
            if "\n" in value and line:
                lines.append(tuple(line))
                line, numbers = [], {}
        elif kind in Comment or kind in String.Doc:
            continue
        elif kind in String:
            if line[-1:] != ["text"]:
                line.append("text")
        elif kind in Name and kind not in Name.Builtin and line[-1:] != ["."]:
            line.append(numbers.setdefault(value, f"name{len(numbers)}"))
        elif kind in Token:
            line.append(value)
    return [*lines, tuple(line)] if line else lines


def _own(source: str, given: frozenset[Line]) -> Sequence[str]:
    """The tokens of the lines that were not given out, one after the other."""
    return [token for line in normal(source) if line not in given for token in line]
