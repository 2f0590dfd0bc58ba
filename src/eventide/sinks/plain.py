"""Values as JSON can carry them: exact decimals, UTC instants, bytes in base64, nothing that a parser chokes on."""

from __future__ import annotations

import base64
import json
import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa


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
        return value.total_seconds()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items()}
    return [plain(part) for part in value]


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
    """Python values; maps become dicts."""
    if pa.types.is_map(column.type):
        return [None if value is None else dict(value) for value in column.to_pylist()]
    return list(column.to_pylist())
