"""Keys into buckets by a hash that stays the same across processes, machines and library versions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

_PRIME = np.uint64(0x100000001B3)
_SEED = np.uint64(0xCBF29CE484222325)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def bucket_of(frame: pl.DataFrame, keys: Sequence[str], buckets: int) -> pl.Series:
    """The bucket of each row.

    >>> bucket_of(pl.DataFrame({"k": ["a", None, "a"]}), ["k"], 8).to_list() == bucket_of(
    ...     pl.DataFrame({"k": ["a", None, "a"]}), ["k"], 8).to_list()
    True
    """
    if buckets == 1 or not keys:
        return pl.repeat(0, len(frame), dtype=pl.Int32, eager=True)
    with np.errstate(over="ignore"):
        total = np.full(len(frame), _SEED, dtype=np.uint64)
        for name in keys:
            total = _mixed(total * _PRIME ^ _hash(frame[name]))
    return pl.Series((total % np.uint64(buckets)).astype(np.int32))


def _hash(column: pl.Series) -> NDArray[np.uint64]:
    if column.dtype.is_integer() or column.dtype == pl.Duration:  # which has no text
        return _mixed(column.cast(pl.Int64, wrap_numerical=True).fill_null(-1).to_numpy().astype(np.uint64))
    return _hash_text(column.cast(pl.String, strict=False).fill_null("\0null") if _castable(column) else _as_text(column))


def _castable(column: pl.Series) -> bool:
    return (
        column.dtype in (pl.String, pl.Boolean, pl.Float64, pl.Float32, pl.Date)
        or column.dtype.is_decimal()
        or column.dtype.is_temporal()
    )


def _as_text(column: pl.Series) -> pl.Series:
    if column.dtype == pl.Binary:
        return column.bin.encode("hex").fill_null("\0null")
    return pl.select(pl.struct(column).struct.json_encode()).to_series().fill_null("\0null")


def _hash_text(column: pl.Series) -> NDArray[np.uint64]:
    array = column.to_arrow().cast(pa.large_binary())
    _, ends, body = array.buffers()
    offsets = np.frombuffer(memoryview(ends or b"\0" * 8), dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    data = np.frombuffer(memoryview(body or b""), dtype=np.uint8)
    starts, lengths = offsets[:-1], np.diff(offsets)
    total = np.full(len(array), _SEED, dtype=np.uint64)
    for index in range(int(lengths.max(initial=0))):
        live = np.flatnonzero(lengths > index)
        total[live] = (total[live] ^ data[starts[live] + index]) * _PRIME
    return _mixed(total)


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    values = (values ^ (values >> np.uint64(30))) * _MIX[0]
    values = (values ^ (values >> np.uint64(27))) * _MIX[1]
    return values ^ (values >> np.uint64(31))
