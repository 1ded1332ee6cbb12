"""Expressions of a sweep file, such as `speculative_num_steps + 1`: computed from its parse tree, never executed."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from sitrepd.errors import InvalidFact

_MOST_CHARACTERS = 500
_MOST_POWER, _MOST_BITS = 64, 1024
_MOST_TEXT = 1000


class Absent:
    """What a flag that is left out has as its value; what is computed from it is absent too."""

    def __repr__(self) -> str:
        return "absent"

    def __bool__(self) -> bool:
        return False


ABSENT = Absent()


def _power(base: Any, exponent: Any) -> Any:
    if abs(exponent) > _MOST_POWER:
        raise ValueError(f"an exponent over {_MOST_POWER}")
    return base**exponent


def _of_numbers(work: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Text and lists are not repeated, filled in or taken apart, and no number grows without an end."""

    def checked(one: Any, other: Any) -> Any:
        if not isinstance(one, int | float) or not isinstance(other, int | float):
            raise ValueError("only numbers can be reckoned with")
        found = work(one, other)
        if isinstance(found, complex) or (isinstance(found, int) and found.bit_length() > _MOST_BITS):
            raise ValueError("no number that a setting can have")
        return found

    return checked


def _rounded(value: Any, digits: Any = None) -> Any:
    if digits is not None and abs(digits) > _MOST_POWER:
        raise ValueError(f"more than {_MOST_POWER} digits")
    return round(value, digits)


_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: _of_numbers(operator.sub), ast.Mult: _of_numbers(operator.mul),
    ast.Div: _of_numbers(operator.truediv), ast.FloorDiv: _of_numbers(operator.floordiv),
    ast.Mod: _of_numbers(operator.mod), ast.Pow: _of_numbers(_power),
}  # fmt: skip
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {ast.USub: operator.neg, ast.UAdd: operator.pos}
_ORDERED: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.In: lambda one, other: one in other, ast.NotIn: lambda one, other: one not in other,
}  # fmt: skip
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {"min": min, "max": max, "abs": abs, "int": int, "round": _rounded}


class Expression:
    """One expression, read once; `names` are those that it uses."""

    def __init__(self, text: str, where: str) -> None:
        self.text, self.where = text, where
        if len(text) > _MOST_CHARACTERS:
            raise self.refused(f"it is longer than {_MOST_CHARACTERS} characters")
        try:
            self._body = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise self.refused(f"it cannot be read ({getattr(error, 'msg', None) or error})") from None
        self.names = frozenset(self._checked())

    def refused(self, why: str) -> InvalidFact:
        return InvalidFact(f"{self.where}: {self.text!r}: {why}.")

    def value(self, known: Mapping[str, Any]) -> Any:
        """With the values of the names, of which some may be ABSENT."""
        try:
            found = self._of(self._body, known)
        except (ArithmeticError, TypeError, ValueError) as error:
            raise self.refused(f"it cannot be computed ({error})") from None
        if isinstance(found, float) and not math.isfinite(found):
            raise self.refused("it is no finite number")
        if isinstance(found, str) and len(found) > _MOST_TEXT:
            raise self.refused(f"it is longer than {_MOST_TEXT} characters")
        return found

    def _checked(self) -> set[str]:
        """The names in it; raises InvalidFact for anything that is no arithmetic."""
        called = {id(node.func) for node in ast.walk(self._body) if isinstance(node, ast.Call)}
        found = set()
        for node in ast.walk(self._body):
            self._check(node)
            if isinstance(node, ast.Name) and id(node) not in called and node.id != "absent":
                found.add(node.id)
        return found

    def _check(self, node: ast.AST) -> None:
        parts = (
            ast.Name, ast.Load, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.And, ast.Or, ast.Not, ast.IfExp, ast.Compare,
            ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.Tuple, ast.List, *_BINARY, *_UNARY, *_ORDERED,
        )  # fmt: skip
        if isinstance(node, ast.Constant):
            if not isinstance(node.value, bool | int | float | str) and node.value is not None:
                raise self.refused(f"{node.value!r} has no place in it")
        elif isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Name) or node.func.id not in _FUNCTIONS or node.keywords:
                raise self.refused(f"of functions there are {', '.join(_FUNCTIONS)}")
        elif not isinstance(node, parts):
            raise self.refused(
                f"{type(node).__name__} has no place in it: names, numbers, text, arithmetic, comparisons, "
                "and, or, not, if and else"
            )

    def _of(self, node: ast.expr, known: Mapping[str, Any]) -> Any:
        match node:
            case ast.Constant(value=value):
                return ABSENT if value is None else value
            case ast.Name(id=name):
                return ABSENT if name == "absent" else known[name]
            case ast.IfExp():
                return self._of(node.body if self._of(node.test, known) else node.orelse, known)
            case ast.BoolOp():
                return self._logical(node, known)
            case ast.Compare():
                return self._compared(node, known)
            case ast.UnaryOp(op=ast.Not()):
                return not self._of(node.operand, known)
            case ast.Tuple() | ast.List():
                return [self._of(one, known) for one in node.elts]
        return self._computed(node, known)

    def _computed(self, node: ast.expr, known: Mapping[str, Any]) -> Any:
        parts: tuple[ast.expr, ...]
        work: Callable[..., Any]
        if isinstance(node, ast.BinOp):
            parts, work = (node.left, node.right), _BINARY[type(node.op)]
        elif isinstance(node, ast.UnaryOp):
            parts, work = (node.operand,), _UNARY[type(node.op)]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            parts, work = tuple(node.args), _FUNCTIONS[node.func.id]
        else:
            raise self.refused(f"{type(node).__name__} has no place in it")
        values = [self._of(one, known) for one in parts]
        return ABSENT if any(value is ABSENT for value in values) else work(*values)

    def _logical(self, node: ast.BoolOp, known: Mapping[str, Any]) -> Any:
        value: Any = None
        for one in node.values:
            value = self._of(one, known)
            if bool(value) != isinstance(node.op, ast.And):
                return value
        return value

    def _compared(self, node: ast.Compare, known: Mapping[str, Any]) -> Any:
        """Of what is absent only whether it is can be asked; anything else about it is absent, and so not true."""
        left = self._of(node.left, known)
        for op, one in zip(node.ops, node.comparators, strict=True):
            right = self._of(one, known)
            if isinstance(op, ast.Eq | ast.Is):
                holds: Any = left is right if ABSENT in (left, right) else left == right
            elif isinstance(op, ast.NotEq | ast.IsNot):
                holds = left is not right if ABSENT in (left, right) else left != right
            elif left is ABSENT or right is ABSENT:
                return ABSENT
            else:
                holds = _ORDERED[type(op)](left, right)
            if not holds:
                return False
            left = right
        return True
