"""The column that says when something happened, as microseconds; what says no time is named."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import polars as pl

from eventide.engine.feeds.calendar import midnights
from eventide.engine.feeds.text_times import Times

PER_UNIT = {"us": 1, "ms": 1_000, "s": 1_000_000}
INT64 = 2**63


def can_be_time(kind: pl.DataType) -> bool:
    """Whether values of a type can say when something happened."""
    return kind.is_numeric() or isinstance(kind, pl.Datetime | pl.Date | pl.String)


def micros(column: pl.Series, unit: str, times: Times) -> pl.Series:
    """A column as microseconds since 1970; null where it is null, or where its value is no time that an int64 can hold.

    >>> micros(pl.Series([1.5, float("nan"), 1e300]), "s", Times()).to_list()
    [1500000, None, None]
    """
    kind, per = column.dtype, PER_UNIT[unit]
    if isinstance(kind, pl.Datetime):
        return _of_instants(column, kind, times)
    if kind == pl.Date:
        return times.placed(midnights(column)).dt.epoch("us")
    if kind == pl.String:
        return times.instants(column).dt.epoch("us")
    if isinstance(kind, pl.Decimal):
        return pl.Series(column.name, [_of_decimal(value, per) for value in column.to_list()], dtype=pl.Int64)
    if kind.is_float():
        # A double says seconds to a fraction of a microsecond at best: the nearest one is meant.
        near = (column.cast(pl.Float64) * per).round(0)
        return pl.select(pl.when(pl.lit(near).abs() < float(INT64)).then(pl.lit(near))).to_series().cast(pl.Int64)
    whole = column.cast(pl.Int64, strict=False)
    return pl.select(
        pl.when(pl.lit(whole).is_between(-(INT64 // per), (INT64 - 1) // per)).then(pl.lit(whole) * per)
    ).to_series()


def _of_instants(column: pl.Series, kind: pl.Datetime, times: Times) -> pl.Series:
    placed = column if kind.time_zone else times.placed(column)
    if kind.time_unit != "ns":
        return placed.dt.epoch("us")
    finer = placed.dt.epoch("ns")
    return pl.select(pl.when(pl.lit(finer) % 1_000 == 0).then(pl.lit(finer) // 1_000)).to_series()


def _of_decimal(value: Any, per: int) -> int | None:
    if not isinstance(value, Decimal) or not -60 < value.adjusted() < 30:
        return 0 if value == 0 and value is not None else None
    whole = value * per
    return int(whole) if whole == whole.to_integral_value() and -INT64 <= whole < INT64 else None
