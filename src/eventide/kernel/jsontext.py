"""Columns as one JSON text for each row; bytes, for which JSON has no word, in base64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl


def json_of(columns: Sequence[str], kinds: Mapping[str, pl.DataType]) -> pl.Expr:
    r"""The named columns as a JSON object.

    >>> frame = pl.DataFrame({"n": [1], "raw": [b"\x00a"], "tags": [[{"key": "t", "value": b"x"}]]})
    >>> frame.select(json_of(frame.columns, frame.schema)).item()
    '{"n":1,"raw":"AGE=","tags":[{"key":"t","value":"eA=="}]}'
    """
    return pl.struct([_written(pl.col(name), kinds[name]).alias(name) for name in columns]).struct.json_encode()


def _written(value: pl.Expr, kind: pl.DataType) -> pl.Expr:
    if not _holds_bytes(kind):
        return value
    if isinstance(kind, pl.List):
        return value.list.eval(_written(pl.element(), _typed(kind.inner)))
    if isinstance(kind, pl.Struct):
        parts = [_written(value.struct.field(f.name), _typed(f.dtype)).alias(f.name) for f in kind.fields]
        return pl.when(value.is_not_null()).then(pl.struct(parts))
    return value.bin.encode("base64")


def _holds_bytes(kind: pl.DataType) -> bool:
    if isinstance(kind, pl.List):
        return _holds_bytes(_typed(kind.inner))
    if isinstance(kind, pl.Struct):
        return any(_holds_bytes(_typed(field.dtype)) for field in kind.fields)
    return isinstance(kind, pl.Binary)


def _typed(kind: object) -> pl.DataType:
    typed = kind() if isinstance(kind, type) else kind
    assert isinstance(typed, pl.DataType)
    return typed
