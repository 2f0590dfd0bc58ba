"""The years that have a date, 1 to 9999: what lies outside them no text, no Python and few databases can say."""

from __future__ import annotations

from functools import partial

import polars as pl

from eventide.kernel.leaves import any_leaf, holds

FIRST_MICROS, LAST_MICROS = -62_135_596_800_000_000, 253_402_300_799_999_999
DATED = {
    pl.Date(): (-719_162, 2_932_896),
    "us": (FIRST_MICROS, LAST_MICROS),
    "ms": (FIRST_MICROS // 1_000, LAST_MICROS // 1_000),
}
"""The first and the last number of days, and of instants in each unit; nanoseconds reach less far."""


def says_dates(kind: pl.DataType) -> bool:
    """Whether a type has days or instants in it, at any depth."""
    return any(holds(kind, partial(_counts, of)) for of in DATED)


def undated(column: pl.Series) -> pl.Series:
    """Which values lie, or have a part that lies, outside all years.

    >>> undated(pl.Series([0, 2**62]).cast(pl.Datetime("us"))).to_list()
    [False, True]
    """
    if not says_dates(column.dtype):
        return pl.repeat(False, len(column), dtype=pl.Boolean, eager=True)
    parts = [
        any_leaf(pl.col("value"), column.dtype, partial(_counts, of), partial(_outside, low, high))
        for of, (low, high) in DATED.items()
    ]
    return column.alias("value").to_frame().select(pl.any_horizontal(parts)).to_series()


def midnights(days: pl.Series) -> pl.Series:
    """Days as instants, null where they lie in no year."""
    dated = pl.select(pl.when(~pl.lit(undated(days))).then(pl.lit(days))).to_series()
    return dated.cast(pl.Datetime("us")).alias(days.name)


def _counts(of: object, kind: pl.DataType) -> bool:
    """Whether a type counts days, or instants in a unit."""
    return kind == of if isinstance(of, pl.DataType) else isinstance(kind, pl.Datetime) and kind.time_unit == of


def _outside(low: int, high: int, value: pl.Expr) -> pl.Expr:
    return ~value.to_physical().is_between(low, high)
