"""Lists of fitted values as columns, and the row in which the first misfit stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from eventide.engine.feeds.text_times import Times
from eventide.engine.feeds.values import Fields, Misfit, fit, named
from eventide.kernel.columns import DEAD

Kinds = dict[str, pl.DataType]
Row = dict[str, Any]


def fitter(kinds: Kinds, times: Times) -> Callable[[Row], list[Any]]:
    """A function from a record to the values of its columns; raises `Misfit` with the column's name."""
    fits = [(name, fit(kind, times)) for name, kind in kinds.items()]

    def read(row: Row) -> list[Any]:
        values = []
        for name, part in fits:
            value = row.get(name) if not isinstance(row, Fields) else named(row, name)
            try:
                values.append(None if value is None else part(value))
            except Misfit as error:
                raise Misfit(f"another schema: the column {name!r}: {error}") from None
        return values

    return read


def frame_of(rows: Sequence[list[Any] | None], kinds: Kinds, reasons: Sequence[str | None]) -> pl.DataFrame:
    """Fitted rows as columns, and beside them why a row is a dead letter; one without a reason has all its values."""
    nothing: list[Any] = [None] * len(kinds)
    columns = list(zip(*(nothing if row is None else row for row in rows), strict=True)) if rows else [()] * len(kinds)
    made = {name: column_of(values, kind) for (name, kind), values in zip(kinds.items(), columns, strict=True)}
    for (name, series), values in zip(made.items(), columns, strict=True):
        if series.null_count() != sum(value is None for value in values):
            raise AssertionError(f"a value of the column {name!r} became null")
    return pl.DataFrame({**made, DEAD: pl.Series(reasons, dtype=pl.String)})


def column_of(values: Sequence[Any], kind: pl.DataType) -> pl.Series:
    """Fitted values as a column."""
    array = pa.array(values, type=arrow_kind(kind))
    found = pl.from_arrow(array)
    assert isinstance(found, pl.Series)
    return found if found.dtype == kind else found.cast(kind)


def texts_of(values: pl.Series) -> pl.Series:
    """Bytes as texts, null where they are not UTF-8."""
    array = values.to_arrow().cast(pa.large_binary())
    try:
        return pl.Series(values.name, array.cast(pa.large_string()), dtype=pl.String)
    except pa.ArrowInvalid:
        return pl.Series(values.name, [_text(value) for value in array.to_pylist()], dtype=pl.String)


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def arrow_kind(kind: pl.DataType) -> pa.DataType:
    """A type as Arrow has it."""
    kind_of: pa.DataType = pl.Series([], dtype=kind).to_arrow(compat_level=pl.CompatLevel.oldest()).type
    return kind_of
