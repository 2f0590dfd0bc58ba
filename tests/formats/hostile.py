"""Values at the edges of every type, how each format writes them, and when two of them are the same."""

from __future__ import annotations

import base64
import json
import math
import random
import struct
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import polars as pl
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st


def tried(examples: int) -> settings:
    return settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None)


def _whole(bits: int) -> st.SearchStrategy[int]:
    most = 2 ** (bits - 1)
    return st.one_of(st.sampled_from([0, 1, -1, most - 1, -most]), st.integers(-most, most - 1))


def _decimal(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    edges = st.sampled_from([0, 1, -1, most, -most])
    return st.one_of(edges, st.integers(-most, most)).map(lambda units: Decimal(f"{units}E-{scale}"))


TEXTS = st.one_of(
    st.sampled_from(
        ["", " ", "null", "NULL", "NA", "n/a", "nan", "NaN", "true", "0", "-", "\\N", '"', "'", '""', ",", "a,b", "a\nb", "\r\n", "\r", "\t",
         "\x00", "\x1f", "\u2028", "\ufeff", "é", "e\u0301", "🙂", "\U0010ffff", "2026-01-01", "{}", "[]", "{\"n\":1}", "\\u0041", "₹ बैंक"]
    ),
    st.text(max_size=8),
)  # fmt: skip
FLOATS = st.one_of(
    st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, 0.1, 2.0**53 + 2]), st.floats()
)
SINGLES = st.floats(width=32)
DAYS = st.one_of(st.sampled_from([date(1, 1, 1), date(9999, 12, 31), date(1970, 1, 1), date(1582, 10, 10)]), st.dates())
INSTANTS = st.one_of(
    st.sampled_from(
        [
            datetime(1, 1, 1, tzinfo=UTC),
            datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
            datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
        ]
    ),
    st.datetimes(timezones=st.just(UTC)),
)
CLOCKS = st.times()


@dataclass(frozen=True)
class Type:
    """A column type: for Polars, for Avro, and its values."""

    kind: pl.DataType
    avro: Any
    values: st.SearchStrategy[Any]


SIMPLE: dict[str, Type] = {
    "boolean": Type(pl.Boolean(), "boolean", st.booleans()),
    "int": Type(pl.Int32(), "int", _whole(32)),
    "bigint": Type(pl.Int64(), "long", _whole(64)),
    "float": Type(pl.Float32(), "float", SINGLES),
    "double": Type(pl.Float64(), "double", FLOATS),
    "string": Type(pl.String(), "string", TEXTS),
    "binary": Type(pl.Binary(), "bytes", st.binary(max_size=8)),
    "date": Type(pl.Date(), {"type": "int", "logicalType": "date"}, DAYS),
    "timestamp": Type(pl.Datetime("us", "UTC"), {"type": "long", "logicalType": "timestamp-micros"}, INSTANTS),
    "decimal(12,2)": Type(
        pl.Decimal(12, 2), {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}, _decimal(12, 2)
    ),
    "decimal(38,18)": Type(
        pl.Decimal(38, 18), {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 18}, _decimal(38, 18)
    ),
}


def _nullable(avro: Any) -> Any:
    return ["null", avro]


def _list(of: Type) -> Type:
    values = st.lists(st.one_of(st.none(), of.values), max_size=3)
    return Type(pl.List(of.kind), {"type": "array", "items": _nullable(of.avro)}, values)


def _map(of: Type) -> Type:
    values = st.dictionaries(TEXTS, st.one_of(st.none(), of.values), max_size=3)
    kind = pl.List(pl.Struct({"key": pl.String(), "value": of.kind}))
    return Type(kind, {"type": "map", "values": _nullable(of.avro)}, values)


def _struct(name: str, **fields: Type) -> Type:
    values = st.fixed_dictionaries({n: st.one_of(st.none(), t.values) for n, t in fields.items()})
    avro = {"type": "record", "name": name, "fields": [{"name": n, "type": _nullable(t.avro)} for n, t in fields.items()]}
    return Type(pl.Struct({n: t.kind for n, t in fields.items()}), avro, values)


