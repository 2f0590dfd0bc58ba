"""Lists, structs and maps in the types that were declared: the rule for single values holds at any depth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from eventide.engine.feeds.values import typed
from eventide.kernel.leaves import entries

Each = Callable[[pl.Series, pl.DataType], pl.Series]
"""A column in another type, null where a value does not fit it."""


def nested_in_kind(column: pl.Series, kind: pl.DataType, each: Each) -> pl.Series | None:
    """A nested column with its parts in other types, null where any part of a value does not fit; None where the two are not alike."""
    given = column.dtype
    if isinstance(given, pl.Array):
        return nested_in_kind(column.arr.to_list(), kind, each)
    if isinstance(given, pl.Map) and isinstance(kind, pl.Map | pl.List):
        column = column.cast(entries(given))
        return column if column.dtype == kind else nested_in_kind(column, kind, each)
    if isinstance(given, pl.List) and isinstance(kind, pl.Map):
        made = nested_in_kind(column, entries(kind), each)
        return None if made is None else made.cast(kind)
    if isinstance(given, pl.List) and isinstance(kind, pl.List):
        return _list(column, typed(kind.inner), each)
    return _struct(column, kind, each) if isinstance(given, pl.Struct) and isinstance(kind, pl.Struct) else None


def lost(made: pl.Series, column: pl.Series) -> pl.Series:
    """Where a value did not come through."""
    return made.is_null() & column.is_not_null()


def _list(column: pl.Series, inner: pl.DataType, each: Each) -> pl.Series:
    array = cast("pa.LargeListArray[Any]", _arrow(column))
    values = pl.Series(array.flatten())
    made = each(values, inner)
    rows = pl.Series(pc.list_parent_indices(array)).filter(lost(made, values))
    ends = column.list.len().fill_null(0).cast(pl.Int64).cum_sum()
    offsets = cast(pa.Int64Array, pa.concat_arrays([pa.array([0], pa.int64()), ends.to_arrow()]))
    absent = column.is_null() | pl.int_range(len(column), eager=True).is_in(rows.unique().cast(pl.Int64).to_list())
    built = pa.LargeListArray.from_arrays(offsets, _arrow(made), mask=_arrow(absent))
    return pl.Series(column.name, built, dtype=pl.List(inner))


def _struct(column: pl.Series, kind: pl.Struct, each: Each) -> pl.Series:
    """By the names of the fields, as records of every format are read: one that is not there is null."""
    parts = {field.name: column.struct.field(field.name) for field in kind.fields if field.name in column.struct.fields}
    absent, arrays = column.is_null(), []
    for field in kind.fields:
        part = parts.get(field.name, pl.repeat(None, len(column), dtype=pl.Null, eager=True))
        made = each(part, typed(field.dtype))
        absent |= lost(made, part) & column.is_not_null()
        arrays.append(_arrow(made))
    built = pa.StructArray.from_arrays(arrays, names=[field.name for field in kind.fields], mask=absent.to_arrow())
    return pl.Series(column.name, built, dtype=kind)


def _arrow(column: pl.Series) -> pa.Array[Any]:
    return column.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
