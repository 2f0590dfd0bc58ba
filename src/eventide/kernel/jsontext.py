"""Columns as one JSON text for each row; bytes, for which JSON has no word, in base64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from eventide.kernel.leaves import changed, entries


def json_of(columns: Sequence[str], kinds: Mapping[str, pl.DataType]) -> pl.Expr:
    r"""The named columns as a JSON object.

    JSON has no NaN and no infinities, so numbers with a point are written as texts: different values have different texts.

    >>> frame = pl.DataFrame({"n": [1], "raw": [b"\x00a"], "tags": [[{"key": "t", "value": b"x"}]], "share": [float("nan")]})
    >>> frame.select(json_of(frame.columns, frame.schema)).item()
    '{"n":1,"raw":"AGE=","tags":[{"key":"t","value":"eA=="}],"share":"NaN"}'
    """
    return pl.struct([_written(pl.col(name), kinds[name]).alias(name) for name in columns]).struct.json_encode()


def _written(value: pl.Expr, kind: pl.DataType) -> pl.Expr:
    if isinstance(kind, pl.Map):
        value, kind = value.cast(entries(kind)), entries(kind)
    texts = changed(value, kind, lambda leaf: leaf.is_float(), lambda leaf: leaf.cast(pl.String))
    return changed(
        texts, _without_floats(kind), lambda leaf: isinstance(leaf, pl.Binary), lambda leaf: leaf.bin.encode("base64")
    )


def _without_floats(kind: pl.DataType) -> pl.DataType:
    if isinstance(kind, pl.List):
        return pl.List(_without_floats(kind.inner() if isinstance(kind.inner, type) else kind.inner))
    if isinstance(kind, pl.Struct):
        return pl.Struct({f.name: _without_floats(f.dtype() if isinstance(f.dtype, type) else f.dtype) for f in kind.fields})
    return pl.String() if kind.is_float() else kind
