"""Expressions over the columns of one row: what a condition or a derived column means, null by null.

The language is the part of SQL that Spark and Polars share. Where they differ it follows Spark: `/` divides exactly, a division by
zero is null, `%` has the sign of what is divided, NaN equals NaN and lies above every number. What cannot be computed (text plus
a number, a whole number that leaves int64) is null too: an expression never stops a pipeline.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from eventide.errors import DefinitionError
from eventide.model.grammar import Unreadable, parse
from eventide.model.operator import OPERATORS, VALUES, truth


@dataclass(frozen=True)
class Literal:
    """A value as written; 1, 1.0 and TRUE are three, though Python holds them for equal."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and (type(self.value), self.value) == (type(other.value), other.value)

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))

    def __str__(self) -> str:
        if self.value is None or isinstance(self.value, bool):
            return "NULL" if self.value is None else str(self.value).upper()
        return "'" + self.value.replace("'", "''") + "'" if isinstance(self.value, str) else repr(self.value)


@dataclass(frozen=True)
class Column:
    """The value of a column."""

    name: str

    def __str__(self) -> str:
        return '"' + self.name.replace('"', '""') + '"'


@dataclass(frozen=True)
class Call:
    """An operator or a function over other expressions; `CASE` takes (condition, value) pairs and, last, what else."""

    operator: str
    arguments: tuple[Node, ...]

    def __str__(self) -> str:
        said = [str(argument) for argument in self.arguments]
        if self.operator == "CASE":
            branches = [f"WHEN {a} THEN {b}" for a, b in zip(said[:-1:2], said[1::2], strict=True)]
            return f"CASE {' '.join(branches)} ELSE {said[-1]} END"
        if self.operator in ("IS NULL", "NOT"):
            return f"(NOT {said[0]})" if self.operator == "NOT" else f"({said[0]} IS NULL)"
        if self.operator == "IN":
            return f"({said[0]} IN ({', '.join(said[1:])}))"
        if self.operator[0].isalpha() and self.operator not in ("AND", "OR"):
            return f"{self.operator}({', '.join(said)})"
        return f"({f' {self.operator} '.join(said)})"


Node = Literal | Column | Call


