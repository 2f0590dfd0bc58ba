"""Sums of whole numbers and decimals that no cut of the stream can change.

A part may outgrow its type although the whole does not (large values that a later part takes away again). What it has too much then stands in a
second column, `_h`, which nearly no part has; whether the whole fits is asked when a result is made of it, and only then.
"""

from __future__ import annotations

from decimal import Context, Decimal

import polars as pl

from eventide.model.statistic import AggregateOverflow

_INT64 = 2**63
_WRAP = 2**64
"""What one unit of `_h` stands for in a sum of whole numbers."""
_DIGITS = 10**38
"""The same for decimals, counted in their last digit; no decimal column can hold as much."""
_EXACT = Context(prec=200)
_SMALL = (pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16, pl.UInt32)


def summed(values: pl.Series, column: pl.Expr) -> pl.Expr:
    """The sum of each group as cheaply as its values allow; `settled` makes the part of it.

    >>> frame = pl.DataFrame({"x": [2**63 - 1, 1, -1]})
    >>> settled(frame.select(summed(frame["x"], pl.col("x")).alias("__a0_s")), "__a0")["__a0_s"].item() == 2**63 - 1
    True
    """
    kind = values.dtype
    if kind.is_float():  # not in the type's own precision: a sum of rounded sums would depend on the cut
        return column.cast(pl.Float64).sum()
    if kind in _SMALL:
        return column.cast(pl.Int64).sum()
    if kind.is_integer():
        return column.cast(pl.Int64 if _largest(values) * max(1, len(values)) < _INT64 else pl.Int128).sum()
    if isinstance(kind, pl.Decimal) and _largest(values) * max(1, len(values)) >= _DIGITS:
        return pl.struct(column.alias("s"), pl.lit(0, dtype=pl.Int64).alias("h")).implode()
    return column.sum()


def merged(parts: pl.DataFrame, at: str) -> pl.Expr:
    """The sum of parts, those included that had outgrown their type."""
    low, high = f"{at}_s", f"{at}_h"
    if high in parts.columns and (parts[high].fill_null(0) != 0).any():
        return pl.struct(pl.col(low).alias("s"), pl.col(high).fill_null(0).alias("h")).implode()
    return summed(parts[low], pl.col(low))


def settled(result: pl.DataFrame, at: str) -> pl.DataFrame:
    """Sums as parts: in the column's own type, with what does not fit in the second column."""
    sums = result[f"{at}_s"]
    if sums.dtype == pl.Int128:
        low, high = sums.min(), sums.max()
        if not (isinstance(low, int) and isinstance(high, int)) or (low >= -_INT64 and high < _INT64):
            return result.with_columns(sums.cast(pl.Int64))
        return _split(result, at, sums.to_list(), pl.Int64())
    if isinstance(sums.dtype, pl.List):
        inner = sums.dtype.inner
        assert isinstance(inner, pl.Struct)
        kind = inner.fields[0].dtype
        scale = kind.scale if isinstance(kind, pl.Decimal) else None
        unit = _WRAP if scale is None else _DIGITS
        totals = [
            sum(_units(cell["s"], scale) + cell["h"] * unit for cell in cells if cell["s"] is not None)
            for cells in sums.to_list()
        ]
        return _split(result, at, totals, pl.Int64() if scale is None else pl.Decimal(38, scale))
    return result


def _split(result: pl.DataFrame, at: str, totals: list[int], kind: pl.DataType) -> pl.DataFrame:
    if isinstance(kind, pl.Decimal):
        high = [abs(total) // _DIGITS * (1 if total > 0 else -1) for total in totals]
        rest = [total - h * _DIGITS for total, h in zip(totals, high, strict=True)]
        low = pl.Series(f"{at}_s", [Decimal(one).scaleb(-kind.scale, _EXACT) for one in rest], dtype=kind)
    else:
        high = [(total + _INT64) // _WRAP for total in totals]
        low = pl.Series(f"{at}_s", [total - h * _WRAP for total, h in zip(totals, high, strict=True)], dtype=kind)
    return result.with_columns(low, pl.Series(f"{at}_h", high, dtype=pl.Int64)) if any(high) else result.with_columns(low)


def check(partials: pl.DataFrame, at: str, name: str) -> None:
    """Raise where a whole sum does not fit its type."""
    if f"{at}_h" not in partials.columns:
        return
    worst = partials.filter(pl.col(f"{at}_h").fill_null(0) != 0)
    if len(worst):
        low, high = worst.select(f"{at}_s", f"{at}_h").row(0)
        if isinstance(low, Decimal):
            scale = -int(low.as_tuple().exponent)
            total = Decimal(_units(low, scale) + high * _DIGITS).scaleb(-scale, _EXACT)
            raise AggregateOverflow(
                f"the sum {name!r} is {total}, more than the 38 digits of a decimal column. Sum a column with fewer decimals instead."
            )
        raise AggregateOverflow(f"the sum {name!r} is {low + high * _WRAP}, which leaves int64. Sum a decimal column instead.")


def total(values: pl.Series) -> int:
    """The sum of whole numbers, which may be larger than any of its kind can hold."""
    return int(pl.select(summed(values, pl.lit(values))).item() or 0)


def stored_total(low: pl.Series, high: pl.Series | None) -> int:
    """The sum of whole numbers over the parts that were written."""
    return total(low) + (0 if high is None else total(high) * _WRAP)


def _largest(values: pl.Series) -> int:
    """The largest absolute value, in units of the last digit."""
    low, high = values.min(), values.max()
    if low is None or high is None:
        return 0
    scale = values.dtype.scale if isinstance(values.dtype, pl.Decimal) else None
    return max(abs(_units(low, scale)), abs(_units(high, scale)))


def _units(value: object, scale: int | None) -> int:
    if scale is None:
        assert isinstance(value, int)
        return value
    assert isinstance(value, Decimal)
    return int(value.scaleb(scale, _EXACT))
