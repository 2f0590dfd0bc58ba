"""Whole numbers and decimals added up in Spark without losing a digit, and told by name where no number of their type can say the sum.

Spark gives a sum of two decimals one digit before the point more and takes it from those behind, and wraps whole numbers or stops, as the session
is set.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from eventide.errors import DefinitionError

DIGITS = 37
"""So many have the two numbers: the last of a decimal's 38 is left for what they carry."""
_WHOLE = {"byte": 8, "short": 16, "integer": 32, "long": 64}


def is_exact(kind: Any) -> bool:
    """Whether a type of Spark's has whole numbers or decimals."""
    return kind.typeName() in _WHOLE or kind.typeName() == "decimal"


def combined(one: Any, other: Any, kinds: tuple[Any, Any], sign: int, into: Any = None) -> Any:
    """One and `sign` times the other, where null counts as nothing, as a column of the type `into` or of one that holds both; null where it leaves that."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import DecimalType

    scale = max(_scale(kind) for kind in kinds)
    into = into if into is not None else _holding(kinds, scale)
    if scale > DIGITS:
        return F.lit(None).cast(into)
    wide, limit = DecimalType(DIGITS, scale), F.lit(Decimal(10) ** (DIGITS - scale))
    parts = []
    for value, kind in zip((one, other), kinds, strict=True):
        known = F.coalesce(value, F.lit(0).cast(kind))
        parts.append(F.when((known > -limit) & (known < limit), known.cast(wide)))
    made = parts[0] + parts[1] if sign > 0 else parts[0] - parts[1]
    if into.typeName() not in _WHOLE:
        return made
    most = 2 ** (_WHOLE[into.typeName()] - 1)
    return F.when((made >= F.lit(Decimal(-most))) & (made < F.lit(Decimal(most))), made.cast(into))


def _scale(kind: Any) -> int:
    return int(kind.scale) if kind.typeName() == "decimal" else 0


def _holding(kinds: tuple[Any, Any], scale: int) -> Any:
    from pyspark.sql.types import DecimalType

    if all(kind.typeName() in _WHOLE for kind in kinds):
        return max(kinds, key=lambda kind: _WHOLE[kind.typeName()])
    return DecimalType(38, scale)


def quoted(name: str) -> str:
    """A column's name as Spark takes it, whatever is in it.

    >>> quoted("order.id")
    '`order.id`'
    """
    return "`" + name.replace("`", "``") + "`"


def totals_of(frame: Any, columns: Mapping[str, str], beside: Mapping[str, Any]) -> dict[str, Any]:
    """The sums of columns, each under a name of its own, and what else is asked of the frame."""
    from pyspark.sql import functions as F

    sums = [_total(frame, column).alias(name) for name, column in columns.items()]
    counts = [F.count(quoted(column)).alias(f"__of_{name}") for name, column in columns.items()]
    more = [column.alias(name) for name, column in beside.items()]
    if not (sums or more):
        return {}
    row = frame.agg(*sums, *counts, *more).first()
    for name in columns:
        if row[name] is None and row[f"__of_{name}"]:
            raise DefinitionError(
                f"the total of {name!r} over all windows has more than the 38 digits of a decimal. Reconcile fewer days at once (since, until). "
                "Nothing was written."
            )
    return {name: plain_number(row[name]) for name in (*columns, *beside)}


def _total(frame: Any, name: str) -> Any:
    """The sum of a column; of whole numbers it may be larger than any of their type, where Spark would stop with an overflow."""
    from pyspark.sql import functions as F

    kind, column = frame.schema[name].dataType, F.col(quoted(name))
    if kind.typeName() in _WHOLE:
        return F.sum(column.cast("decimal(38,0)"))
    return F.try_sum(column) if kind.typeName() == "decimal" else F.sum(column)


def plain_number(value: Any) -> Any:
    """A total as Python has it: a whole number of Spark's decimals as an int, nothing at all as 0.

    >>> plain_number(Decimal("12")), plain_number(Decimal("1.10")), plain_number(None)
    (12, Decimal('1.10'), 0)
    """
    if isinstance(value, Decimal) and value.as_tuple().exponent == 0:
        return int(value)
    return value or 0
