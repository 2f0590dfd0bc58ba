"""Records with a schema id in front, decoded on the worker: by the writer's schema, into the columns that the reader wants."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import polars as pl

from eventide.engine.protobuf import ProtobufReader
from eventide.errors import DefinitionError, EventideError
from eventide.kernel.columns import DEAD

Kinds = dict[str, pl.DataType]


class Undecodable(EventideError):
    """A record could not be read and the source is declared to stop then."""


@dataclass(frozen=True)
class Registry:
    """Which registry to ask, and what to do when a record cannot be read."""

    url: str
    name: str = "eventide"
    reader: str | None = None
    on_unreadable: str = "dead_letter"
    on_registry_down: str = "stop"
    auth: tuple[str, str] | None = field(default=None, repr=False)


def decode_wire(values: pl.Series, kind: str, kinds: Kinds, registry: Registry) -> pl.DataFrame:
    """The columns of each record, and why a record is a dead letter; never a row of nulls without a reason."""
    from eventide.registry.client import RegistryUnavailable
    from eventide.registry.wire import WireError

    read = _reader(kind, registry)
    rows: list[dict[str, Any] | None] = []
    reasons: list[str | None] = []
    for value in values.to_list():
        row, reason = None, None
        try:
            if value is None:
                reason = "the value is null"
            else:
                row = read(value)
        except WireError as error:
            reason = f"{error.kind}: {error}"
        except RegistryUnavailable as error:
            if registry.on_registry_down == "stop":
                raise
            reason = f"registry_down: {error}"
        if reason is not None and registry.on_unreadable == "stop":
            raise Undecodable(
                f'{reason}. The source is declared with on_unreadable="stop"; nothing of this batch was committed.'
            )
        rows.append(row)
        reasons.append(reason)
    frame, misfits = _fitted(rows, kinds)
    return frame.with_columns(pl.Series(DEAD, [r or m for r, m in zip(reasons, misfits, strict=True)], dtype=pl.String))


def _fitted(rows: list[dict[str, Any] | None], kinds: Kinds) -> tuple[pl.DataFrame, list[str | None]]:
    """Records as columns of the declared types; a record that does not fit them is named."""
    plain = [{name: _plain(row.get(name)) for name in kinds} if row is not None else dict.fromkeys(kinds) for row in rows]
    try:
        return pl.DataFrame(plain, schema=kinds, strict=True), [None] * len(rows)
    except (pl.exceptions.PolarsError, TypeError, OverflowError) as error:
        if len(rows) == 1:
            return pl.DataFrame([dict.fromkeys(kinds)], schema=kinds), [f"another schema: {str(error).splitlines()[0]}"]
    half = len(rows) // 2
    (one, bad), (other, worse) = _fitted(rows[:half], kinds), _fitted(rows[half:], kinds)
    return pl.concat([one, other]), bad + worse


def _plain(value: Any) -> Any:
    """A map as a list of its entries, as Arrow has it."""
    if isinstance(value, dict) and value and not all(isinstance(k, str) for k in value):
        return [{"key": k, "value": v} for k, v in value.items()]
    return value


@lru_cache(maxsize=64)
def _reader(kind: str, registry: Registry) -> Callable[[bytes], dict[str, Any]]:
    """One reader for each registry and worker: schemas are fetched once, an id first seen in mid-stream then."""
    from eventide.registry.serialisers import AvroDeserialiser, JsonDeserialiser

    client = _client(registry)
    if kind == "avro":
        return AvroDeserialiser(client, registry.reader)
    if kind == "json":
        return JsonDeserialiser(client)
    return ProtobufReader(client)


@lru_cache(maxsize=64)
def _client(registry: Registry) -> Any:
    from eventide.registry.client import RegistryClient

    return RegistryClient(registry.url, auth=registry.auth, name=registry.name)


def report_usage(registry: Registry) -> None:
    """Tell the registry which schema ids this worker has decoded."""
    _client(registry).report_usage()


def avro_kinds(text: str, references: dict[str, str]) -> Kinds:
    """The columns of an Avro record schema."""
    named: dict[str, Any] = {}
    for other in references.values():
        _names(json.loads(other), named)
    schema = json.loads(text)
    _names(schema, named)
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise DefinitionError(
            f"the Avro schema is {schema if isinstance(schema, str) else schema.get('type')!r}, not a record; a stream's rows are records."
        )
    return {f["name"]: _kind(f["type"], named, f["name"]) for f in schema["fields"]}


def _names(schema: Any, named: dict[str, Any]) -> None:
    if isinstance(schema, list):
        for one in schema:
            _names(one, named)
    elif isinstance(schema, dict):
        if schema.get("type") in ("record", "enum", "fixed"):
            full = (
                schema["name"]
                if "." in schema["name"] or not schema.get("namespace")
                else f"{schema['namespace']}.{schema['name']}"
            )
            named[full] = named[schema["name"]] = schema
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
_LOGICAL: dict[str, pl.DataType] = {
    "timestamp-millis": pl.Datetime("us", "UTC"), "timestamp-micros": pl.Datetime("us", "UTC"), "date": pl.Date(),
    "local-timestamp-millis": pl.Datetime("us"), "local-timestamp-micros": pl.Datetime("us"), "uuid": pl.String(),
    "time-millis": pl.Time(), "time-micros": pl.Time(),
}  # fmt: skip


def _kind(schema: Any, named: dict[str, Any], where: str) -> pl.DataType:
    if isinstance(schema, list):
        rest = [s for s in schema if s != "null"]
        if len(rest) != 1:
            raise DefinitionError(
                f"the Avro field {where!r} is a union of several types, which is no column; give a reader schema that has one."
            )
        return _kind(rest[0], named, where)
    if isinstance(schema, str):
        return _PRIMITIVES[schema] if schema in _PRIMITIVES else _kind(named[schema], named, where)
    logical = schema.get("logicalType")
    if logical == "decimal":
        return pl.Decimal(schema["precision"], schema.get("scale", 0))
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    kind = schema["type"]
    if kind == "record":
        return pl.Struct({f["name"]: _kind(f["type"], named, f"{where}.{f['name']}") for f in schema["fields"]})
    if kind == "array":
        return pl.List(_kind(schema["items"], named, where))
    if kind == "map":
        return pl.List(pl.Struct({"key": pl.String(), "value": _kind(schema["values"], named, where)}))
    return {"enum": pl.String(), "fixed": pl.Binary()}.get(kind) or _kind(kind, named, where)
