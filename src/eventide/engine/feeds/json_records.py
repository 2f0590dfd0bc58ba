"""JSON records as columns, each record by itself: many at once where all of them fit, and one by one where not.

Arrow reads many records at once, strictly: a number is taken from its digits, a text is no number, a name that stands twice is an error. That
records begin with a brace and end with one keeps them apart: where a line ends no object can be open, so as many objects as records means one for
each. What Arrow refuses is read by itself, more leniently where that is exact (1.0 is a whole number, bytes are base64, maps are objects).
"""

from __future__ import annotations

import io
import re
from typing import Any, cast

import polars as pl
import pyarrow as pa
import pyarrow.json as pajson

from eventide.engine.feeds.calendar import undated
from eventide.engine.feeds.columnar import Kinds, arrow_kind, fitter, frame_of, texts_of
from eventide.engine.feeds.text_times import FEW, ISO, Times
from eventide.engine.feeds.values import Misfit, is_map, parsed, typed
from eventide.kernel.columns import DEAD, NO_VALUE
from eventide.kernel.leaves import any_leaf, holds

MOST_BYTES = 256 * 1024 * 1024
"""What Arrow is given at once."""
ABSURD = re.compile(rb"[eE][+-]?[0-9]{4}")
"""Exponents over which Arrow's reader of decimals ends the process; such records are read one by one."""


def decode_json(values: pl.Series, kinds: Kinds, times: Times = ISO) -> pl.DataFrame:
    """JSON objects, one for each row, as the columns asked for, and why a row is a dead letter.

    >>> decode_json(pl.Series([b'{"n": 1}', b"{oops", None]), {"n": pl.Int64()})["n"].to_list()
    [1, None, None]
    """
    reader = _Records(kinds, times)
    if not len(values):
        return reader.each(values)
    whole = _whole(values) if reader.at_once else pl.repeat(False, len(values), eager=True)
    if whole.all():
        return reader.halved(values)
    order = pl.int_range(len(values), eager=True)
    parts = [reader.halved(values.filter(whole)) if whole.any() else None, reader.each(values.filter(~whole))]
    back = pl.concat([order.filter(whole), order.filter(~whole)]).arg_sort()
    return pl.concat([part for part in parts if part is not None])[back]


def _whole(values: pl.Series) -> pl.Series:
    """Which records begin with a brace, end with one, and are UTF-8."""
    braced = values.bin.starts_with(b"{") & values.bin.ends_with(b"}")
    return (braced & texts_of(values).is_not_null()).fill_null(False)


