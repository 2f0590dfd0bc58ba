"""Records to bytes and back, each with the id of its schema in front: Avro, JSON and Protobuf."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from typing import Any, Protocol

import fastavro
import jsonschema
from google.protobuf.message import DecodeError, Message
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT7

from eventide.registry.avro_logical import exact
from eventide.registry.client import RegistryClient
from eventide.registry.compatibility import Reference
from eventide.registry.wire import BadPayload, decode_header, decode_indexes, encode_header, encode_indexes

Subject = Callable[[str, bool], str]


def topic_name(topic: str, is_key: bool) -> str:
    """The subject of a topic's keys or values, as serialisers name it unless told otherwise."""
    return f"{topic}-{'key' if is_key else 'value'}"


class Serialiser(Protocol):
    """Makes bytes of records for a topic."""

    def __call__(self, record: Any, topic: str) -> bytes:
        """One record as bytes, its schema's id in front."""


class AvroSerialiser:
    """Writes records by an Avro schema, which it registers on first use (or only looks up)."""

    def __init__(
        self,
        client: RegistryClient,
        schema: str,
        *,
        references: tuple[Reference, ...] = (),
        register: bool = True,
        subject: Subject = topic_name,
        is_key: bool = False,
    ) -> None:
        self._ids = _Ids(client, "AVRO", schema, references, register, subject, is_key)
        named = {r.name: client.version(r.subject, r.version).text for r in references}
        self._schema = _avro(schema, named)

    def __call__(self, record: Any, topic: str) -> bytes:
        """One record as bytes, its schema's id in front."""
        out = io.BytesIO()
        out.write(encode_header(self._ids.of(topic)))
        fastavro.schemaless_writer(out, self._schema, record)
        return out.getvalue()


class AvroDeserialiser:
    """Reads records by the schema they were written with, into the reader's schema if there is one.

    Logical types are read exactly: a day or an instant that Python has no value for stays the number that was written.
    """

    def __init__(self, client: RegistryClient, reader: str | None = None, references: dict[str, str] | None = None) -> None:
        self._client = client
        self._reader = None if reader is None else _avro(reader, references or {}, exact)
        self._writers: dict[int, Any] = {}

    def __call__(self, record: bytes) -> Any:
        """The record behind the bytes.

        Raises:
            WireError: not in the wire format, of an unknown schema, or not what its schema says.
        """
        schema_id, payload = decode_header(record)
        if schema_id not in self._writers:
            schema = self._client.schema(schema_id)
            self._writers[schema_id] = _avro(schema.text, self._client.texts(schema), exact)
        stream = io.BytesIO(payload)
        try:
            value = fastavro.schemaless_reader(stream, self._writers[schema_id], self._reader)
        except (EOFError, ValueError, IndexError, TypeError, KeyError, OverflowError, MemoryError) as error:
            raise BadPayload(f"schema {schema_id} does not read these {len(payload)} bytes: {error}") from error
        except fastavro.schema.SchemaParseException as error:  # a reader that cannot read this writer
            raise BadPayload(f"the reader's schema does not read schema {schema_id}: {error}") from error
        if stream.read(1):
            raise BadPayload(f"bytes are left over after the record of schema {schema_id}")
        self._client.note_decoded(schema_id)
        return value


class JsonSerialiser:
    """Writes records as JSON, checked against a JSON schema."""

    def __init__(
        self,
        client: RegistryClient,
        schema: str,
        *,
        register: bool = True,
        subject: Subject = topic_name,
        is_key: bool = False,
    ) -> None:
        self._ids = _Ids(client, "JSON", schema, (), register, subject, is_key)
        self._check = _validator(schema, {})

    def __call__(self, record: Any, topic: str) -> bytes:
        """One record as bytes, its schema's id in front."""
        self._check.validate(record)
        return encode_header(self._ids.of(topic)) + json.dumps(record, separators=(",", ":")).encode()


