"""The columns of an Avro schema."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from eventide.engine.feeds.columnar import Kinds
from eventide.errors import DefinitionError

MOST_DIGITS = 38

Parsed = Any
"""An Avro schema as JSON has it: a name, a list of branches, or an object."""


def avro_kinds(text: str, references: dict[str, str]) -> Kinds:
    """The columns of an Avro record schema; a field that can only be null is none."""
    named: dict[str, Any] = {}
    for other in references.values():
        _names(json.loads(other), named)
    schema = json.loads(text)
    _names(schema, named)
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise DefinitionError(
            f"the Avro schema is {schema if isinstance(schema, str) else schema.get('type')!r}, not a record; a stream's rows are records."
        )
    inside = (_full(schema),)
    return {f["name"]: _kind(f["type"], named, f["name"], inside) for f in schema["fields"] if not _is_null(f["type"])}


def _is_null(schema: Parsed) -> bool:
    return schema in ("null", ["null"], {"type": "null"})


def _full(schema: dict[str, Any]) -> str:
    return schema["name"] if "." in schema["name"] or not schema.get("namespace") else f"{schema['namespace']}.{schema['name']}"


def _names(schema: Parsed, named: dict[str, Any]) -> None:
    if isinstance(schema, list):
        for one in schema:
            _names(one, named)
    elif isinstance(schema, dict):
        if schema.get("type") in ("record", "enum", "fixed"):
            named[_full(schema)] = named[schema["name"]] = schema
        for part in [
            schema.get("items"),
            schema.get("values"),
            schema.get("type"),
            *[f["type"] for f in schema.get("fields", [])],
        ]:
            if isinstance(part, dict | list):
                _names(part, named)


_PRIMITIVES: dict[str, pl.DataType] = {
    "boolean": pl.Boolean(), "int": pl.Int32(), "long": pl.Int64(), "float": pl.Float32(), "double": pl.Float64(),
    "bytes": pl.Binary(), "string": pl.String(),
}  # fmt: skip
_LOGICAL: dict[tuple[str, str], pl.DataType] = {
    ("long", "timestamp-millis"): pl.Datetime("us", "UTC"), ("long", "timestamp-micros"): pl.Datetime("us", "UTC"),
    ("long", "local-timestamp-millis"): pl.Datetime("us"), ("long", "local-timestamp-micros"): pl.Datetime("us"),
    ("int", "date"): pl.Date(), ("int", "time-millis"): pl.Time(), ("long", "time-micros"): pl.Time(), ("string", "uuid"): pl.String(),
}  # fmt: skip
"""By the type that is written and what it stands for; on any other type a logical one says nothing, as Avro has it."""


def _kind(schema: Parsed, named: dict[str, Any], where: str, inside: tuple[str, ...]) -> pl.DataType:
    if isinstance(schema, list):
        rest = [s for s in schema if s != "null"]
        if len(rest) != 1:
            raise DefinitionError(
                f"the Avro field {where!r} is a union of several types, which is no column; give a reader schema that has one."
            )
        return _kind(rest[0], named, where, inside)
    if isinstance(schema, str):
        if schema in _PRIMITIVES:
            return _PRIMITIVES[schema]
        if schema not in named:
            raise DefinitionError(f"the Avro field {where!r} is of the type {schema!r}, which the schema does not define.")
        return _kind(named[schema], named, where, inside)
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        return _decimal(schema, where)
    if isinstance(kind, str) and (kind, logical) in _LOGICAL:
        return _LOGICAL[kind, logical]
    if kind == "record":
        return _record(schema, named, where, inside)
    if kind == "array":
        return pl.List(_kind(schema["items"], named, where, inside))
    if kind == "map":
        return pl.List(pl.Struct({"key": pl.String(), "value": _kind(schema["values"], named, where, inside)}))
    return {"enum": pl.String(), "fixed": pl.Binary()}.get(kind) or _kind(kind, named, where, inside)


def _record(schema: Parsed, named: dict[str, Any], where: str, inside: tuple[str, ...]) -> pl.DataType:
    if _full(schema) in inside:
        raise DefinitionError(
            f"the Avro field {where!r} is of the type {_full(schema)!r}, which holds itself: no column is that deep. Give a reader schema without it."
        )
    within = (*inside, _full(schema))
    fields = [f for f in schema["fields"] if not _is_null(f["type"])]
    return pl.Struct({f["name"]: _kind(f["type"], named, f"{where}.{f['name']}", within) for f in fields})


def _decimal(schema: Parsed, where: str) -> pl.DataType:
    precision, scale = schema["precision"], schema.get("scale", 0)
    if precision > MOST_DIGITS:
        raise DefinitionError(
            f"the Avro field {where!r} is decimal({precision}, {scale}); a column has at most {MOST_DIGITS} digits. Give a reader schema that reads "
            "it as bytes, or leaves it out."
        )
    return pl.Decimal(precision, scale)
