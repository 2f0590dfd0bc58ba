"""Makes the descriptor of a .proto file, for clients that want that and not the text."""

from __future__ import annotations

import base64
import struct
from typing import Any

from google.protobuf import descriptor_pb2 as pb
from google.protobuf.message import Message as ProtoMessage

from eventide.registry.compatibility.protobuf.element import (
    SCALARS,
    Enum,
    Extend,
    Field,
    File,
    Message,
    Option,
    Range,
    map_types,
)
from eventide.registry.compatibility.protobuf.names import Names
from eventide.registry.compatibility.protobuf.option_bytes import encoded
from eventide.registry.compatibility.schema import InvalidSchema

_Scope = tuple[str, ...]
_KINDS: dict[str, Any] = {name.removeprefix("TYPE_").lower(): number for name, number in pb.FieldDescriptorProto.Type.items()}
_LABELS: dict[str, Any] = {"optional": 1, "required": 2, "repeated": 3}


def encode(file: File, names: Names) -> str:
    """The descriptor of the file in base64."""
    return base64.b64encode(_Builder(names).file(file).SerializeToString(deterministic=True)).decode()


class _Builder:
    def __init__(self, names: Names) -> None:
        self._names = names
        self._proto3 = False

    def file(self, file: File) -> pb.FileDescriptorProto:
        self._proto3 = file.syntax == "proto3"
        made = pb.FileDescriptorProto(name="default", package=file.package or "", syntax=file.syntax or "")
        made.dependency.extend((*file.imports, *file.public_imports, *file.weak_imports))
        first = len(file.imports)
        made.public_dependency.extend(range(first, first + len(file.public_imports)))
        made.weak_dependency.extend(range(first + len(file.public_imports), len(made.dependency)))
        self._options(made.options, file.options, ())
        for inner in file.types:
            if isinstance(inner, Message):
                self._message(made.message_type.add(), inner, (inner.name,))
            else:
                self._enum(made.enum_type.add(), inner, (inner.name,))
        self._extends(made.extension, file.extends, ())
        for service in file.services:
            added = made.service.add(name=service.name)
            self._options(added.options, service.options, ())
            for rpc in service.rpcs:
                method = added.method.add(
                    name=rpc.name,
                    input_type=self._full(rpc.request, ()),
                    output_type=self._full(rpc.response, ()),
                    client_streaming=rpc.request_streams,
                    server_streaming=rpc.response_streams,
                )
                self._options(method.options, rpc.options, ())
        return made

    def _message(self, made: pb.DescriptorProto, message: Message, scope: _Scope) -> None:
        made.name = message.name
        self._options(made.options, message.options, scope)
        for field in message.fields:
            self._field(made.field.add(), field, scope, made)
        for index, oneof in enumerate(message.oneofs):
            self._options(made.oneof_decl.add(name=oneof.name).options, oneof.options, scope)
            for field in oneof.fields:
                added = made.field.add()
                self._field(added, field, scope, made)
                added.oneof_index = index
        for added in made.field:
            if added.proto3_optional:
                added.oneof_index = len(made.oneof_decl)
                made.oneof_decl.add(name=f"_{added.name}")
        for inner in message.types:
            if isinstance(inner, Message):
                self._message(made.nested_type.add(), inner, (*scope, inner.name))
            else:
                self._enum(made.enum_type.add(), inner, (*scope, inner.name))
        for value in (value for values in message.reserved for value in values):
            if isinstance(value, str):
                made.reserved_name.append(value)
            else:
                first, last = _ends(value)
                made.reserved_range.add(start=first, end=last + 1)
        for value in (value for extensions in message.extensions for value in extensions.ranges):
            first, last = _ends(value)
            made.extension_range.add(start=first, end=last + 1)
        self._extends(made.extension, message.extends, scope)

    def _field(self, made: pb.FieldDescriptorProto, field: Field, scope: _Scope, owner: Any) -> None:
        made.name, made.number = field.name, field.number
        made.label = _LABELS[field.label or "optional"]
        made.proto3_optional = self._proto3 and field.label == "optional"
        if not made.proto3_optional:
            made.ClearField("proto3_optional")
        pair = map_types(field.type)
        if pair is not None and owner is not None:
            made.label = _LABELS["repeated"]
            made.type = pb.FieldDescriptorProto.TYPE_MESSAGE
            entry = owner.nested_type.add(name=_camel(field.name) + "Entry")
            entry.options.map_entry = True
            self._field(entry.field.add(), Field(None, pair[0], "key", 1), scope, entry)
            self._field(entry.field.add(), Field(None, pair[1], "value", 2), scope, entry)
            made.type_name = "." + ".".join(part for part in (self._names.package, *scope, entry.name) if part)
        elif field.type in SCALARS:
            made.type = _KINDS[field.type]
        else:
            made.type_name = self._full(field.type, scope)
            found = self._names.find(field.type, self._names.package, scope)
            is_enum = found is not None and isinstance(found.element, Enum)
            made.type = _KINDS["enum" if is_enum else "message"]
        if field.default is not None:
            made.default_value = str(field.default)
        if field.json_name is not None:
            made.json_name = field.json_name
        self._options(made.options, field.options, scope)

    def _extends(self, target: Any, extends: list[Extend], scope: _Scope) -> None:
        for extend in extends:
            for field in extend.fields:
                added = target.add(extendee=self._full(extend.name, scope))
                self._field(added, field, scope, None)

    def _enum(self, made: pb.EnumDescriptorProto, enum: Enum, scope: _Scope) -> None:
        made.name = enum.name
        self._options(made.options, enum.options, scope)
        for value in enum.values:
            added = made.value.add(name=value.name, number=value.number)
            self._options(added.options, value.options, scope)
        for given in (value for values in enum.reserved for value in values):
            if isinstance(given, str):
                made.reserved_name.append(given)
            else:
                first, last = _ends(given)
                made.reserved_range.add(start=first, end=last)

    def _options(self, target: ProtoMessage, options: list[Option], scope: _Scope) -> None:
        if not options:
            return
        _set_options(target, options)
        try:
            custom = encoded(options, self._names, scope)
        except (ValueError, OverflowError, struct.error) as error:
            raise InvalidSchema(f"an option has a value that its type cannot hold: {error}") from None
        if custom:
            target.MergeFromString(custom)

    def _full(self, name: str, scope: _Scope) -> str:
        full = self._names.resolve(name, self._names.package, scope)
        return f".{full}" if full is not None else name


def _set_options(target: ProtoMessage, options: list[Option]) -> None:
    """Set the options that Protobuf itself defines."""
    for option in options:
        field = target.DESCRIPTOR.fields_by_name.get(option.name)
        if option.custom or field is None or field.message_type is not None or field.is_repeated:
            continue
        value: Any = option.value
        if field.enum_type is not None:
            found = field.enum_type.values_by_name.get(str(value))
            if found is None:
                continue
            value = found.number
        elif field.cpp_type == field.CPPTYPE_BOOL:
            value = str(value) == "true"
        setattr(target, option.name, value)


def _ends(value: Range) -> tuple[int, int]:
    if isinstance(value, tuple):
        return value
    return int(value), int(value)


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))
