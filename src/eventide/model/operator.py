"""What each operator and function of an expression means, over plain values of which any may be null."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal, Inexact, InvalidOperation, localcontext
from typing import Any

from eventide.model.statistic import rank

_DIGITS = 38
"""The most digits that a decimal column has."""


def truth(value: Any) -> bool | None:
    """A value as a condition: a number is true unless it is zero; what is neither is unknown.

    >>> truth(2), truth(False), truth(None), truth("yes")
    (True, False, None, None)
    """
    return bool(value) if isinstance(value, bool | int | float | Decimal) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _fitting(value: Any) -> Any:
    """A number that its type can hold, or null."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return None
    return value


def _arithmetic(compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def over(one: Any, other: Any) -> Any:
        if not (_is_number(one) and _is_number(other)):
            return None
        if isinstance(one, float) or isinstance(other, float):
            one, other = float(one), float(other)
        try:
            with localcontext(Context(prec=_DIGITS, traps=[Inexact, InvalidOperation])):
                return _fitting(compute(one, other))
        except (Inexact, InvalidOperation):
            return None

    return over


def _divided(one: Any, other: Any) -> float | None:
    if not (_is_number(one) and _is_number(other)) or other == 0:
        return None
    return float(one) / float(other)


def _remainder(one: Any, other: Any) -> Any:
    if other == 0:
        return None
    if isinstance(one, float):
        return math.nan if math.isinf(one) else math.fmod(one, other)
    left = abs(one) % abs(other)
    return -left if one < 0 else left


def _comparison(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool | None]:
    def over(one: Any, other: Any) -> bool | None:
        if one is None or other is None or not ((_is_number(one) and _is_number(other)) or type(one) is type(other)):
            return None
        try:
            return compare(rank(one), rank(other))
        except TypeError:  # such as an instant with a zone and one without
            return None

    return over


_equal = _comparison(lambda a, b: a == b)


def _and(*values: Any) -> bool | None:
    said = [truth(v) for v in values]
    return False if False in said else None if None in said else True


def _or(*values: Any) -> bool | None:
    said = [truth(v) for v in values]
    return True if True in said else None if None in said else False


def _not(value: Any) -> bool | None:
    said = truth(value)
    return None if said is None else not said


def _case(*parts: Any) -> Any:
    for condition, value in zip(parts[:-1:2], parts[1::2], strict=True):
        if truth(condition) is True:
            return value
    return parts[-1]


def _picked(pick: Any) -> Callable[..., Any]:
    """The least or greatest of those that are not null; null where two of them do not compare."""

    def over(*values: Any) -> Any:
        there = [v for v in values if v is not None]
        if any(_equal(there[0], other) is None for other in there):
            return None
        return pick(there, key=rank, default=None)

    return over


def _rounded(whole: Callable[[Any], int]) -> Callable[[Any], int | None]:
    """A whole number always; what lies beside all of them (NaN, infinity) has none."""

    def over(value: Any) -> int | None:
        if not _is_number(value) or not math.isfinite(value):
            return None
        fitting: int | None = _fitting(whole(value))
        return fitting

    return over


def _of_text(compute: Callable[[str], Any]) -> Callable[[Any], Any]:
    return lambda value: compute(value) if isinstance(value, str) else None


OPERATORS: dict[str, Callable[..., Any]] = {
    "AND": _and,
    "OR": _or,
    "NOT": _not,
    "=": _equal,
    "<>": _comparison(lambda a, b: a != b),
    "<": _comparison(lambda a, b: a < b),
    "<=": _comparison(lambda a, b: a <= b),
    ">": _comparison(lambda a, b: a > b),
    ">=": _comparison(lambda a, b: a >= b),
    "+": _arithmetic(lambda a, b: a + b),
    "-": _arithmetic(lambda a, b: a - b),
    "*": _arithmetic(lambda a, b: a * b),
    "/": _divided,
    "%": _arithmetic(_remainder),
    "IS NULL": lambda value: value is None,
    "IN": lambda value, *others: _or(*(_equal(value, other) for other in others)),
    "CASE": _case,
    "COALESCE": lambda *values: next((v for v in values if v is not None), None),
    "NULLIF": lambda one, other: None if _equal(one, other) else one,
    "LEAST": _picked(min),
    "GREATEST": _picked(max),
    "ABS": lambda value: _fitting(abs(value)) if _is_number(value) else None,
    "FLOOR": _rounded(math.floor),
    "CEIL": _rounded(math.ceil),
    "LOWER": _of_text(str.lower),
    "UPPER": _of_text(str.upper),
    "LENGTH": _of_text(len),
}

VALUES = frozenset({"+", "-", "*", "/", "%", "ABS", "FLOOR", "CEIL", "LOWER", "UPPER", "LENGTH"})
"""Those that give a number or a text, and never a truth."""

ARGUMENTS = {
    "COALESCE": (1, 99), "LEAST": (2, 99), "GREATEST": (2, 99), "NULLIF": (2, 2),
    "ABS": (1, 1), "FLOOR": (1, 1), "CEIL": (1, 1), "LOWER": (1, 1), "UPPER": (1, 1), "LENGTH": (1, 1),
}  # fmt: skip
"""The functions that a text may name, with the fewest and the most arguments."""
