"""Avro's logical types read exactly: what Python has no value for stays as it was written, where fastavro rounds, wraps or gives up.

fastavro takes readers of further logical types by name. So a schema is read with names of ours in the places of the common ones.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from typing import Any
from uuid import UUID

from fastavro.read import LOGICAL_READERS

OURS = "eventide-"
_EXACT = Context(prec=1_000_000, Emin=-999_999, Emax=999_999)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86_400_000_000


def exact(schema: Any) -> Any:
    """A schema of which the logical types are read exactly.

    >>> exact({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2})["logicalType"]
    'eventide-decimal'
    """
    if isinstance(schema, list):
        return [exact(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {name: exact(part) if name in ("type", "items", "values") else part for name, part in schema.items()}
    if "fields" in schema:
        changed["fields"] = [{**field, "type": exact(field["type"])} for field in schema["fields"]]
    if f"{schema['type']}-{schema.get('logicalType')}" in _READERS:
        changed["logicalType"] = OURS + schema["logicalType"]
    return changed


def _instant(zone: Any, per: int) -> Callable[[int], Any]:
    def read(number: int) -> Any:
        try:
            return (_EPOCH + timedelta(microseconds=number * per)).replace(tzinfo=zone)
        except OverflowError:
            return number

    return read


def _clock(per: int) -> Callable[[int], Any]:
    def read(number: int) -> Any:
        micros = number * per
        if not 0 <= micros < _DAY:
            return number
        seconds, micros = divmod(micros, 1_000_000)
        return time(seconds // 3600, seconds // 60 % 60, seconds % 60, micros)

    return read


def _day(number: int) -> Any:
    try:
        return date(1970, 1, 1) + timedelta(days=number)
    except OverflowError:
        return number


def _uuid(text: str) -> Any:
    """Only where it would be written the same way again."""
    try:
        found = UUID(text)
    except ValueError:
        return text
    return found if str(found) == text else text


def _decimal(units: bytes, schema: Any) -> Decimal:
    return Decimal(int.from_bytes(units, "big", signed=True)).scaleb(-schema.get("scale", 0), _EXACT)


_READERS: dict[str, Callable[[Any], Any]] = {
    "long-timestamp-millis": _instant(UTC, 1_000), "long-timestamp-micros": _instant(UTC, 1),
    "long-local-timestamp-millis": _instant(None, 1_000), "long-local-timestamp-micros": _instant(None, 1),
    "int-time-millis": _clock(1_000), "long-time-micros": _clock(1), "int-date": _day, "string-uuid": _uuid,
    "bytes-decimal": bytes, "fixed-decimal": bytes,
}  # fmt: skip


def _registered(name: str, read: Callable[[Any], Any]) -> Callable[..., Any]:
    if name.endswith("-decimal"):
        return lambda units, writer=None, reader=None: _decimal(units, writer)
    return lambda value, writer=None, reader=None: read(value)


for _name, _read in _READERS.items():
    _kind, _, _logical = _name.partition("-")
    LOGICAL_READERS[f"{_kind}-{OURS}{_logical}"] = _registered(_name, _read)
