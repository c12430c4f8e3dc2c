# SPDX-License-Identifier: BSD-3-Clause
"""Evaluate constraint expressions: comparisons and arithmetic over parameters and knobs (`knob.NAME`), nothing else.

Python's grammar is used for parsing only; nothing is passed to `eval`.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, values: item in values,
    ast.NotIn: lambda item, values: item not in values,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {ast.USub: operator.neg, ast.Not: operator.not_}
_MAX_LENGTH = 500


@dataclass(frozen=True)
class Expression:
    """A parsed expression; `names` are the parameters and knobs that it reads."""

    text: str
    tree: ast.expr
    names: frozenset[str]

    def __call__(self, values: Mapping[str, Any]) -> Any:
        """Return the value for given parameters and knobs.

        Raises:
            ValueError: values that cannot be compared or computed with.
        """
        try:
            return _evaluate(self.tree, values)
        except (TypeError, ZeroDivisionError, OverflowError) as error:
            raise ValueError(f"'{self.text}' cannot be computed: {error}") from error


def parse(text: str) -> Expression:
    """Parse an expression.

    Raises:
        ValueError: not an expression, or something other than names, numbers, strings, lists, + - * / // %,
            comparisons, `in`, `and`, `or`, `not`.
    """
    if len(text) > _MAX_LENGTH:
        raise ValueError(f"the expression is longer than {_MAX_LENGTH} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"'{text}' is not an expression") from error
    names: set[str] = set()
    _check(tree, names)
    return Expression(text, tree, frozenset(names))


def _check(node: ast.expr, names: set[str]) -> None:
    if name := _name(node):
        names.add(name)
        return
    if not _allowed(node):
        raise ValueError(
            f"'{ast.unparse(node)}' is not allowed in a constraint; allowed: parameters, knob.NAME, numbers, 'text', "
            "+ - * / // %, comparisons, in [..], and, or, not"
        )
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            _check(child, names)


def _name(node: ast.expr) -> str | None:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id="knob")):
            return ast.unparse(node)
    return None


def _allowed(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=value):
            return isinstance(value, bool | int | float | str)
        case ast.BinOp(op=op):
            return type(op) in _BINARY
        case ast.UnaryOp(op=op):
            return type(op) in _UNARY
        case ast.Compare(ops=ops):
            return all(type(op) in _COMPARE for op in ops)
        case ast.BoolOp() | ast.List() | ast.Tuple():
            return True
    return False


def _evaluate(node: ast.expr, values: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return values[name]
        case ast.Attribute():
            return values[ast.unparse(node)]
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_evaluate(item, values) for item in items]
        case ast.UnaryOp(op=op, operand=operand):
            return _UNARY[type(op)](_evaluate(operand, values))
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_number(_evaluate(left, values)), _number(_evaluate(right, values)))
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_evaluate(part, values) for part in parts)
        case ast.BoolOp(values=parts):
            return any(_evaluate(part, values) for part in parts)
        case ast.Compare(left=left, ops=ops, comparators=rights):
            return _compare(_evaluate(left, values), ops, [_evaluate(right, values) for right in rights])
    raise AssertionError(f"BUG: {ast.dump(node)} passed the check")


def _number(value: Any) -> int | float:
    """Return an operand of arithmetic: a text or list times a number could fill the memory."""
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    return value


def _compare(left: Any, ops: list[ast.cmpop], rights: list[Any]) -> bool:
    for op, right in zip(ops, rights, strict=True):
        if not _COMPARE[type(op)](left, right):
            return False
        left = right
    return True
