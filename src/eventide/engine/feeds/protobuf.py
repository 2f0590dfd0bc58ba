"""Protobuf messages of any registered type as plain rows, without generated classes."""

from __future__ import annotations

import base64
import importlib
from typing import Any

from eventide.engine.feeds.values import Stamp

WELL_KNOWN = "google/protobuf/"

Proto = Any
"""A pool, descriptor or message of the protobuf library, which is imported only where it is used."""


class ProtobufReader:
    """Reads records by the schema whose id they carry; each schema is fetched and built once."""

    def __init__(self, client: Proto) -> None:
        self.client = client
        self.types: dict[tuple[int, tuple[int, ...]], Any] = {}

    def __call__(self, record: bytes) -> dict[str, Any]:
        """The fields of one record; raises `WireError` where it cannot be read."""
        from google.protobuf.message import DecodeError

        from eventide.registry.wire import BadPayload, decode_header, decode_indexes

        schema_id, payload = decode_header(record)
        indexes, body = decode_indexes(payload)
        place = (schema_id, tuple(indexes))
        if place not in self.types:
            self.types[place] = self._type(schema_id, tuple(indexes))
        message = self.types[place]()
        try:
            message.ParseFromString(body)
            said = row_of(message)
        except (DecodeError, OverflowError) as error:
            raise BadPayload(f"schema {schema_id} does not read these {len(body)} bytes: {error}") from error
        self.client.note_decoded(schema_id)
        return said

    def _type(self, schema_id: int, indexes: tuple[int, ...]) -> Proto:
        from google.protobuf import descriptor_pool, message_factory

        from eventide.registry.wire import BadPayload

        schema = self.client.schema(schema_id)
        pool, name = descriptor_pool.DescriptorPool(), f"schema-{schema_id}.proto"
        _add(pool, name, schema.text, self.client.texts(schema), set())
        try:
            descriptor = list(pool.FindFileByName(name).message_types_by_name.values())[indexes[0]]
            for index in indexes[1:]:
                descriptor = descriptor.nested_types[index]
        except IndexError:
            raise BadPayload(f"schema {schema_id} has no message at {list(indexes)}") from None
        return message_factory.GetMessageClass(descriptor)


def _add(pool: Proto, name: str, text: str, texts: dict[str, str], known: set[str]) -> None:
    """Build a file in a pool, the files that it imports first."""
    from google.protobuf import descriptor_pb2

    from eventide.registry.compatibility import parse

    parsed: Proto = parse("PROTOBUF", text, texts)
    file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(parsed.serialized))
    file.name = name
    known.add(name)
    for imported in file.dependency:
        if imported not in known and imported in texts:
            _add(pool, imported, texts[imported], texts, known)
        elif imported not in known and imported.startswith(WELL_KNOWN):
            _add_well_known(pool, imported, known)
    pool.Add(file)


def _add_well_known(pool: Proto, name: str, known: set[str]) -> None:
    from google.protobuf import descriptor_pb2

    module = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    file = descriptor_pb2.FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    known.add(name)
    for imported in file.dependency:
        if imported not in known:
            _add_well_known(pool, imported, known)
    pool.Add(file)


def row_of(message: Proto) -> dict[str, Any]:
    """A message as a dict: whole numbers stay whole, an enum is its name, an instant a `Stamp`, what is not set is None."""
    return {
        field.name: None
        if field.has_presence and not message.HasField(field.name)
        else _value(field, getattr(message, field.name))
        for field in message.DESCRIPTOR.fields
    }


def _value(field: Proto, value: Proto) -> Proto:
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        return [{"key": key, "value": _one(entry.fields_by_name["value"], value[key])} for key in value]
    if field.is_repeated:
        return [_one(field, one) for one in value]
    return _one(field, value)


def _one(field: Proto, value: Proto) -> Proto:
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        return str(value) if named is None else named.name
    if field.message_type is None:
        return value
    kind = field.message_type.full_name
    if kind == "google.protobuf.Timestamp":
        return Stamp(seconds=value.seconds, nanos=value.nanos)
    if kind.startswith("google.protobuf.") and kind.endswith("Value") and list(value.DESCRIPTOR.fields_by_name) == ["value"]:
        return value.value
    return row_of(value)
