"""Panes as Avro: a schema made from the columns, and bytes that Confluent's clients or plain Avro readers know."""

from __future__ import annotations

import io
import json
import re
import typing
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

from eventide.errors import SinkRefused, SinkUnavailable
from eventide.sinks.libraries import need

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def schema_of(columns: pa.Schema, name: str) -> dict[str, Any]:
    """The Avro record of a row; every column that may be null is a union with null."""
    return _record(list(columns), re.sub(r"\W", "_", name, flags=re.ASCII) or "pane")


def _record(fields: list[Any], name: str) -> dict[str, Any]:
    if wrong := [field.name for field in fields if not NAME.fullmatch(field.name)]:
        raise SinkRefused(
            f"Avro has no field called {wrong[0]!r} (letters, digits and _ only): rename it, or use format='json'"
        )
    return {"type": "record", "name": name, "fields": [_field(field, f"{name}_{field.name}") for field in fields]}


def _field(field: Any, name: str) -> dict[str, Any]:
    kind = _type(field.type, name)
    return (
        {"name": field.name, "type": ["null", kind], "default": None} if field.nullable else {"name": field.name, "type": kind}
    )


def _type(kind: Any, name: str) -> Any:
    if kinds.is_boolean(kind):
        return "boolean"
    if kinds.is_integer(kind):
        return "long" if kind.bit_width == 64 else "int"
    if kinds.is_floating(kind):
        return "double" if kind.bit_width == 64 else "float"
    if kinds.is_timestamp(kind):
        return {"type": "long", "logicalType": "timestamp-micros" if kind.tz else "local-timestamp-micros"}
    if kinds.is_date(kind):
        return {"type": "int", "logicalType": "date"}
    if kinds.is_time(kind):
        return {"type": "long", "logicalType": "time-micros"}
    if kinds.is_duration(kind):
        raise SinkRefused(
            f"Avro has no span of time such as {name!r} ({kind}). Make it whole microseconds in a .map(…), or use format='json'."
        )
    if kinds.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if kinds.is_map(kind):
        return {"type": "map", "values": ["null", _type(kind.item_type, f"{name}_value")]}
    if kinds.is_struct(kind):
        return _record(list(kind), name)
    if kinds.is_nested(kind):
        kind = typing.cast(Any, kind)
        return {"type": "array", "items": ["null", _type(kind.value_type, f"{name}_item")]}
    return "bytes" if kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_fixed_size_binary(kind) else "string"


class Encoder:
    """Rows to bytes: Confluent's header with a registry, Avro's single-object header (a fingerprint) without one."""

    def __init__(self, columns: pa.Schema, subject: str, registry: str | None) -> None:
        fastavro = need("fastavro", "kafka")
        self._write = fastavro.schemaless_writer
        declared = schema_of(columns, subject.removesuffix("-value"))
        self.schema = fastavro.parse_schema(declared)
        if registry:
            self.header = b"\0" + register(registry, subject, declared).to_bytes(4, "big")
        else:
            canonical = fastavro.schema.to_parsing_canonical_form(self.schema)
            fingerprint = fastavro.schema.fingerprint(canonical, "CRC-64-AVRO")
            self.header = b"\xc3\x01" + bytes.fromhex(fingerprint)

    def __call__(self, rows: Iterable[dict[str, Any]]) -> Iterator[bytes]:
        """The bytes of each row."""
        for row in rows:
            out = io.BytesIO()
            out.write(self.header)
            try:
                self._write(out, self.schema, row)
            except (ValueError, TypeError, OverflowError) as error:
                raise SinkRefused(f"a value does not fit the Avro schema of the topic: {error}") from error
            yield out.getvalue()


def register(registry: str, subject: str, schema: dict[str, Any]) -> int:
    """The id under which a registry (Eventide's own, or Confluent's) keeps a schema."""
    request = urllib.request.Request(  # noqa: S310 (the user's own address)
        f"{registry.rstrip('/')}/subjects/{subject}/versions",
        data=json.dumps({"schema": json.dumps(schema)}).encode(),
        headers={"Content-Type": "application/vnd.schemaregistry.v1+json"},
        method="POST",
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            return int(json.load(answer)["id"])
    except urllib.error.HTTPError as error:
        said = error.read().decode(errors="replace")[:300]
        if error.code >= 500:
            raise SinkUnavailable(f"the schema registry answered {error.code}: {said}") from error
        raise SinkRefused(f"the schema registry does not take the schema of {subject!r}: {error.code} {said}") from error
    except OSError as error:
        raise SinkUnavailable(f"the schema registry is out of reach: {error}") from error
