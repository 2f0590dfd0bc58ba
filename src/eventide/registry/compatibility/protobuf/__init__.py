"""Protobuf: parsing, Confluent's text and Confluent's rules of compatibility, for proto2 and proto3."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from eventide.registry.compatibility.protobuf import text
from eventide.registry.compatibility.protobuf.descriptor import decode
from eventide.registry.compatibility.protobuf.diff import COMPATIBLE, differences
from eventide.registry.compatibility.protobuf.element import Enum, File, Message
from eventide.registry.compatibility.protobuf.names import Names
from eventide.registry.compatibility.protobuf.parser import read
from eventide.registry.compatibility.protobuf.reasons import explain
from eventide.registry.compatibility.schema import Incompatibility, InvalidSchema

__all__ = ["ProtobufSchema", "check", "parse"]


class ProtobufSchema:
    """A .proto file that was read and understood."""

    kind = "PROTOBUF"

    def __init__(self, file: File, imports: Mapping[str, File]) -> None:
        self.raw = file
        self.names = Names(file, imports)
        self.canonical = text.canonical(file)

    @cached_property
    def normalized(self) -> str:
        """The text with full names, fields by number, imports and options by name."""
        return text.normalized(self.raw, self.names)

    @cached_property
    def serialized(self) -> str:
        """The file as a base64 descriptor: what clients get that ask for the format ``serialized``."""
        from eventide.registry.compatibility.protobuf.serialized import encode

        return encode(self.raw, self.names)

    @property
    def top_fields(self) -> frozenset[str]:
        """The names of the fields of all messages that are not inside another one."""
        messages = [type_ for type_ in self.raw.types if isinstance(type_, Message)]
        held = [fields for m in messages for fields in (m.fields, *(oneof.fields for oneof in m.oneofs))]
        return frozenset(field.name for fields in held for field in fields)

    def __repr__(self) -> str:
        return f"ProtobufSchema({self.canonical!r})"


def parse(schema: str, references: Mapping[str, str], *, strict: bool = True) -> ProtobufSchema:
    """Read a .proto file, or the base64 of its descriptor; see `eventide.registry.compatibility.parse`."""
    try:
        parsed = ProtobufSchema(_file(schema), {name: _file(given) for name, given in references.items()})
        parsed.canonical.encode()
        if strict:
            _refuse_twins(parsed.raw)
            parsed.normalized  # noqa: B018  # resolves every name, or says which means nothing
    except RecursionError:
        raise InvalidSchema("Could not parse Protobuf - the messages in it nest too deep") from None
    except UnicodeEncodeError as error:
        raise InvalidSchema(f"Could not parse Protobuf - half of a surrogate pair at {error.start}") from None
    return parsed


def check(reader: ProtobufSchema, writer: ProtobufSchema, side: str = "new") -> list[Incompatibility]:
    """Every reason why `reader` would misread what `writer` wrote."""
    changes = differences((writer.raw, writer.names), (reader.raw, reader.names))
    return [explain(kind, path, side) for kind, path in changes if kind not in COMPATIBLE]


def _file(schema: str) -> File:
    try:
        return read(schema)
    except InvalidSchema:
        decoded = decode(schema)
        if decoded is None:
            raise
        return decoded


def _refuse_twins(file: File) -> None:
    """A number or a name may be used once in a message, and a type's name once in its scope."""
    waiting: list[tuple[str, list[Message | Enum]]] = [(file.package or "", file.types)]
    while waiting:
        scope, types = waiting.pop()
        seen: set[str] = set()
        for inner in types:
            full = f"{scope}.{inner.name}" if scope else inner.name
            if inner.name in seen:
                raise InvalidSchema(f"Could not parse Protobuf - {full} is defined twice")
            seen.add(inner.name)
            if isinstance(inner, Message):
                _refuse_twin_fields(inner, full)
                waiting.append((full, inner.types))


def _refuse_twin_fields(message: Message, full: str) -> None:
    names: set[str] = set()
    numbers: set[int] = set()
    for field in message.all_fields():
        if field.number in numbers:
            raise InvalidSchema(f"Could not parse Protobuf - the number {field.number} is used twice in {full}")
        if field.name in names:
            raise InvalidSchema(f"Could not parse Protobuf - the field {field.name} is defined twice in {full}")
        names.add(field.name)
        numbers.add(field.number)
