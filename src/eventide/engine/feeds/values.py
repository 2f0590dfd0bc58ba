"""Values into columns, exactly: what a column cannot hold as it is, is a `Misfit`, never another value."""

from __future__ import annotations

import base64
import math
import re
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Context, Decimal, InvalidOperation
from typing import Any
from uuid import UUID

import polars as pl

from eventide.engine.feeds.calendar import FIRST_MICROS, LAST_MICROS
from eventide.engine.feeds.text_times import Times

Fit = Callable[[Any], Any]
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,6})?", re.ASCII)
NOT_FINITE = {"nan": math.nan, "infinity": math.inf, "inf": math.inf, "-infinity": -math.inf, "-inf": -math.inf}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WIDE = Context(prec=200)


class Misfit(ValueError):
    """A value that its column cannot hold."""


class Number(str):
    """A number as a text says it: no digit is lost before its column is known."""

    __slots__ = ()


class Fields(dict[str, Any]):
    """A JSON object; a name that stands twice in it is remembered."""

    twice: frozenset[str] = frozenset()

    @classmethod
    def of(cls, pairs: list[tuple[str, Any]]) -> Fields:
        """From the names and values as they stand."""
        fields = cls(pairs)
        if len(fields) < len(pairs):
            names = [name for name, _ in pairs]
            fields.twice = frozenset(name for name in names if names.count(name) > 1)
        return fields


class Stamp(dict[str, int]):
    """Seconds and nanoseconds since 1970, as Protobuf has them; a column may be an instant or a struct of the two."""


def fit(kind: pl.DataType, times: Times) -> Fit:
    """A function from a value (of Python, or of JSON with numbers as `Number`) to what a column of this type holds.

    >>> fit(pl.Decimal(12, 2), Times())(Number("1.10"))
    Decimal('1.10')
    """
    inner = _fit(kind, times)
    return lambda value: None if value is None else inner(value)


def shown(value: Any) -> str:
    """A value for a reason, cut where it is long."""
    text = value if isinstance(value, Number) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _fit(kind: pl.DataType, times: Times) -> Fit:
    if isinstance(kind, pl.Struct):
        return _struct(kind, times)
    if isinstance(kind, pl.List):
        return _list(kind, times)
    if isinstance(kind, pl.Map):
        return _map(kind, times)
    if isinstance(kind, pl.Decimal):
        return _decimal(kind)
    if kind.is_integer():
        return _whole(kind)
    if isinstance(kind, pl.Datetime):
        return _instant(kind, times)
    plain = _PLAIN.get(type(kind))
    if plain is None:
        raise Misfit(f"no value can be read as {kind}")
    return plain


def typed(kind: object) -> pl.DataType:
    """A type of Polars as an instance, where it was given as a class."""
    found = kind() if isinstance(kind, type) else kind
    assert isinstance(found, pl.DataType)
    return found


def is_map(kind: pl.DataType) -> bool:
    """Whether a type is how Arrow holds a map: a list of keys with values."""
    return (
        isinstance(kind, pl.List)
        and isinstance(kind.inner, pl.Struct)
        and [f.name for f in kind.inner.fields] == ["key", "value"]
    )


def _struct(kind: pl.Struct, times: Times) -> Fit:
    fits = {field.name: fit(typed(field.dtype), times) for field in kind.fields}

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise Misfit(f"{shown(value)} is no object")
        return {name: part(named(value, name)) for name, part in fits.items()}

    return read


def named(fields: dict[str, Any], name: str) -> Any:
    """A field's value; one that stands twice has none."""
    if isinstance(fields, Fields) and name in fields.twice:
        raise Misfit(f"the name {name!r} stands twice in one object")
    return fields.get(name)


def _list(kind: pl.List, times: Times) -> Fit:
    each = fit(typed(kind.inner), times)
    entries = is_map(kind)
    inner = kind.inner
    key = _key(typed(inner.fields[0].dtype), times) if entries and isinstance(inner, pl.Struct) else None

    def read(value: Any) -> Any:
        if key is not None and isinstance(value, dict) and not isinstance(value, Stamp):
            if isinstance(value, Fields) and value.twice:
                raise Misfit(f"the name {min(value.twice)!r} stands twice in one object")
            return [{**each({"key": None, "value": part}), "key": key(name)} for name, part in value.items()]
        if not isinstance(value, list | tuple):
            raise Misfit(f"{shown(value)} is no list")
        return [each(part) for part in value]

    return read


def _map(kind: pl.Map, times: Times) -> Fit:
    """A map that was declared as one: pairs of key and value, as Arrow takes them."""
    entries = pl.Struct({"key": typed(kind.key), "value": typed(kind.value)})
    read = _list(pl.List(entries), times)

    def pairs(value: Any) -> Any:
        found = [(None if entry is None else entry["key"], entry and entry["value"]) for entry in read(value)]
        keys = [key for key, _ in found]
        if None in keys:
            raise Misfit("a map has no null among its keys")
        if any(keys.count(key) > 1 for key in keys):
            raise Misfit(f"a key of {shown(value)} stands twice")
        return found

    return pairs


def _key(kind: pl.DataType, times: Times) -> Fit:
    """The keys of a map are texts in JSON, whatever they stand for."""
    plain, text = fit(kind, times), from_text(kind, times)
    return lambda value: text(value) if isinstance(value, str) and kind != pl.String else plain(value)


def _whole(kind: pl.DataType) -> Fit:
    bits = int(str(kind).lower().removeprefix("u").removeprefix("int"))
    low, high = (0, 2**bits - 1) if not kind.is_signed_integer() else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)

    def read(value: Any) -> Any:
        if type(value) is not int:
            value = _integral(value)
        if not low <= value <= high:
            raise Misfit(f"{shown(value)} does not fit {kind}")
        return value

    return read