NESTED: dict[str, Type] = {
    "array<bigint>": _list(SIMPLE["bigint"]),
    "array<timestamp>": _list(SIMPLE["timestamp"]),
    "array<date>": _list(SIMPLE["date"]),
    "array<decimal>": _list(SIMPLE["decimal(38,18)"]),
    "array<binary>": _list(SIMPLE["binary"]),
    "array<map>": _list(_map(SIMPLE["bigint"])),
    "map<string,double>": _map(SIMPLE["double"]),
    "map<string,array>": _map(_list(SIMPLE["string"])),
    "struct": _struct("Inner", a=SIMPLE["bigint"], b=SIMPLE["string"], c=SIMPLE["timestamp"]),
    "array<struct>": _list(_struct("Item", a=SIMPLE["float"], b=SIMPLE["binary"])),
}
NESTED["map as Spark declares it"] = Type(
    pl.Map(pl.String(), pl.Float64()), NESTED["map<string,double>"].avro, NESTED["map<string,double>"].values
)
NESTED["array<map> as Spark declares it"] = Type(
    pl.List(pl.Map(pl.String(), pl.Int64())), NESTED["array<map>"].avro, NESTED["array<map>"].values
)
TYPES = {**SIMPLE, **NESTED}


def json_text(value: Any, rng: random.Random) -> str:
    """A value as JSON, in any of the ways in which it may be written."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        word = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return repr(value) if math.isfinite(value) else rng.choice([word, f'"{word}"'])
    if isinstance(value, Decimal):
        return rng.choice([f"{value:f}", f'"{value:f}"', f'"{value}"'])
    if isinstance(value, bytes):
        return json.dumps(base64.b64encode(value).decode())
    if isinstance(value, datetime):
        return json.dumps(instant_text(value, rng))
    if isinstance(value, date | time):
        return json.dumps(value.isoformat())
    if isinstance(value, dict):
        inside = ",".join(f"{json_text(k, rng)}:{json_text(v, rng)}" for k, v in value.items())
        return "{" + inside + "}"
    if isinstance(value, list):
        return "[" + ",".join(json_text(v, rng) for v in value) + "]"
    return json.dumps(value, ensure_ascii=rng.random() < 0.5)


def instant_text(value: datetime, rng: random.Random) -> str:
    """In UTC, in another zone, or without one; with as many digits as it needs or more."""
    zone = rng.choice([UTC, UTC, timezone(timedelta(hours=5, minutes=30)), timezone(-timedelta(hours=8))])
    try:
        local = value.astimezone(zone)
    except OverflowError:
        local = value
    text = local.isoformat(
        sep=rng.choice("T "), timespec="microseconds" if local.microsecond else rng.choice(["seconds", "microseconds"])
    )
    text = text.replace("+00:00", rng.choice(["Z", "+00:00", ""]))
    return (
        text.replace(f"{local.microsecond:06d}", f"{local.microsecond:06d}000", 1)
        if local.microsecond > 99 and rng.random() < 0.2
        else text
    )


def same(found: Any, wanted: Any) -> bool:
    """Equal, a NaN to a NaN; a map may come as its entries."""
    if isinstance(wanted, float) and isinstance(found, float):
        return struct.pack("d", found) == struct.pack("d", wanted) or (math.isnan(found) and math.isnan(wanted))
    if isinstance(wanted, dict) and isinstance(found, list):
        return len(found) == len(wanted) and all(e["key"] in wanted and same(e["value"], wanted[e["key"]]) for e in found)
    if isinstance(wanted, dict) and isinstance(found, dict):
        return found.keys() == wanted.keys() and all(same(found[k], wanted[k]) for k in wanted)
    if isinstance(wanted, list) and isinstance(found, list):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    return type(found) is type(wanted) and bool(found == wanted)
