"""Rows that others wrote in Arrow's types, each looked at before it is believed: a text may hold bytes that are no text."""

from __future__ import annotations

from typing import Any, TypeAlias

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from eventide.kernel.columns import DEAD, RAW
from eventide.sinks.plain import text


def rows_of(table: pa.Table) -> pl.DataFrame:
    r"""A table as a frame; rows of which a column breaks its own type are dead letters, and null there.

    >>> rows_of(pa.table({"t": pa.array([b"a", b"\xff"]).view(pa.string())}))["t"].to_list()
    ['a', None]
    """
    broken = {name: found for name in table.column_names if (found := _broken(table[name])) is not None}
    for name in broken:
        table = table.set_column(table.column_names.index(name), name, _without(table[name], broken[name]))
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    if not broken:
        return frame
    reasons: list[str | None] = [None] * len(frame)
    raw: list[bytes | None] = [None] * len(frame)
    for name, (column, rows) in broken.items():
        for row, fault in rows.items():
            reasons[row] = f"another schema: the column {name!r}: {fault}"
            raw[row] = (text({name: column[row].as_py()}) or "").encode()
    said = {DEAD: pl.Series(reasons, dtype=pl.String), RAW: pl.Series(raw, dtype=pl.Binary)}
    known = [pl.coalesce(pl.col(n), pl.lit(s)).alias(n) if n in frame.columns else s.alias(n) for n, s in said.items()]
    return frame.with_columns(known)


Broken: TypeAlias = "tuple[pa.Array[Any], dict[int, str]]"
"""A column with its texts as bytes, and the rows whose values break its type, with what is wrong."""


def _broken(column: pa.ChunkedArray[Any]) -> Broken | None:
    try:
        column.validate(full=True)
        return None
    except pa.ArrowInvalid:
        whole = column.combine_chunks()
        whole = whole.dictionary_decode() if isinstance(whole, pa.DictionaryArray) else whole
        rows: dict[int, str] = {}
        _search(whole, 0, rows)
        return whole.cast(_as_bytes(whole.type)), rows


def _search(array: pa.Array[Any], start: int, rows: dict[int, str]) -> None:
    """By halves; parts are copied, because a slice shares what is broken in its neighbours."""
    try:
        array.take(pa.array(range(len(array)), pa.int64())).validate(full=True)
    except pa.ArrowInvalid as error:
        if len(array) == 1:
            rows[start] = str(error).splitlines()[0]
            return
        half = len(array) // 2
        _search(array[:half], start, rows)
        _search(array[half:], start + half, rows)


def _without(column: pa.ChunkedArray[Any], broken: Broken) -> pa.ChunkedArray[Any]:
    """The column, null where its values are broken."""
    if kinds.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    places = pa.array([None if row in broken[1] else row for row in range(len(column))], pa.int64())
    return pc.take(column, places)


def _as_bytes(kind: pa.DataType) -> pa.DataType:
    """The same type with bytes for texts, at any depth."""
    if kinds.is_string(kind):
        return pa.binary()
    if kinds.is_large_string(kind):
        return pa.large_binary()
    if kinds.is_list(kind):
        return pa.list_(_as_bytes(kind.value_type))
    if kinds.is_map(kind):
        return pa.map_(_as_bytes(kind.key_type), _as_bytes(kind.item_type))
    return pa.struct([field.with_type(_as_bytes(field.type)) for field in kind]) if kinds.is_struct(kind) else kind
