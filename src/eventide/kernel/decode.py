"""Bytes into columns, many rows at once; a row that cannot be read is named with its reason, never a row of nulls."""

from __future__ import annotations

import io
import json

import polars as pl

from eventide.kernel.columns import DEAD

Kinds = dict[str, pl.DataType]


def decode_json(values: pl.Series, kinds: Kinds) -> pl.DataFrame:
    """JSON objects, one for each row, as the columns asked for, and why a row is a dead letter.

    >>> decode_json(pl.Series([b'{"n": 1}', b"{oops", None]), {"n": pl.Int64()})["n"].to_list()
    [1, None, None]
    """
    present = values.fill_null(b"")
    return _decode(present, kinds).with_columns(
        pl.when(values.is_null()).then(pl.lit("the value is null")).otherwise(pl.col(DEAD)).alias(DEAD)
    )


def _decode(values: pl.Series, kinds: Kinds) -> pl.DataFrame:
    """Try all at once; where that fails, halve until the bad rows stand alone."""
    try:
        rows = pl.read_ndjson(io.BytesIO(b"\n".join(values.to_list())), schema=kinds)
        if len(rows) == len(values):
            return rows.with_columns(pl.lit(None, dtype=pl.String).alias(DEAD))
        reason = "not one JSON object"
    except (pl.exceptions.PolarsError, ValueError) as error:
        reason = str(error).splitlines()[0]
    if len(values) == 1:
        return _decode_one(values[0], kinds, reason)
    half = len(values) // 2
    return pl.concat([_decode(values[:half], kinds), _decode(values[half:], kinds)])


def _decode_one(value: bytes, kinds: Kinds, reason: str) -> pl.DataFrame:
    """The last chance of a row: JSON over several lines is no fault."""
    nothing = pl.DataFrame({name: [None] for name in kinds}, schema=kinds)
    try:
        flat = json.dumps(json.loads(value)).encode()
        if not value.strip().startswith(b"{"):
            return nothing.with_columns(pl.lit("not a JSON object").alias(DEAD))
        rows = pl.read_ndjson(io.BytesIO(flat), schema=kinds)
        return rows.with_columns(pl.lit(None, dtype=pl.String).alias(DEAD))
    except (ValueError, UnicodeDecodeError, RecursionError):
        return nothing.with_columns(pl.lit(f"not JSON: {reason}").alias(DEAD))
    except pl.exceptions.PolarsError as error:
        return nothing.with_columns(pl.lit(f"another schema: {str(error).splitlines()[0]}").alias(DEAD))
