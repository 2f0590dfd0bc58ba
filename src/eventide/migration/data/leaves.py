"""The leaves of a mapping in a Polars frame: flat, typed as the schema says, null where the frame has none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from eventide.migration.plan.expression import forgiving, with_paths
from eventide.migration.plan.shape import Leaf

_CAST_TIME = re.compile(r"\bTRY_CAST\(\s*\"([^\"]+)\"\s+AS\s+(DATE|TIMESTAMP)\s*\)", re.IGNORECASE)
_UNITS: Mapping[str, Any] = {"millis": "ms", "micros": "us", "nanos": "ns"}


def flattened(frame: pl.DataFrame | pl.LazyFrame, paths: Iterable[str], leaves: Mapping[str, Leaf]) -> pl.LazyFrame:
    """A lazy frame with one column per path, named by it; whatever else the frame has is gone."""
    lazy = frame.lazy()
    schema = lazy.collect_schema()
    wanted = list(dict.fromkeys(paths))
    # Not select: a frame that has none of them must keep its number of rows.
    return lazy.with_columns(typed(path, schema, leaves.get(path)).alias(path) for path in wanted).select(wanted)


def typed(path: str, schema: Mapping[str, Any], leaf: Leaf | None) -> pl.Expr:
    """One leaf of a frame in the type that its schema gives it; a null if the frame has no such column."""
    top, *below = path.split(".")
    dtype = schema.get(top)
    expression = pl.col(top)
    for name in below:
        inner = {f.name: f.dtype for f in dtype.fields} if isinstance(dtype, pl.Struct) else {}
        dtype = inner.get(name)
        expression = expression.struct.field(name)
    if dtype is None:
        return pl.lit(None)
    return _as_time(expression, dtype, leaf)


def _as_time(expression: pl.Expr, dtype: Any, leaf: Leaf | None) -> pl.Expr:
    """Dates and timestamps as such, whether they came as text, as a number since 1970 or with a time zone."""
    kind = leaf.type if leaf is not None else ""
    if isinstance(dtype, pl.Datetime) and dtype.time_zone is not None:
        return expression.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    if kind == "date" and dtype == pl.String:
        return expression.str.slice(0, 10).str.to_date("%Y-%m-%d", strict=False)
    if kind == "date" and dtype.is_integer():
        return expression.cast(pl.Int32).cast(pl.Date)
    if kind == "timestamp" and dtype == pl.String:
        return _moment(expression)
    if kind == "timestamp" and dtype.is_integer():
        logical = leaf.definition.get("logicalType", "") if leaf is not None and isinstance(leaf.definition, dict) else ""
        unit = _UNITS.get(logical.rpartition("-")[2], "ms")
        return expression.cast(pl.Int64).cast(pl.Datetime(unit))
    return expression


def _moment(expression: pl.Expr) -> pl.Expr:
    """ISO 8601 text as UTC without a zone; text without an offset is UTC already, a date alone is its midnight."""
    text = expression.str.replace(" ", "T", literal=True)
    zoned = text.str.replace(r"Z$", "+00:00").str.to_datetime("%Y-%m-%dT%H:%M:%S%.f%:z", strict=False)
    bare = text.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", strict=False, time_unit="us")
    midnight = text.str.to_date("%Y-%m-%d", strict=False).cast(pl.Datetime("us"))
    plain = zoned.dt.convert_time_zone("UTC").dt.replace_time_zone(None).cast(pl.Datetime("us"))
    return pl.coalesce(plain, bare, midnight)


def with_value(lazy: pl.LazyFrame, name: str, sql: str, columns: Mapping[str, str] | None = None) -> pl.LazyFrame:
    """The frame with a mapping's expression as one more column; what cannot be converted becomes a null.

    Every path is a column of its own, under the path's name or the one that `columns` gives.

    >>> frame = pl.LazyFrame({"pricing.base": [700], "pricing.tax": [70]})
    >>> with_value(frame, "fare", "pricing.base + pricing.tax").collect()["fare"].item()
    770
    """
    schema = lazy.collect_schema()
    names = columns or {}
    text = forgiving(with_paths(sql, lambda path: f'"{names.get(path, path)}"'))
    # Polars does not cast text to a date or a timestamp, so such a cast reads a column made for it.
    made: dict[str, pl.Expr] = {}

    def from_text(match: re.Match[str]) -> str:
        path, kind = match[1], match[2].upper()
        if schema.get(path) != pl.String:
            return match[0]
        made[f"{path} as {kind}"] = _moment(pl.col(path)).cast(pl.Date if kind == "DATE" else pl.Datetime("us"))
        return f'"{path} as {kind}"'

    expression = pl.sql_expr(_CAST_TIME.sub(from_text, text))
    return lazy.with_columns(**made).with_columns(expression.alias(name)).drop(list(made))
