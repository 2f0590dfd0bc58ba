"""Tables of any size: Arrow's texts, bytes and lists count 2 GiB in one piece at most, so large ones are handled in several."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

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
    wide = table.cast(pa.schema([field.with_type(_wide(field.type)) for field in table.schema]))
    wide = wide.combine_chunks()  # once, and not again for each part
    step = max(1, table.num_rows * LIMIT // table.nbytes)
    parts = [narrowed(wide.take(places[start : start + step]), table.schema) for start in range(0, len(places), step)]
    return pa.concat_tables(parts) if parts else table.slice(0, 0)


def _wide(kind: Any) -> pa.DataType:
    """The same type in its variant that counts further, at any depth."""
    if kinds.is_string(kind):
        return pa.large_string()
    if kinds.is_binary(kind):
        return pa.large_binary()
    if kinds.is_list(kind):
        return pa.large_list(kind.value_field.with_type(_wide(kind.value_type)))
    if kinds.is_struct(kind):
        return pa.struct([part.with_type(_wide(part.type)) for part in kind])
    return pa.map_(_wide(kind.key_type), _wide(kind.item_type)) if kinds.is_map(kind) else kind
