"""PostgreSQL's binary COPY format, made from Arrow columns without touching a row in Python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from eventide.sinks import plain
from eventide.sinks.chunks import pieces

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"
EPOCH_DAYS = 10_957  # from 1970, where Arrow counts from, to 2000, where PostgreSQL does
EPOCH_MICROS = EPOCH_DAYS * 86_400_000_000
ROWS = 50_000


def encode(table: pa.Table, order: list[str]) -> Iterator[pa.Buffer]:
    """The rows of a table as COPY wants them, with the columns in the given order; without header and trailer."""
    table = table.select(order)
    for part in (piece for start in range(0, table.num_rows, ROWS) for piece in pieces(table.slice(start, ROWS))):
        columns = [column.combine_chunks() for column in part.columns]
        count = part.num_rows
        cells: list[Any] = [_bytes(np.full(count, len(columns), ">i2"))]
        for column in columns:
            cells += _cells(column)
        rows: Any = pc.binary_join_element_wise(*cells, b"")
        # The joined rows lie one behind the other in one buffer: exactly the stream that COPY reads.
        yield rows.buffers()[2]


def _cells(column: Any) -> list[Any]:
    """A column as (length, bytes) pairs; the length of a null is -1."""
    body = _fixed(column)
    if body is None:
        text = plain.as_text(column) if plain.is_nested(column.type) else column
        text = text.cast(pa.string()) if kinds.is_decimal(text.type) else text
        body = text.cast(pa.binary())
        lengths = pc.fill_null(pc.binary_length(body), -1).to_numpy(zero_copy_only=False)
        return [_bytes(lengths.astype(">i4")), pc.fill_null(body, b"")]
    width = body.dtype.itemsize
    if not column.null_count:
        pair = np.empty(len(column), np.dtype([("length", ">i4"), ("value", body.dtype)]))
        pair["length"], pair["value"] = width, body
        return [_bytes(pair)]
    valid = column.is_valid()
    lengths = np.where(valid.to_numpy(zero_copy_only=False), width, -1).astype(">i4")
    return [_bytes(lengths), pc.if_else(valid, _bytes(body), pa.scalar(b"", pa.binary()))]


def _fixed(column: Any) -> Any:
    """The big-endian values of a column of fixed width, whatever stands where it is null."""
    kind = column.type
    if kinds.is_timestamp(kind):
        column, kind, shift, width = (
            column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()),
            pa.int64(),
            EPOCH_MICROS,
            ">i8",
        )
    elif kinds.is_time(kind):
        column, kind, shift, width = column.cast(pa.time64("us")).cast(pa.int64()), pa.int64(), 0, ">i8"
    elif kinds.is_date32(kind):
        column, kind, shift, width = column.cast(pa.int32()), pa.int32(), EPOCH_DAYS, ">i4"
    elif kinds.is_boolean(kind):
        column, kind, shift, width = column.cast(pa.int8()), pa.int8(), 0, "i1"
    elif kinds.is_integer(kind):
        shift, width = 0, {1: ">i2", 2: ">i2", 4: ">i4", 8: ">i8"}[kind.bit_width // 8]
    elif kinds.is_floating(kind):
        shift, width = 0, ">f8" if kind.bit_width == 64 else ">f4"
    else:
        return None
    values = pc.fill_null(column, pa.scalar(0, kind)).to_numpy(zero_copy_only=False)
    return (values - shift if shift else values).astype(width)


def _bytes(values: Any) -> Any:
    """Each element's bytes as one binary value."""
    width = values.dtype.itemsize
    offsets = pa.py_buffer((np.arange(len(values) + 1, dtype=np.int32) * np.int32(width)).tobytes())
    return pa.Array.from_buffers(
        pa.binary(), len(values), [None, offsets, pa.py_buffer(np.ascontiguousarray(values).tobytes())]
    )
