"""Tables of any size: Arrow's texts, bytes and lists count 2 GiB in one piece at most, so large ones are handled in several."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
import pyarrow as pa

LIMIT = 1 << 28
"""Bytes that a piece may have; a single row may have more."""


def pieces(table: pa.Table) -> Iterator[pa.Table]:
    """A table as slices of bounded size, in their order.

    >>> [len(piece) for piece in pieces(pa.table({"n": [1, 2, 3]}))]
    [3]
    """
    if table.nbytes <= LIMIT or table.num_rows < 2:
        yield table
        return
    half = table.num_rows // 2
    yield from pieces(table.slice(0, half))
    yield from pieces(table.slice(half))


def narrowed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table with other types, such as those that count less far."""
    return pa.concat_tables([piece.cast(schema) for piece in pieces(table)]) if table.num_rows else table.cast(schema)


def taken(table: pa.Table, places: Any) -> pa.Table:
    """The rows at some places, in their order. Arrow joins the chunks of a column first, which is too much for a large one."""
    if table.nbytes <= LIMIT:
        return table.take(places)
    frame = pl.DataFrame(pl.from_arrow(table))  # which refers to the texts where they are; Arrow would copy them all
    rows = pl.Series(places)
    step = max(1, table.num_rows * LIMIT // table.nbytes)
    parts = [narrowed(_arrow(frame[rows[start : start + step]]), table.schema) for start in range(0, len(rows), step)]
    return pa.concat_tables(parts) if parts else table.slice(0, 0)


def _arrow(frame: pl.DataFrame) -> pa.Table:
    return frame.to_arrow(compat_level=pl.CompatLevel.oldest())