def _integral(value: Any) -> int:
    """A number without a fraction, however it is written: 1.0 and 1e3 are whole."""
    if isinstance(value, Number | Decimal) or type(value) is float:
        try:
            number = Decimal(value)
            if number.is_finite() and number.adjusted() < 40 and number == number.to_integral_value(context=_WIDE):
                return int(number)
        except InvalidOperation:
            pass
    raise Misfit(f"{shown(value)} is no whole number")


def _decimal(kind: pl.Decimal) -> Fit:
    scale, most = kind.scale, 10 ** (kind.precision or 38)

    def read(value: Any) -> Any:
        if (isinstance(value, str) and NUMBER.fullmatch(value) is None) or isinstance(value, bool):
            raise Misfit(f"{shown(value)} is no number")
        if not isinstance(value, int | float | str | Decimal):
            raise Misfit(f"{shown(value)} is no number")
        number = Decimal(value)
        if not number.is_finite() or (number and not -100 < number.adjusted() < 40):
            raise Misfit(f"{shown(value)} does not fit decimal({kind.precision}, {scale})")
        units = number.scaleb(scale, _WIDE)
        if units != units.to_integral_value(context=_WIDE) or not -most < units < most:
            raise Misfit(f"{shown(value)} does not fit decimal({kind.precision}, {scale})")
        return number.quantize(Decimal(1).scaleb(-scale), context=_WIDE)

    return read


def _double(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is int:
        exact = float(value) if abs(value) < 2**1023 else math.inf
        if exact != value:
            raise Misfit(f"{value} is no double")
        return exact
    if isinstance(value, str):
        if value.lower() in NOT_FINITE:
            return NOT_FINITE[value.lower()]
        if isinstance(value, Number) and NUMBER.fullmatch(value):
            found = float(value)
            if math.isfinite(found):
                return found
            raise Misfit(f"{shown(value)} is larger than any double")
    raise Misfit(f"{shown(value)} is no number")


def _single(value: Any) -> float:
    """From a text the nearest single, as for doubles; from a number only itself."""
    found = _double(value)
    try:
        near: float = struct.unpack("<f", struct.pack("<f", found))[0]  # only with "<" is too large a one an error
    except OverflowError:
        raise Misfit(f"{shown(value)} is larger than any single float") from None
    if not isinstance(value, str) and near != found and not math.isnan(found):
        raise Misfit(f"{shown(value)} is no single float")
    return near


def _instant(kind: pl.Datetime, times: Times) -> Fit:
    def read(value: Any) -> Any:
        if isinstance(value, datetime):
            if value.tzinfo is None:
                return _micros(value.replace(tzinfo=UTC)) if kind.time_zone is None else _local(value, times)
            return _micros(value)
        if isinstance(value, Stamp):
            found = value["seconds"] * 1_000_000 + value["nanos"] // 1_000
            if value["nanos"] % 1_000 or not FIRST_MICROS <= found <= LAST_MICROS:
                raise Misfit(
                    f"{dict(value)} is finer than a microsecond, or in no year from 1 to 9999; a struct of seconds and nanos can hold it"
                )
            return found
        if isinstance(value, str) and not isinstance(value, Number):
            said = times.instant(_text(value))
            if said is not None:
                return said
        raise Misfit(f"{shown(value)} is no time {'in ISO 8601' if times.form is None else f'of the form {times.form!r}'}")

    return read


def _local(value: datetime, times: Times) -> int:
    found = times.placed(pl.Series([value], dtype=pl.Datetime("us"))).dt.epoch("us")[0]
    if found is None:
        raise Misfit(f"{value.isoformat()} comes twice or never in {times.zone}")
    return int(found)


def _micros(value: datetime) -> int:
    span = value - _EPOCH
    return (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds


def _text(value: Any) -> str:
    if isinstance(value, UUID):
        return str(value)
    if not isinstance(value, str) or isinstance(value, Number):
        raise Misfit(f"{shown(value)} is no text")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Misfit(f"{shown(value)} holds half of a character") from None
    return value


def _bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str) and not isinstance(value, Number):
        try:
            return base64.b64decode(value.encode("ascii"), validate=True)
        except ValueError:
            pass
    raise Misfit(f"{shown(value)} is not base64")


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Misfit(f"{shown(value)} is neither true nor false")
    return value


def _day(value: Any) -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", value, re.ASCII):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    raise Misfit(f"{shown(value)} is no day as in 2026-11-18")


def _clock(value: Any) -> int:
    if not isinstance(value, time) or value.tzinfo is not None:
        raise Misfit(f"{shown(value)} is no time of day")
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000_000 + value.microsecond * 1_000


_PLAIN: dict[type, Fit] = {
    pl.Boolean: _truth, pl.Float64: _double, pl.Float32: _single, pl.String: _text, pl.Binary: _bytes, pl.Date: _day, pl.Time: _clock,
}  # fmt: skip


def from_text(kind: pl.DataType, times: Times) -> Fit:
    """A function from a text alone (a cell of a CSV file) to what a column of this type holds; nested ones are JSON.

    >>> from_text(pl.Int64(), Times())("1.0")
    1
    """
    inner = _fit(kind, times)

    def read(text: Any) -> Any:
        if kind == pl.Boolean:
            return inner({"true": True, "false": False}.get(text.lower(), text))
        if kind.is_numeric():
            return inner(Number(text) if NUMBER.fullmatch(text) else text)
        if kind.is_nested():
            from eventide.engine.feeds.json_records import parsed

            return inner(parsed(text.encode()))
        return inner(text)

    return read
