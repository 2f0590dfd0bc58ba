"""Values as JSON can carry them: exact decimals, UTC instants, bytes in base64, nothing that a parser chokes on."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, cast

import pyarrow as pa

from eventide.errors import SinkRefused


def plain(value: Any) -> Any:
    r"""One value, made of what JSON knows.

    >>> plain({"paid": Decimal("1.10"), "raw": b"\x00", "ratio": float("nan"), "none": None})
    {'paid': '1.10', 'raw': 'AA==', 'ratio': 'NaN', 'none': None}
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime):
        utc = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        return utc.isoformat(timespec="microseconds") + ("Z" if value.tzinfo else "")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return _seconds(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {_name(name): plain(part) for name, part in value.items()}
    return [plain(part) for part in value]


def _seconds(span: timedelta) -> float:
    """A span of time in seconds; one that a float cannot say to the microsecond (longer than 285 years) is refused."""
    seconds = span.total_seconds()
    if timedelta(seconds=seconds) != span:
        raise SinkRefused(
            f"the span {span!r} cannot be said in seconds to the microsecond. Make it whole microseconds in a .map(…)."
        )
    return seconds


def _name(key: Any) -> str:
    """The key of a map, which is a text in JSON: as a value would be written, so that who reads it back finds the same key."""
    said = plain(key)
    return said if isinstance(said, str) else json.dumps(said, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def text(value: Any) -> str | None:
    """One value as JSON text; None stays None, for a column that may be null."""
    return None if value is None else json.dumps(plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def is_nested(kind: pa.DataType) -> bool:
    """Whether a column holds arrays, structs or maps."""
    return pa.types.is_nested(kind)


def rows(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of a table as JSON can carry them."""
    columns = [[plain(value) for value in python_values(column)] for column in table.columns]
    return [dict(zip(table.column_names, values, strict=True)) for values in zip(*columns, strict=True)]


def as_text(column: Any) -> Any:
    """A nested column as a column of JSON texts."""
    return pa.array([text(value) for value in python_values(column)], pa.string())


def python_values(column: Any) -> list[Any]:
    """Python values; maps become dicts by the texts of their keys, at any depth.

    >>> python_values(pa.array([[[("a", 1)]], None], pa.list_(pa.map_(pa.string(), pa.int64()))))
    [[{'a': 1}], None]
    """
    read = _maps_in(column.type)
    try:
        if pa.types.is_time64(column.type):  # of which Python would leave out the nanoseconds without a word
            column = column.cast(pa.time64("us"))
        values = column.to_pylist()
    except (ValueError, OverflowError) as error:  # nanoseconds, and years that Python does not know
        raise SinkRefused(f"a value of type {column.type} cannot be written as text: {error}") from error
    return list(values) if read is None else [read(value) for value in values]


def _maps_in(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """A function that makes dicts of the maps in a value of a type; None if there can be none in it."""
    if pa.types.is_map(kind):
        inner = _maps_in(kind.item_type)
        return lambda pairs: None if pairs is None else _entries(pairs, inner)
    if pa.types.is_struct(kind):
        parts = {field.name: read for field in kind if (read := _maps_in(field.type)) is not None}
        if not parts:
            return None
        return lambda value: None if value is None else {**value, **{name: read(value[name]) for name, read in parts.items()}}
    each = _maps_in(cast(Any, kind).value_type) if is_nested(kind) else None
    return None if each is None else lambda values: None if values is None else [each(value) for value in values]


def _entries(pairs: list[tuple[Any, Any]], read: Callable[[Any], Any] | None) -> dict[str, Any]:
    found = {_name(key): value if read is None else read(value) for key, value in pairs}
    if len(found) < len(pairs):
        raise SinkRefused(
            f"a map has a key twice, and an object cannot: {str(pairs)[:200]}. Make a list of its entries in a .map(…)."
        )
    return found
