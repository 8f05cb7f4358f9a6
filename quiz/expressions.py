"""Arithmetic that a bank may hold: numbers and names, and nothing that could do anything else.

The text is parsed by Python and walked here node by node; it is never handed to `eval`.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping

Number = int | float
Value = int | float | str

_BINARY: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Value, Value], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_FUNCTIONS: dict[str, Callable[..., Number]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "round": round,
    "ceil": math.ceil,
    "floor": math.floor,
    "sqrt": math.sqrt,
}


class ExpressionError(ValueError):
    """Said to the author of an item: what in the expression is not allowed or not known."""


def evaluate(expression: str | Number, names: Mapping[str, Value]) -> Value:
    """The value of `expression` where each name has its value in `names`.

    A lone name may stand for a word; everything else is a number. Raises ExpressionError.
    """
    if isinstance(expression, int | float):
        return expression
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except SyntaxError as error:
        raise ExpressionError(f"'{expression}' is not an expression: {error.msg}") from None
    try:
        return _value(tree.body, names)
    except (ZeroDivisionError, OverflowError) as error:
        raise ExpressionError(f"'{expression}' with {dict(names)}: {error}") from None


def names_in(expression: str | Number) -> frozenset[str]:
    """The parameters that an expression reads."""
    if isinstance(expression, int | float):
        return frozenset()
    nodes = ast.walk(ast.parse(expression.strip(), mode="eval"))
    return frozenset(node.id for node in nodes if isinstance(node, ast.Name)) - frozenset(_FUNCTIONS)


def _value(node: ast.expr, names: Mapping[str, Value]) -> Value:
    match node:
        case ast.Constant(value=bool()) | ast.Constant(value=None):
            raise ExpressionError(f"'{ast.unparse(node)}' is not a number")
        case ast.Constant(value=int() | float() | str() as constant):
            return constant
        case ast.Name(id=name):
            if name not in names:
                raise ExpressionError(f"'{name}' is not a parameter of this item; it has {sorted(names)}")
            return names[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(operand, names)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            base, exponent = _number(left, names), _number(right, names)
            if abs(exponent) > 64 or abs(base) > 1e6:
                raise ExpressionError(f"'{ast.unparse(node)}' is too large a power")
            return float(base**exponent) if exponent < 0 else base**exponent
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_number(left, names), _number(right, names))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
            return int(_COMPARISONS[type(op)](_value(left, names), _value(right, names)))
        case ast.IfExp(test=test, body=body, orelse=other):
            return _value(body if _value(test, names) else other, names)
        case ast.Call(func=ast.Name(id=function), args=arguments, keywords=[]) if function in _FUNCTIONS:
            return _FUNCTIONS[function](*(_number(argument, names) for argument in arguments))
    raise ExpressionError(f"'{ast.unparse(node)}' is not arithmetic that an item may use")


def _number(node: ast.expr, names: Mapping[str, Value]) -> Number:
    value = _value(node, names)
    if isinstance(value, str):
        raise ExpressionError(f"'{ast.unparse(node)}' is the word '{value}', not a number")
    return value