class Expression:
    """An expression put together in Python, instead of written as text.

    >>> str((col("total") / col("n") > 2.5) & ~col("bank").is_null())
    '((("total" / "n") > 2.5) AND (NOT ("bank" IS NULL)))'
    """

    __hash__ = None  # type: ignore[assignment]  # an == that makes an expression cannot tell two of them apart

    def __init__(self, node: Node) -> None:
        self.node = node

    def __str__(self) -> str:
        return str(self.node)

    def __bool__(self) -> bool:
        raise DefinitionError(f"{self} is true for some rows only. Join conditions with & and |, turn one round with ~.")

    def is_null(self) -> Expression:
        """Whether there is no value."""
        return _call("IS NULL", self)

    def __invert__(self) -> Expression:
        return _call("NOT", self)

    def __neg__(self) -> Expression:
        return _call("-", lit(0), self)

    def __and__(self, other: Any) -> Expression:
        return _call("AND", self, other)

    def __or__(self, other: Any) -> Expression:
        return _call("OR", self, other)

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return _call("=", self, other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return _call("<>", self, other)

    def __lt__(self, other: Any) -> Expression:
        return _call("<", self, other)

    def __le__(self, other: Any) -> Expression:
        return _call("<=", self, other)

    def __gt__(self, other: Any) -> Expression:
        return _call(">", self, other)

    def __ge__(self, other: Any) -> Expression:
        return _call(">=", self, other)

    def __add__(self, other: Any) -> Expression:
        return _call("+", self, other)

    def __sub__(self, other: Any) -> Expression:
        return _call("-", self, other)

    def __mul__(self, other: Any) -> Expression:
        return _call("*", self, other)

    def __truediv__(self, other: Any) -> Expression:
        return _call("/", self, other)

    def __mod__(self, other: Any) -> Expression:
        return _call("%", self, other)


def col(name: str) -> Expression:
    """A column of the row, to compute with: `col("total") > 100`."""
    return Expression(Column(name))


def lit(value: Any) -> Expression:
    """A value, to compute with."""
    return Expression(Literal(value))


def _call(operator: str, *arguments: Any) -> Expression:
    return Expression(Call(operator, tuple((a if isinstance(a, Expression) else lit(a)).node for a in arguments)))


@functools.lru_cache(maxsize=1_000)
def _read(text: str) -> Node:
    return parse(text, Literal, Column, Call)


def expression(given: str | Expression | Node, what: str = "an expression") -> Node:
    """What a user wrote, as text or in Python, as one tree.

    >>> str(expression("2 * n >= 4 or bank is not null"))
    '(((2 * "n") >= 4) OR (NOT ("bank" IS NULL)))'
    """
    node = _as_tree(given, what)
    _refuse_large(node, what)
    return node


def _refuse_large(node: Node, what: str) -> None:
    """Refuse a number that no whole-number column can hold."""
    value = evaluate(node, {}) if not columns_of(node) else None
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise DefinitionError(
            f"{what}: the number {value} is in no whole-number column: it leaves int64. Write it as a float, {_as_float(value)}."
        )
    if isinstance(node, Call) and columns_of(node):
        for argument in node.arguments:
            _refuse_large(argument, what)


def _as_float(value: int) -> str:
    try:
        return repr(float(value))
    except OverflowError:
        return "1e308 at most"


def _as_tree(given: str | Expression | Node, what: str) -> Node:
    if isinstance(given, Expression):
        return given.node
    if isinstance(given, Literal | Column | Call):
        return given
    if not isinstance(given, str) or not given.strip():
        raise DefinitionError(
            f'{what} is {given!r}; give SQL such as "total > 100", or an expression such as col("total") > 100.'
        )
    try:
        return _read(given)
    except Unreadable as error:
        raise DefinitionError(f"{what} is {given!r}: {error}") from None


def condition(given: str | Expression | Node, what: str) -> Node:
    """The same where it must be true or false; what can be neither for any row is refused.

    >>> condition("n + 1", "where(…)")
    Traceback (most recent call last):
        ...
    eventide.errors.DefinitionError: where(…) is ("n" + 1), which is never true or false. Write a comparison, such as ("n" + 1) > 0.
    """
    node = expression(given, what)
    wrong = _no_condition(node)
    if wrong is not None:
        raise DefinitionError(f"{what} is {wrong}, which is never true or false. Write a comparison, such as {wrong} > 0.")
    return node


def _no_condition(node: Node) -> Node | None:
    """The first part that is asked whether it holds, and can be nothing but a number or a text."""
    if isinstance(node, Literal):
        return None if node.value is None or isinstance(node.value, bool) else node
    if isinstance(node, Call) and node.operator in ("AND", "OR", "NOT"):
        return next((wrong for argument in node.arguments if (wrong := _no_condition(argument)) is not None), None)
    return node if isinstance(node, Call) and node.operator in VALUES else None


def columns_of(node: Node) -> frozenset[str]:
    """The columns that an expression reads.

    >>> sorted(columns_of(expression("total / n")))
    ['n', 'total']
    """
    if isinstance(node, Column):
        return frozenset({node.name})
    return frozenset().union(*(columns_of(a) for a in node.arguments)) if isinstance(node, Call) else frozenset()


def known(node: Node, columns: Iterable[str], what: str) -> None:
    """Refuse an expression that reads a column which is not there."""
    there = set(columns)
    for name in sorted(columns_of(node) - there):
        raise DefinitionError(f"{what}: there is no column {name!r}. The columns are {', '.join(sorted(there))}.")


def evaluate(node: Node, row: Mapping[str, Any]) -> Any:
    """The value of an expression for one row.

    >>> evaluate(expression("total / n"), {"total": 7, "n": 2}), evaluate(expression("total / n"), {"total": 7, "n": 0})
    (3.5, None)
    """
    if isinstance(node, Literal):
        return node.value
    if isinstance(node, Column):
        return row[node.name]
    return OPERATORS[node.operator](*(evaluate(argument, row) for argument in node.arguments))


def holds(node: Node, row: Mapping[str, Any]) -> bool:
    """Whether a condition holds; null is no.

    >>> holds(expression("n > 3"), {"n": 4}), holds(expression("n > 3"), {"n": None})
    (True, False)
    """
    return truth(evaluate(node, row)) is True
