"""Texts (cells of CSV, text columns of typed files) in the types that were declared: each the value that it says, or named."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from eventide.engine.feeds.calendar import undated
from eventide.engine.feeds.columnar import arrow_kind, column_of
from eventide.engine.feeds.text_times import Times, in_halves
from eventide.engine.feeds.values import Misfit, from_text


def from_texts(texts: pl.Series, kind: pl.DataType, times: Times) -> tuple[pl.Series, dict[int, str]]:
    """A column of what the texts say, and for each row whose text says no such value why.

    The few that do not come through at once are read one by one.

    >>> column, wrong = from_texts(pl.Series(["1", None, "x"]), pl.Int64(), Times())
    >>> column.to_list(), list(wrong)
    ([1, None, None], [2])
    """
    column = _read_together(texts, kind, times)
    missed = (column.is_null() & texts.is_not_null()).arg_true().to_list()
    if not missed:
        return column, {}
    read = from_text(kind, times)
    values: list[Any] = [None] * len(texts)
    wrong = {}
    for row in missed:
        try:
            values[row] = read(texts[row])
        except Misfit as error:
            wrong[row] = str(error)
    return pl.select(pl.coalesce(pl.lit(column), pl.lit(column_of(values, kind)))).to_series(), wrong


def _read_together(texts: pl.Series, kind: pl.DataType, times: Times) -> pl.Series:
    """Null where a text is not, or not surely, a value of the type."""
    if kind == pl.String:
        return texts
    if isinstance(kind, pl.Datetime):
        return times.instants(texts).cast(kind)
    if kind.is_integer():
        return texts.cast(kind, strict=False)
    if kind.is_float():
        read = texts.cast(pl.Float64, strict=False).cast(kind, strict=False)
        return pl.select(pl.when(pl.lit(read).is_infinite()).then(None).otherwise(pl.lit(read))).to_series().cast(kind)
    if isinstance(kind, pl.Decimal | pl.Date):
        absurd = pl.lit(texts).str.contains(r"[eE][+-]?[0-9]{4}")  # over such exponents Arrow ends the process
        texts = pl.select(pl.when(~absurd).then(pl.lit(texts))).to_series()
        done = in_halves(texts.to_arrow().cast(pa.string()), lambda part: pc.cast(part, arrow_kind(kind)))
        read = pl.Series(done, dtype=kind)
        return pl.select(pl.when(~pl.lit(undated(read))).then(pl.lit(read))).to_series()
    return pl.repeat(None, len(texts), dtype=kind, eager=True)