class _Records:
    def __init__(self, kinds: Kinds, times: Times) -> None:
        self.kinds, self.times = kinds, times
        self.read = fitter(kinds, times)
        self.at_once = all(_simple(kind, times) for kind in kinds.values())
        """Whether Arrow can read these columns; otherwise every record is read by itself."""
        self.decimals = any(isinstance(kind, pl.Decimal) for kind in kinds.values())
        if self.at_once:
            self.given = pa.schema([(name, _given(arrow_kind(kind), times)) for name, kind in kinds.items()])

    def halved(self, records: pl.Series) -> pl.DataFrame:
        """Many at once, or in two halves, or each by itself."""
        if len(records) <= FEW:
            few = self._together(records)
            return self.each(records) if few is None else few
        found = self._together(records)
        if found is not None:
            return found
        half = len(records) // 2
        return pl.concat([self.halved(records[:half]), self.halved(records[half:])])

    def each(self, records: pl.Series) -> pl.DataFrame:
        rows: list[list[Any] | None] = []
        reasons: list[str | None] = []
        alone: dict[int, pl.DataFrame] = {}
        for index, record in enumerate(records.to_list()):
            row, reason = None, None
            if record is None:
                reason = NO_VALUE
            else:
                try:
                    value = parsed(record)
                    if not isinstance(value, dict):
                        raise Misfit("not a JSON object")
                    row = self.read(value)
                except Misfit as error:
                    reason = str(error)
                    # What Arrow reads among others it must read alone too: no record's fate hangs on its neighbours.
                    read = (
                        self._together(records[index : index + 1])
                        if self.at_once and _whole(records[index : index + 1])[0]
                        else None
                    )
                    if read is not None:
                        alone[index], reason = read, None
            rows.append(row)
            reasons.append(reason)
        frame = frame_of(rows, self.kinds, reasons)
        for index, read in alone.items():
            frame = pl.concat([frame[:index], read, frame[index + 1 :]])
        return frame

    def _together(self, records: pl.Series) -> pl.DataFrame | None:
        """All records as Arrow reads them; None unless each of them is one object whose values all fit."""
        array = records.to_arrow().cast(pa.large_binary())
        if array.nbytes > MOST_BYTES and len(array) > FEW:
            return None
        text = b"\n".join(cast(list[bytes], array.to_pylist()))  # records that begin with a brace: none is null
        if self.decimals and ABSURD.search(text):
            return None
        body = io.BytesIO(text)
        size = body.getbuffer().nbytes
        try:
            table = pajson.read_json(
                body,
                read_options=pajson.ReadOptions(use_threads=False, block_size=size + 1),
                parse_options=pajson.ParseOptions(explicit_schema=self.given, unexpected_field_behavior="ignore"),
            )
            if table.num_rows != len(records):
                return None
            table = table.cast(pa.schema([(name, _cast(arrow_kind(kind), self.times)) for name, kind in self.kinds.items()]))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, OverflowError):
            return None
        frame = pl.DataFrame(pl.from_arrow(table))
        finished = [self._finished(frame[name], kind) for name, kind in self.kinds.items()]
        if any(column is None for column in finished):
            return None
        return pl.DataFrame(
            [*[c for c in finished if c is not None], pl.repeat(None, len(frame), dtype=pl.String, eager=True).alias(DEAD)]
        )

    def _finished(self, column: pl.Series, kind: pl.DataType) -> pl.Series | None:
        """A column in its own type; None where a value of it did not come through."""
        if isinstance(kind, pl.Datetime) and column.dtype == pl.String:
            read = self.times.instants(column).alias(column.name)
            return read if read.null_count() == column.null_count() else None
        if undated(column).any() or _has_infinity(column):
            return None
        if isinstance(kind, pl.Decimal):
            units = column.to_physical().abs().max()
            return None if isinstance(units, int) and units >= 10 ** (kind.precision or 38) else column
        if kind == pl.Float32:
            near = column.cast(pl.Float32, strict=False)
            return None if (near.is_infinite() & column.is_finite()).any() else near
        return column if column.dtype == kind else column.cast(kind)


def _has_infinity(column: pl.Series) -> bool:
    """JSON has no infinity: a number beyond the largest was read as one."""
    infinite = any_leaf(pl.col("value"), column.dtype, lambda leaf: leaf == pl.Float64, lambda leaf: leaf.is_infinite())
    return bool(column.alias("value").to_frame().select(infinite.any()).item())


def _simple(kind: pl.DataType, times: Times) -> bool:
    """Whether Arrow reads all values of a type, and exactly."""
    if kind.is_nested():
        hard = (pl.Decimal, pl.Float32) if times.plain else (pl.Decimal, pl.Float32, pl.Datetime)
        return not has_map(kind) and not holds(
            kind, lambda leaf: isinstance(leaf, (*hard, pl.Binary, pl.Time, pl.Duration, pl.Null))
        )
    return kind.is_integer() or isinstance(
        kind, pl.Boolean | pl.Float64 | pl.Float32 | pl.String | pl.Decimal | pl.Date | pl.Datetime
    )


def has_map(kind: pl.DataType) -> bool:
    """Whether a type is a map, or has one inside."""
    if isinstance(kind, pl.List):
        return is_map(kind) or has_map(typed(kind.inner))
    return isinstance(kind, pl.Map) or (
        isinstance(kind, pl.Struct) and any(has_map(typed(field.dtype)) for field in kind.fields)
    )


def _given(kind: pa.DataType, times: Times) -> pa.DataType:
    """The type that Arrow's reader is told: days as texts, and instants too where a zone or a form decides."""
    if pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and not times.plain):
        return pa.string()
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_float32(kind):
        return pa.float64()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_given(kind.value_type, times))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _given(field.type, times)) for field in kind])
    return kind


def _cast(kind: pa.DataType, times: Times) -> pa.DataType:
    """The type that the table is cast to: days become days; the rest is as it was given."""
    if pa.types.is_date(kind):
        return kind
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_cast(kind.value_type, times))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _cast(field.type, times)) for field in kind])
    return _given(kind, times)
