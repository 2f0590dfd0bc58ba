"""Expressions of the model as Polars expressions, with the same answer for every row: null by null, at zero and at the ends of int64.

A column has one type, known before the first row, so each operator is put together for the types that it meets. Where Polars does not
compute as the model does (decimals, nested values) the model computes, value by value. Where a CASE gives whole numbers in one branch
and floats in another, all of them are floats; where it gives texts and numbers there is no such column, and it is refused. A decimal
has the digits after its point that its operator can need; one that then has no room in 38 digits is null.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import numpy as np
import polars as pl

from eventide.errors import DefinitionError
from eventide.model.expression import Call, Literal, Node, columns_of, evaluate
from eventide.model.expression import expression as read
from eventide.model.operator import OPERATORS

_LEAST, _MOST = -(2**63), 2**63 - 1
_DIGITS = 38
_EXACT = Context(prec=200)


@dataclass(frozen=True)
class Value:
    """A value for each row of a frame, and its type."""

    value: pl.Expr
    kind: pl.DataType

    @property
    def is_number(self) -> bool:
        """Whether it can be computed with."""
        return self.kind.is_numeric()


Values = Mapping[str, Value]
"""What an expression can name."""


def columns(schema: Mapping[str, pl.DataType]) -> dict[str, Value]:
    """The columns of a frame, each under its own name."""
    return {name: Value(pl.col(name), kind) for name, kind in schema.items()}


def compiled(node: Node, known: Values) -> Value:
    """An expression over known values.

    >>> frame = pl.DataFrame({"total": [7, 7, None], "n": [2, 0, 1]})
    >>> mean = compiled(read("total / n"), columns(frame.schema))
    >>> frame.select(mean.value.alias("mean"))["mean"].to_list()
    [3.5, None, None]
    """
    if not columns_of(node):
        return _constant(evaluate(node, {}))
    if isinstance(node, Call):
        return _MAKERS[node.operator](*(compiled(argument, known) for argument in node.arguments))
    assert not isinstance(node, Literal), "a literal reads no column"
    return known[node.name]


def condition(node: Node, known: Values) -> pl.Expr:
    """For which rows an expression holds; null is no."""
    return _truth(compiled(node, known)).fill_null(False)


def holds(given: str | Node, frame: pl.DataFrame) -> pl.Series:
    """For which rows of a frame a condition holds; null is no.

    >>> holds("total > 10", pl.DataFrame({"total": [5, 20, None]})).to_list()
    [False, True, False]
    """
    return frame.with_columns(condition(read(given), columns(frame.schema)).alias("__holds"))["__holds"]


def _constant(value: Any) -> Value:
    if value is None:
        return _nothing(pl.Null())
    if isinstance(value, int) and not isinstance(value, bool) and not _LEAST <= value <= _MOST:
        raise DefinitionError(
            f"the number {value} is in no whole-number column: it leaves int64. Write it as a float, {float(value)!r}."
        )
    literal = pl.lit(value, dtype=pl.Int64) if isinstance(value, int) and not isinstance(value, bool) else pl.lit(value)
    return Value(literal, pl.select(literal).to_series().dtype)


def _nothing(kind: pl.DataType) -> Value:
    return Value(pl.lit(None, dtype=kind), kind)


def _by_the_model(operator: str, kind: pl.DataType, *values: Value) -> Value:
    """Where Polars has no operator that means the same."""

    def compute(given: pl.Series) -> pl.Series:
        answers = [OPERATORS[operator](*row.values()) for row in given.to_list()]
        return pl.Series(given.name, [_held(answer, kind) for answer in answers], dtype=kind)

    rows = pl.struct([v.value.alias(f"v{at}") for at, v in enumerate(values)])
    return Value(rows.map_batches(compute, return_dtype=kind, is_elementwise=True), kind)


def _held(answer: Any, kind: pl.DataType) -> Any:
    """An answer that a column of its type can hold, with as many digits behind the point as it has; or null."""
    if answer is None or not isinstance(kind, pl.Decimal):
        return answer
    counted = answer.scaleb(kind.scale, _EXACT)
    fits = counted == counted.to_integral_value() and abs(counted) < 10**_DIGITS
    return Decimal(int(counted)).scaleb(-kind.scale, _EXACT) if fits else None


# --- truth


def _truth(one: Value) -> pl.Expr:
    """A number is true unless it is zero; what is neither a number nor a truth is unknown."""
    if one.kind == pl.Boolean():
        return one.value
    return one.value != 0 if one.is_number else pl.lit(None, dtype=pl.Boolean)


def _all_of(*values: Value) -> Value:
    return Value(functools.reduce(lambda a, b: a & b, map(_truth, values)), pl.Boolean())


def _any_of(*values: Value) -> Value:
    return Value(functools.reduce(lambda a, b: a | b, map(_truth, values)), pl.Boolean())


# --- comparison

_Compare = Callable[[pl.Expr, pl.Expr], pl.Expr]


def _compared(operator: str, compare: _Compare) -> Callable[[Value, Value], Value]:
    def over(one: Value, other: Value) -> Value:
        if pl.Null() in (one.kind, other.kind) or not comparable(one.kind, other.kind):
            return _nothing(pl.Boolean())
        if one.kind == other.kind and not one.kind.is_nested():
            return Value(compare(one.value, other.value), pl.Boolean())
        if _fits(one.kind) and _fits(other.kind):
            return Value(_compared_numbers(one, other, compare), pl.Boolean())
        return _by_the_model(operator, pl.Boolean(), one, other)

    return over


def comparable(one: pl.DataType, other: pl.DataType) -> bool:
    """Whether values of two types compare: numbers do, and those that are of one type in Python; a null compares with nothing, but may stand anywhere.

    >>> comparable(pl.Int64(), pl.Float64()), comparable(pl.String(), pl.Int64()), comparable(pl.String(), pl.Null())
    (True, False, True)
    """
    return pl.Null() in (one, other) or (one.is_numeric() and other.is_numeric()) or one.base_type() == other.base_type()


def _fits(kind: pl.DataType) -> bool:
    """Whether int64 or a float holds every value of a type."""
    return kind.is_float() or kind in (pl.Int64(), pl.Int32(), pl.Int16(), pl.Int8(), pl.UInt32(), pl.UInt16(), pl.UInt8())


def _compared_numbers(one: Value, other: Value, compare: _Compare) -> pl.Expr:
    """Exactly, also where a float cannot say the whole number that it is compared with."""
    if one.kind.is_integer() == other.kind.is_integer():
        return compare(_widest(one), _widest(other))
    order = _order_beside(one.value, other.value) if one.kind.is_integer() else -_order_beside(other.value, one.value)
    return compare(order, pl.lit(0))


def _widest(one: Value) -> pl.Expr:
    return one.value.cast(pl.Float64 if one.kind.is_float() else pl.Int64)


def _order_beside(whole: pl.Expr, real: pl.Expr) -> pl.Expr:
    """-1, 0 or 1: a whole number below, at or above a float; NaN lies above every number."""
    whole, real = whole.cast(pl.Int64), real.cast(pl.Float64)
    below = real.floor()
    inside = (below >= float(_LEAST)) & (below < float(2**63))
    floor = pl.when(inside).then(below).cast(pl.Int64, strict=False)
    at = (whole > floor).cast(pl.Int8) - (whole < floor).cast(pl.Int8)
    beside = pl.when((at == 0) & (real > below)).then(pl.lit(-1, dtype=pl.Int8)).otherwise(at)
    outside = pl.when(real < 0).then(pl.lit(1, dtype=pl.Int8)).otherwise(pl.lit(-1, dtype=pl.Int8))
    return pl.when(whole.is_null() | real.is_null()).then(None).when(inside & real.is_not_nan()).then(beside).otherwise(outside)


_equal = _compared("=", lambda a, b: a == b)


# --- arithmetic


def _computed(operator: str, compute: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Callable[[Value, Value], Value]:
    def over(one: Value, other: Value) -> Value:
        if not (one.is_number and other.is_number):
            return _nothing(pl.Null())
        if one.kind.is_float() or other.kind.is_float():
            return Value(compute(one.value.cast(pl.Float64), other.value.cast(pl.Float64)), pl.Float64())
        if one.kind.is_decimal() or other.kind.is_decimal():
            return _by_the_model(operator, _decimal(operator, one.kind, other.kind), one, other)
        return _fitting(compute(one.value.cast(pl.Int128), other.value.cast(pl.Int128)))

    return over


def _fitting(whole: pl.Expr) -> Value:
    """Whole numbers that int64 can hold; the others are null."""
    return Value(whole.cast(pl.Int64, strict=False), pl.Int64())


def _scale(kind: pl.DataType) -> int:
    return kind.scale if isinstance(kind, pl.Decimal) else 0


def _decimal(operator: str, one: pl.DataType, other: pl.DataType) -> pl.Decimal:
    scale = _scale(one) + _scale(other) if operator == "*" else max(_scale(one), _scale(other))
    return pl.Decimal(_DIGITS, min(scale, _DIGITS))


def _divided(one: Value, other: Value) -> Value:
    if not (one.is_number and other.is_number):
        return _nothing(pl.Float64())
    if one.kind.is_decimal() or other.kind.is_decimal():  # a decimal as the nearest float, not as Polars cuts it
        return _by_the_model("/", pl.Float64(), one, other)
    # By one for each row, though it be the same: by a single value Polars multiplies with its inverse, which is another number (832 / 1000).
    what = one.value.cast(pl.Float64)
    by = what.pow(0) * other.value.cast(pl.Float64)
    return Value(pl.when(by != 0).then(what / by), pl.Float64())


def _remainder(one: pl.Expr, by: pl.Expr) -> pl.Expr:
    """Of whole numbers, with the sign of what is divided."""
    left = one.abs() % pl.when(by != 0).then(by.abs())
    return pl.when(one < 0).then(0 - left).otherwise(left)


def _remainder_of_any(one: Value, other: Value) -> Value:
    if not (one.is_number and other.is_number) or not (one.kind.is_float() or other.kind.is_float()):
        return _computed("%", _remainder)(one, other)
    by = other.value.cast(pl.Float64)
    parts = pl.struct(one.value.cast(pl.Float64).alias("a"), pl.when(by != 0).then(by).alias("b"))
    return Value(parts.map_batches(_fmod, return_dtype=pl.Float64(), is_elementwise=True), pl.Float64())


def _fmod(parts: pl.Series) -> pl.Series:
    a, b = parts.struct.field("a"), parts.struct.field("b")
    with np.errstate(invalid="ignore"):
        left = pl.Series(parts.name, np.fmod(a.to_numpy().astype(np.float64), b.to_numpy().astype(np.float64)))
    return pl.select(pl.when(pl.lit(a.is_not_null() & b.is_not_null())).then(pl.lit(left)).alias(parts.name)).to_series()


# --- choice


def _united(values: tuple[Value, ...], what: str) -> list[Value]:
    """Values of different expressions as one column."""
    kinds = list(dict.fromkeys(v.kind for v in values if v.kind != pl.Null()))
    if len(kinds) < 2:
        kind = kinds[0] if kinds else pl.Null()
    elif any(not kind.is_numeric() for kind in kinds):
        raise DefinitionError(
            f"{what} gives {' in one case and '.join(map(str, kinds))} in another, and a column has one type. Give the same in all cases."
        )
    elif any(kind.is_float() for kind in kinds):
        kind = pl.Float64()
    else:
        decimal = any(kind.is_decimal() for kind in kinds)
        kind = pl.Decimal(_DIGITS, max(map(_scale, kinds))) if decimal else pl.Int64()
    return [v if v.kind == kind else Value(v.value.cast(kind, strict=False), kind) for v in values]


def _case(*parts: Value) -> Value:
    values = _united((*parts[1::2], parts[-1]), "CASE")
    chosen = values[-1].value
    for when, then in zip(reversed(parts[:-1:2]), reversed(values[:-1]), strict=True):
        chosen = pl.when(_truth(when).fill_null(False)).then(then.value).otherwise(chosen)
    return Value(chosen, values[-1].kind)


def _coalesced(*values: Value) -> Value:
    """By what the values were before they stood in one column: one that has no room there is null, and the next is not taken for it."""
    made = _united(values, "COALESCE")
    chosen = made[-1].value
    for given, then in zip(reversed(values[:-1]), reversed(made[:-1]), strict=True):
        chosen = pl.when(given.value.is_not_null()).then(then.value).otherwise(chosen)
    return Value(chosen, made[0].kind)


def _null_if(one: Value, other: Value) -> Value:
    return Value(pl.when(~_truth(_equal(one, other)).fill_null(False)).then(one.value), one.kind)


def _picked(operator: str) -> Callable[..., Value]:
    better = _compared("<", lambda a, b: a < b) if operator == "LEAST" else _compared(">", lambda a, b: a > b)

    def over(*values: Value) -> Value:
        made = _united(values, operator)
        first, *others = made
        for other in others:
            takes = first.value.is_null() | better(other, first).value.fill_null(False)
            first = Value(pl.when(takes).then(other.value).otherwise(first.value), first.kind)
        if all(one.kind == first.kind for one in values):
            return first
        # Beside a value that has no room in the one column nobody is the least or the greatest.
        lost = [given.value.is_not_null() & then.value.is_null() for given, then in zip(values, made, strict=True)]
        return Value(pl.when(~pl.any_horizontal(lost)).then(first.value), first.kind)

    return over


# --- functions of one value


def _absolute(one: Value) -> Value:
    if not one.is_number:
        return _nothing(pl.Null())
    if one.kind.is_decimal():
        return _by_the_model("ABS", one.kind, one)
    return (
        Value(one.value.cast(pl.Float64).abs(), pl.Float64())
        if one.kind.is_float()
        else _fitting(one.value.cast(pl.Int128).abs())
    )


def _rounded(operator: str, whole: Callable[[pl.Expr], pl.Expr]) -> Callable[[Value], Value]:
    def over(one: Value) -> Value:
        if not one.is_number:
            return _nothing(pl.Int64())
        if one.kind.is_decimal():
            return _by_the_model(operator, pl.Int64(), one)
        return _fitting(whole(one.value.cast(pl.Float64)) if one.kind.is_float() else one.value)

    return over


def _of_text(kind: pl.DataType, compute: Callable[[pl.Expr], pl.Expr]) -> Callable[[Value], Value]:
    return lambda one: Value(compute(one.value).cast(kind), kind) if one.kind == pl.String() else _nothing(kind)


_MAKERS: dict[str, Callable[..., Value]] = {
    "AND": _all_of,
    "OR": _any_of,
    "NOT": lambda one: Value(~_truth(one), pl.Boolean()),
    "=": _equal,
    "<>": _compared("<>", lambda a, b: a != b),
    "<": _compared("<", lambda a, b: a < b),
    "<=": _compared("<=", lambda a, b: a <= b),
    ">": _compared(">", lambda a, b: a > b),
    ">=": _compared(">=", lambda a, b: a >= b),
    "+": _computed("+", lambda a, b: a + b),
    "-": _computed("-", lambda a, b: a - b),
    "*": _computed("*", lambda a, b: a * b),
    "/": _divided,
    "%": _remainder_of_any,
    "IS NULL": lambda one: Value(one.value.is_null(), pl.Boolean()),
    "IN": lambda one, *others: _any_of(*(_equal(one, other) for other in others)),
    "CASE": _case,
    "COALESCE": _coalesced,
    "NULLIF": _null_if,
    "LEAST": _picked("LEAST"),
    "GREATEST": _picked("GREATEST"),
    "ABS": _absolute,
    "FLOOR": _rounded("FLOOR", pl.Expr.floor),
    "CEIL": _rounded("CEIL", pl.Expr.ceil),
    "LOWER": _of_text(pl.String(), lambda text: text.str.to_lowercase()),
    "UPPER": _of_text(pl.String(), lambda text: text.str.to_uppercase()),
    "LENGTH": _of_text(pl.Int64(), lambda text: text.str.len_chars()),
}

if _MAKERS.keys() != OPERATORS.keys():
    raise ImportError(f"these operators are computed by one side only: {', '.join(sorted(_MAKERS.keys() ^ OPERATORS.keys()))}")
