"""The Countdown game as a task for a model: make a target from three numbers, each used once, with + - * / ().

A reward is exact: the answer is an expression, and an expression can be computed. It comes from a model, so it may be
anything: `value` reads it with a grammar of its own and never runs it.

    prompt       3 5 2=13<think>
    completion   5*2=10,10+3=13</think><answer>(5*2)+3</answer>

Each tag is one token, as the special tokens of a tokenizer are; every other token is a byte.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import permutations

NUMBERS, LARGEST, HIGHEST = 3, 6, 99
"""How many numbers a puzzle has, the largest of them, and the highest target."""
END = 0
TAGS = {"<think>": 1, "</think>": 2, "<answer>": 3, "</answer>": 4}
PROMPT = 2 * NUMBERS + len("=99") - 1 + len(["<think>"])
"""Tokens of a prompt."""
COMPLETION = 26
"""Tokens of the longest completion: its end counts."""


# --- reading an expression that anyone may have written

LONGEST = 64
"""Characters of an expression; so its brackets are never too deep, nor its numbers too large."""
_TOKEN = re.compile(r"[0-9]+|[-+*/()]")
_COMPUTE: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
}


class NoExpression(ValueError):
    """What was written is not an expression, or has no value."""


def value(written: str) -> tuple[Fraction, list[int]]:
    """The exact value of an expression, and the numbers in it from left to right.

        sum      = product { ("+" | "-") product }
        product  = factor { ("*" | "/") factor }
        factor   = number | "(" sum ")"

    Raises NoExpression for anything else, for a division by zero, and for more than `LONGEST` characters.
    """
    if len(written) > LONGEST or not re.fullmatch(r"[-+*/()0-9 ]*", written, re.ASCII):
        raise NoExpression(written)
    tokens, numbers = [*_TOKEN.findall(written), ""], list[int]()

    def chain(operators: str, part: Callable[[], Fraction]) -> Fraction:
        left = part()
        while tokens[0] and tokens[0] in operators:
            left = _COMPUTE[tokens.pop(0)](left, part())
        return left

    def sum_() -> Fraction:
        return chain("+-", product)

    def product() -> Fraction:
        return chain("*/", factor)

    def factor() -> Fraction:
        token = tokens.pop(0)
        if token == "(":
            inner = sum_()
            if tokens.pop(0) != ")":
                raise NoExpression(written)
            return inner
        if not token.isdecimal():
            raise NoExpression(written)
        numbers.append(int(token))
        return Fraction(int(token))

    try:
        found = sum_()
    except (ZeroDivisionError, IndexError) as error:
        raise NoExpression(written) from error
    if tokens != [""]:
        raise NoExpression(written)
    return found, numbers


# --- puzzles


@dataclass(frozen=True, slots=True)
class Puzzle:
    numbers: tuple[int, ...]
    target: int

    @property
    def prompt(self) -> str:
        return f"{' '.join(map(str, self.numbers))}={self.target:02d}<think>"


@cache
def ways(numbers: tuple[int, ...]) -> tuple[tuple[int, str], ...]:
    """Every way to compute a target from three numbers in two operations, through whole numbers above zero: the target,
    and the completion that says so.
    """
    found = dict[str, int]()
    for x, y, z in permutations(numbers):
        for first in "+-*/":
            made = _whole(x, first, y)
            if made is None:
                continue
            for second in "+-*/":
                for front in (True, False):
                    target = _whole(made, second, z) if front else _whole(z, second, made)
                    if target is None or target > HIGHEST:
                        continue
                    step = f"{made}{second}{z}" if front else f"{z}{second}{made}"
                    inner = f"({x}{first}{y})"
                    answer = f"{inner}{second}{z}" if front else f"{z}{second}{inner}"
                    said = f"{x}{first}{y}={made},{step}={target}</think><answer>{answer}</answer>"
                    found[said] = target
    return tuple((target, said) for said, target in found.items())


def _whole(a: int, operator: str, b: int) -> int | None:
    result = _COMPUTE[operator](Fraction(a), Fraction(b))
    return int(result) if result > 0 and result.denominator == 1 else None


def held_out(puzzle: Puzzle) -> bool:
    """Whether the puzzle is kept for measuring: one in eight, whatever the order of its numbers."""
    return random.Random(f"{sorted(puzzle.numbers)} {puzzle.target}").random() < 1 / 8


def drawn(seed: str, *, apart: bool = False) -> Iterator[tuple[Puzzle, str]]:
    """Puzzles without end, each with one way to solve it; with `apart` those that are held out, else the others."""
    chance = random.Random(seed)
    while True:
        numbers = tuple(chance.randint(1, LARGEST) for _ in range(NUMBERS))
        target, said = chance.choice(ways(numbers))
        puzzle = Puzzle(numbers, target)
        if held_out(puzzle) == apart:
            yield puzzle, said


# --- rewards

_FORM = re.compile(r"[^<]*</think><answer>([^<]*)</answer>")
"""What must follow a prompt, which ends in <think>."""


def format_reward(completion: str) -> float:
    """1 for a thought and an answer, each between its tags, and nothing else."""
    return float(_FORM.fullmatch(completion) is not None)


def equation_reward(completion: str, puzzle: Puzzle) -> float:
    """1 for an answer that uses each number once and makes the target. What was thought does not count."""
    found = _FORM.fullmatch(completion)
    if found is None:
        return 0.0
    try:
        made, used = value(found[1])
    except NoExpression:
        return 0.0
    return float(made == puzzle.target and sorted(used) == sorted(puzzle.numbers))


# --- tokens

_NAMES = {code: tag for tag, code in TAGS.items()}
_PARTS = re.compile("|".join(map(re.escape, TAGS)) + "|.", re.DOTALL)


def encode(text: str) -> list[int]:
    """Tokens of ASCII text: one for a tag, one for any other character."""
    return [TAGS.get(part) or ord(part) for part in _PARTS.findall(text)]


def decode(tokens: Sequence[int]) -> str:
    """The text up to its end. A byte that is no ASCII is a replacement character."""
    ended = list(tokens).index(END) if END in tokens else len(tokens)
    return "".join(_NAMES.get(token) or (chr(token) if token < 128 else "\ufffd") for token in tokens[:ended])
