"""Columns of typed files (Parquet) and of Spark in the types that were declared: each value the same, or its row named."""

from __future__ import annotations

import polars as pl

from eventide.engine.feeds.columnar import Kinds, arrow_kind
from eventide.engine.feeds.text_columns import from_texts
from eventide.engine.feeds.text_times import Times, in_halves
from eventide.kernel.columns import DEAD, RAW
from eventide.kernel.jsontext import json_of


def declared(frame: pl.DataFrame, kinds: Kinds, times: Times, coded: frozenset[str] = frozenset()) -> pl.DataFrame:
    """The columns asked for, with their declared types; a value that does not fit makes its row a dead letter, with all that it held."""
    missing = [pl.lit(None, dtype=kind).alias(name) for name, kind in kinds.items() if name not in frame.columns]
    frame = frame.with_columns(missing)
    wrong = [n for n, kind in kinds.items() if frame.schema[n] != kind and not (n in coded and _is_code(frame.schema[n], kind))]
    if not wrong:
        return frame
    cast = frame.with_columns([in_kind(frame[name], kinds[name], times) for name in wrong])
    reason = pl.coalesce(
        pl.when(pl.lit(cast[name].is_null() & frame[name].is_not_null())).then(
            pl.lit(_reason(name, frame.schema[name], kinds[name]))
        )
        for name in wrong
    )
    dead = cast.select(reason).to_series()
    known = frame[DEAD] if DEAD in frame.columns else pl.repeat(None, len(frame), dtype=pl.String, eager=True)
    dead = pl.select(pl.coalesce(pl.lit(known), pl.lit(dead))).to_series()
    if dead.null_count() == len(dead):
        return cast.with_columns(dead.alias(DEAD))
    own = [name for name in kinds if name in frame.columns]
    text = frame.select(json_of(own, frame.schema).cast(pl.Binary)).to_series()
    raw = frame[RAW] if RAW in frame.columns else pl.repeat(None, len(frame), dtype=pl.Binary, eager=True)
    kept = pl.select(pl.when(pl.lit(dead).is_not_null()).then(pl.coalesce(pl.lit(raw), pl.lit(text)))).to_series()
    return cast.with_columns(dead.alias(DEAD), kept.alias(RAW))


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
    if column.dtype == kind:
        return column
    if column.dtype == pl.Null:
        return pl.repeat(None, len(column), dtype=kind, eager=True).alias(column.name)
    if isinstance(column.dtype, pl.Datetime) and isinstance(kind, pl.Datetime):
        return _instants(column, column.dtype, kind, times)
    if column.dtype == pl.Date and isinstance(kind, pl.Datetime):
        return _instants(column.cast(pl.Datetime("us")), pl.Datetime("us"), kind, times)
    if column.dtype == pl.String and not kind.is_nested() and kind != pl.Binary:
        return from_texts(column, kind, times)[0].alias(column.name)
    if not _akin(column.dtype, kind):
        return pl.repeat(None, len(column), dtype=kind, eager=True).alias(column.name)
    if isinstance(column.dtype, pl.Categorical | pl.Enum):
        return column.cast(kind)
    wanted = arrow_kind(kind)
    array = column.to_arrow(compat_level=pl.CompatLevel.oldest())
    made = in_halves(array, lambda part: part.cast(wanted))
    cast = pl.Series(column.name, made, dtype=kind)
    back = pl.Series(column.name, in_halves(made, lambda part: part.cast(array.type)), dtype=column.dtype)
    same = back.eq_missing(column)
    return cast if same.all() else pl.select(pl.when(pl.lit(same)).then(pl.lit(cast))).to_series().alias(column.name)


def _instants(column: pl.Series, given: pl.Datetime, kind: pl.Datetime, times: Times) -> pl.Series:
    if given.time_unit == "ns":
        coarse = column.dt.cast_time_unit("us")
        column = pl.select(pl.when(pl.lit(coarse).dt.cast_time_unit("ns") == pl.lit(column)).then(pl.lit(coarse))).to_series()
    elif given.time_unit == "ms":
        column = column.dt.cast_time_unit("us")
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
    """Types between which values can stay the same: numbers; texts; days and instants; lists and structs of such."""
    if isinstance(one, pl.List) and isinstance(other, pl.List):
        return _akin(_typed(one.inner), _typed(other.inner))
    if isinstance(one, pl.Struct) and isinstance(other, pl.Struct):
        inner = {f.name: _typed(f.dtype) for f in one.fields}
        return list(inner) == [f.name for f in other.fields] and all(
            _akin(inner[f.name], _typed(f.dtype)) for f in other.fields
        )
    texts = pl.String | pl.Categorical | pl.Enum
    return (
        one == other
        or one == pl.Null
        or (
            one.is_numeric()
            and other.is_numeric()
            and not ((_is_decimal(one) and other.is_float()) or (one.is_float() and _is_decimal(other)))
        )
        or (isinstance(one, texts) and other == pl.String)
        or (isinstance(one, pl.Datetime) and isinstance(other, pl.Datetime))
        or (isinstance(one, pl.Duration) and isinstance(other, pl.Duration))
    )


def _is_decimal(kind: pl.DataType) -> bool:
    """No binary fraction is a decimal one, but for a few."""
    return isinstance(kind, pl.Decimal)


def _typed(kind: object) -> pl.DataType:
    typed = kind() if isinstance(kind, type) else kind
    assert isinstance(typed, pl.DataType)
    return typed