class JsonDeserialiser:
    """Reads JSON records and checks them against the schema they name."""

    def __init__(self, client: RegistryClient) -> None:
        self._client = client
        self._checks: dict[int, Any] = {}

    def __call__(self, record: bytes) -> Any:
        """The record behind the bytes; raises `WireError` as the Avro one does."""
        schema_id, payload = decode_header(record)
        if schema_id not in self._checks:
            schema = self._client.schema(schema_id)
            self._checks[schema_id] = _validator(schema.text, self._client.texts(schema))
        try:
            value = json.loads(payload)
            self._checks[schema_id].validate(value)
        except (ValueError, RecursionError, ArithmeticError, jsonschema.ValidationError) as error:
            message = error.message if isinstance(error, jsonschema.ValidationError) else str(error)
            raise BadPayload(f"schema {schema_id} does not take this record: {message}") from error
        self._client.note_decoded(schema_id)
        return value


class ProtobufSerialiser:
    """Writes Protobuf messages of one generated class; its file is registered as the schema."""

    def __init__(
        self,
        client: RegistryClient,
        message: type[Message],
        *,
        register: bool = True,
        subject: Subject = topic_name,
        is_key: bool = False,
    ) -> None:
        text = base64.b64encode(message.DESCRIPTOR.file.serialized_pb).decode()
        self._ids = _Ids(client, "PROTOBUF", text, (), register, subject, is_key)
        self._indexes = encode_indexes(_path_to(message))

    def __call__(self, record: Message, topic: str) -> bytes:
        """One message as bytes, its schema's id and place in the file in front."""
        return encode_header(self._ids.of(topic)) + self._indexes + record.SerializeToString()


class ProtobufDeserialiser:
    """Reads Protobuf messages into one generated class."""

    def __init__(self, client: RegistryClient, message: type[Message]) -> None:
        self._client = client
        self._message = message

    def __call__(self, record: bytes) -> Message:
        """The message behind the bytes; raises `WireError` as the Avro one does."""
        schema_id, payload = decode_header(record)
        self._client.schema(schema_id)
        _, body = decode_indexes(payload)
        message = self._message()
        try:
            message.ParseFromString(body)
        except DecodeError as error:
            raise BadPayload(f"schema {schema_id}: {error}") from error
        self._client.note_decoded(schema_id)
        return message


class _Ids:
    """The id that a schema has under each topic's subject, asked for once."""

    def __init__(
        self,
        client: RegistryClient,
        kind: str,
        text: str,
        references: tuple[Reference, ...],
        register: bool,
        subject: Subject,
        is_key: bool,
    ) -> None:
        self._client, self._kind, self._text, self._references = client, kind, text, references
        self._register, self._subject, self._is_key = register, subject, is_key
        self._known: dict[str, int] = {}

    def of(self, topic: str) -> int:
        subject = self._subject(topic, self._is_key)
        if subject not in self._known:
            if self._register:
                found = self._client.register(subject, self._text, self._kind, references=self._references)
            else:
                found = self._client.look_up(subject, self._text, self._kind)
            self._known[subject] = found.id
        return self._known[subject]


def _avro(text: str, references: dict[str, str], told: Callable[[Any], Any] = lambda schema: schema) -> Any:
    named: dict[str, Any] = {}
    waiting = dict(references)
    while waiting:
        # A referenced type may itself refer to another: take whichever parses with what is known so far.
        for name, referenced in list(waiting.items()):
            try:
                fastavro.parse_schema(told(json.loads(referenced)), named_schemas=named)
            except fastavro.schema.UnknownType:
                continue
            del waiting[name]
            break
        else:
            break
    return fastavro.parse_schema(told(json.loads(text)), named_schemas=named)


def _validator(text: str, references: dict[str, str]) -> Any:
    resources = [(name, Resource.from_contents(json.loads(t), DRAFT7)) for name, t in references.items()]
    schema = json.loads(text)
    chosen = jsonschema.validators.validator_for(schema, default=jsonschema.Draft7Validator)
    return chosen(schema, registry=Registry().with_resources(resources))


def _path_to(message: type[Message]) -> list[int]:
    path: list[int] = []
    descriptor: Any = message.DESCRIPTOR
    while descriptor is not None:
        container = descriptor.containing_type
        siblings = container.nested_types if container is not None else descriptor.file.message_types_by_name.values()
        path.append([sibling.name for sibling in siblings].index(descriptor.name))
        descriptor = container
    return path[::-1]
