"""Columns of typed files (Parquet) and of Spark in the types that were declared: each value the same, or its row named."""

from __future__ import annotations

import polars as pl

from eventide.engine.feeds.calendar import midnights, undated
from eventide.engine.feeds.columnar import Kinds, arrow_kind
from eventide.engine.feeds.nested_columns import nested_in_kind
from eventide.engine.feeds.text_columns import from_texts
from eventide.engine.feeds.text_times import Times, in_halves
from eventide.kernel.columns import DEAD, RAW
from eventide.kernel.jsontext import json_of


def declared(frame: pl.DataFrame, kinds: Kinds, times: Times, coded: frozenset[str] = frozenset()) -> pl.DataFrame:
    """The columns asked for, with their declared types; a value that does not fit makes its row a dead letter, with all that it held."""
    missing = [pl.lit(None, dtype=kind).alias(name) for name, kind in kinds.items() if name not in frame.columns]
    frame = frame.with_columns(missing)
    other = [n for n, kind in kinds.items() if frame.schema[n] != kind and not (n in coded and _is_code(frame.schema[n], kind))]
    cast = frame.with_columns([in_kind(frame[name], kinds[name], times) for name in other]) if other else frame
    wrong = {name: _reason(name, frame.schema[name], kinds[name]) for name in other}
    faults = [(reason, cast[name].is_null() & frame[name].is_not_null()) for name, reason in wrong.items()]
    for name in kinds:
        if (far := undated(cast[name])).any():
            faults.append((f"another schema: the column {name!r}: a day or a time in no year from 1 to 9999", far))
            cast = cast.with_columns(pl.when(~pl.lit(far)).then(pl.col(name)).alias(name))
    faults = [(reason, rows) for reason, rows in faults if rows.any()]
    if not faults:
        return cast
    dead = pl.select(pl.coalesce(pl.when(pl.lit(rows)).then(pl.lit(reason)) for reason, rows in faults)).to_series()
    known = frame[DEAD] if DEAD in frame.columns else pl.repeat(None, len(frame), dtype=pl.String, eager=True)
    return _with_dead(frame, cast, pl.select(pl.coalesce(pl.lit(known), pl.lit(dead))).to_series(), list(kinds))


def _with_dead(frame: pl.DataFrame, cast: pl.DataFrame, dead: pl.Series, names: list[str]) -> pl.DataFrame:
    """Rows of which some are dead letters, with all that those held as a text."""
    lost = dead.is_not_null()
    text = _texts(frame.filter(lost).select(names))
    raw = frame[RAW] if RAW in frame.columns else pl.repeat(None, len(frame), dtype=pl.Binary, eager=True)
    kept = pl.select(pl.when(pl.lit(lost)).then(pl.lit(raw))).to_series()
    kept = kept.scatter(lost.arg_true(), pl.select(pl.coalesce(pl.lit(raw.filter(lost)), pl.lit(text))).to_series())
    return cast.with_columns(dead.alias(DEAD), kept.alias(RAW))


def _texts(rows: pl.DataFrame) -> pl.Series:
    """Rows as JSON; a column with times that no calendar has is told by its numbers."""
    numbers = rows.with_columns(column.to_physical() for column in rows if undated(column).any())
    return numbers.select(json_of(numbers.columns, numbers.schema).cast(pl.Binary)).to_series()


def _reason(name: str, kind: pl.DataType, wanted: pl.DataType) -> str:
    return f"another schema: the column {name!r}: a value of type {kind} does not fit {wanted}"


def _is_code(kind: pl.DataType, wanted: pl.DataType) -> bool:
    """Whether a column came as codes for text."""
    return kind == pl.Categorical and wanted == pl.String


def in_kind(column: pl.Series, kind: pl.DataType, times: Times) -> pl.Series:
    """A column in another type, null where a value of it would be another one there.

    >>> in_kind(pl.Series([1.0, 1.5, None]), pl.Int64(), Times()).to_list()
    [1, None, None]
    """
    given = column.dtype
    if given == kind:
        return column
    if given == pl.Null:
        return _nothing(column, kind)
    if isinstance(given, pl.Datetime) and isinstance(kind, pl.Datetime):
        return _instants(_micros(column, given), given, kind, times)
    if given == pl.Date and isinstance(kind, pl.Datetime):
        return _instants(midnights(column), pl.Datetime("us"), kind, times)
    if given == pl.String and not kind.is_nested() and kind != pl.Binary:
        return from_texts(column, kind, times)[0].alias(column.name)
    if given.is_nested():
        nested = nested_in_kind(column, kind, lambda part, of: in_kind(part, of, times))
        return _nothing(column, kind) if nested is None else nested
    if not _akin(given, kind):
        return _nothing(column, kind)
    if isinstance(given, pl.Categorical | pl.Enum):
        return column.cast(kind)
    if given.is_decimal() != kind.is_decimal():
        return _whole_units(column, kind)
    return _cast(column, kind)


def _nothing(column: pl.Series, kind: pl.DataType) -> pl.Series:
    return pl.repeat(None, len(column), dtype=kind, eager=True).alias(column.name)


def _whole_units(column: pl.Series, kind: pl.DataType) -> pl.Series:
    """Whole numbers as decimals, and decimals as whole numbers, which Arrow takes only where every number of the type would fit."""
    cast = column.cast(kind, strict=False)
    same = cast.cast(column.dtype, strict=False).eq_missing(column)
    return pl.select(pl.when(pl.lit(same)).then(pl.lit(cast))).to_series().alias(column.name)


def _cast(column: pl.Series, kind: pl.DataType) -> pl.Series:
    wanted = arrow_kind(kind)
    array = column.to_arrow(compat_level=pl.CompatLevel.oldest())
    made = in_halves(array, lambda part: part.cast(wanted))
    cast = pl.Series(column.name, made, dtype=kind)
    back = pl.Series(column.name, in_halves(made, lambda part: part.cast(array.type)), dtype=column.dtype)
    same = back.eq_missing(column)
    return cast if same.all() else pl.select(pl.when(pl.lit(same)).then(pl.lit(cast))).to_series().alias(column.name)


def _micros(column: pl.Series, given: pl.Datetime) -> pl.Series:
    """Instants by their numbers, which no reader of calendars must understand."""
    number = column.to_physical()
    if given.time_unit == "ns":
        number = pl.select(pl.when(pl.lit(number) % 1_000 == 0).then(pl.lit(number) // 1_000)).to_series()
    elif given.time_unit == "ms":
        most = (2**63 - 1) // 1_000
        number = pl.select(pl.when(pl.lit(number).is_between(-most, most)).then(pl.lit(number) * 1_000)).to_series()
    return number.cast(pl.Datetime("us", given.time_zone)).alias(column.name)


def _instants(column: pl.Series, given: pl.Datetime, kind: pl.Datetime, times: Times) -> pl.Series:
    if given.time_zone is None and kind.time_zone is not None:
        return times.placed(column)
    if given.time_zone is not None:
        return (
            column.dt.convert_time_zone(kind.time_zone or "UTC")
            if kind.time_zone
            else column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        )
    return column


def _akin(one: pl.DataType, other: pl.DataType) -> bool:
    """Types between which values can stay the same: numbers, though no binary fraction is a decimal one but for a few; texts; spans."""
    if one.is_numeric() and other.is_numeric():
        return not ((one.is_decimal() and other.is_float()) or (one.is_float() and other.is_decimal()))
    return (isinstance(one, pl.String | pl.Categorical | pl.Enum) and other == pl.String) or (
        isinstance(one, pl.Duration) and isinstance(other, pl.Duration)
    )
