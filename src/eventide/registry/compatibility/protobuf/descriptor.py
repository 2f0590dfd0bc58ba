"""A .proto file as the descriptor that Protobuf's own tools pass around, and back."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from google.protobuf import descriptor_pb2 as pb
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as ProtoMessage

from eventide.registry.compatibility.protobuf.element import (
    Enum,
    EnumValue,
    Extend,
    Extensions,
    Field,
    File,
    Message,
    OneOf,
    Option,
    Range,
    Rpc,
    Service,
    Word,
)

_KINDS = {number: name.removeprefix("TYPE_").lower() for name, number in pb.FieldDescriptorProto.Type.items()}
_LABELS = {1: "optional", 2: "required", 3: "repeated"}
_FILE_OPTIONS = (
    *("java_package", "java_outer_classname", "java_multiple_files", "java_generate_equals_and_hash"),
    *("java_string_check_utf8", "optimize_for", "go_package", "cc_generic_services", "java_generic_services"),
    *("py_generic_services", "deprecated", "cc_enable_arenas", "objc_class_prefix", "csharp_namespace"),
    *("swift_prefix", "php_class_prefix", "php_namespace", "php_metadata_namespace", "ruby_package"),
)


def decode(text: str) -> File | None:
    """The file that a base64 descriptor stands for, as the Python client registers them; None if it is none."""
    try:
        descriptor = pb.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None
    return from_descriptor(descriptor)


def from_descriptor(descriptor: pb.FileDescriptorProto) -> File:
    """The elements that a descriptor describes."""
    file = File(syntax=descriptor.syntax or None, package=descriptor.package or None)
    file.edition = pb.Edition.Name(descriptor.edition).removeprefix("EDITION_") if descriptor.edition else None
    if file.edition:
        file.syntax = None
    for index, name in enumerate(descriptor.dependency):
        public, weak = index in descriptor.public_dependency, index in descriptor.weak_dependency
        (file.public_imports if public else file.weak_imports if weak else file.imports).append(name)
    options = {option.name: option for option in _options(descriptor.options)}
    file.options = [options[name] for name in _FILE_OPTIONS if name in options]
    proto3 = descriptor.syntax == "proto3"
    file.types = [_message(inner, proto3) for inner in descriptor.message_type]
    file.types += [_enum(enum) for enum in descriptor.enum_type]
    file.extends = _extends(descriptor.extension, proto3)
    for service in descriptor.service:
        rpcs = [
            Rpc(
                method.name,
                method.input_type,
                method.output_type,
                method.client_streaming,
                method.server_streaming,
                _options(method.options),
            )
            for method in service.method
        ]
        file.services.append(Service(service.name, rpcs, _options(service.options)))
    return file


def _message(descriptor: pb.DescriptorProto, proto3: bool) -> Message:
    message = Message(descriptor.name, options=_options(descriptor.options))
    oneofs = [OneOf(oneof.name, options=_options(oneof.options)) for oneof in descriptor.oneof_decl]
    entries = {inner.name: inner for inner in descriptor.nested_type if inner.options.map_entry}
    for given in descriptor.field:
        if given.HasField("oneof_index") and not given.proto3_optional:
            oneofs[given.oneof_index].fields.append(_field(given, proto3, in_oneof=True))
        else:
            message.fields.append(_as_map(_field(given, proto3), given, entries))
    message.oneofs = [oneof for oneof in oneofs if oneof.fields]
    message.types = [_message(inner, proto3) for inner in descriptor.nested_type if inner.name not in entries]
    message.types += [_enum(enum) for enum in descriptor.enum_type]
    message.reserved = [[_range(given.start, given.end - 1)] for given in descriptor.reserved_range]
    message.reserved += [[name] for name in descriptor.reserved_name]
    message.extensions = [Extensions([_range(given.start, given.end - 1)]) for given in descriptor.extension_range]
    message.extends = _extends(descriptor.extension, proto3)
    return message


def _as_map(field: Field, given: pb.FieldDescriptorProto, entries: dict[str, pb.DescriptorProto]) -> Field:
    """A repeated entry message is how descriptors spell a map field; as text only the map is legal."""
    entry = entries.get(given.type_name.rpartition(".")[2]) if given.type_name else None
    if entry is None:
        return field
    key, value = (_field(part, True).type for part in entry.field)
    field.label, field.type = None, f"map<{key}, {value}>"
    return field


def _enum(descriptor: pb.EnumDescriptorProto) -> Enum:
    values = [EnumValue(value.name, value.number, _options(value.options)) for value in descriptor.value]
    reserved: list[list[Range]] = [[_range(given.start, given.end)] for given in descriptor.reserved_range]
    reserved += [[name] for name in descriptor.reserved_name]
    return Enum(descriptor.name, values, _options(descriptor.options), reserved)


def _field(given: pb.FieldDescriptorProto, proto3: bool, in_oneof: bool = False) -> Field:
    label: str | None = _LABELS.get(given.label, "optional")
    if in_oneof or (proto3 and label != "repeated" and not given.proto3_optional):
        label = None
    kind = given.type_name or _KINDS.get(given.type, "string")
    field = Field(label, kind, given.name, given.number, _options(given.options))
    if given.HasField("default_value") and not proto3:
        quoted = given.type in (pb.FieldDescriptorProto.TYPE_STRING, pb.FieldDescriptorProto.TYPE_BYTES)
        field.default = given.default_value if quoted else Word(given.default_value)
    if given.HasField("json_name"):
        field.json_name = given.json_name
    return field


def _extends(fields: Any, proto3: bool) -> list[Extend]:
    found: dict[str, Extend] = {}
    for given in fields:
        found.setdefault(given.extendee, Extend(given.extendee)).fields.append(_field(given, proto3))
    return list(found.values())


def _range(first: int, last: int) -> Range:
    return first if first == last else (first, last)


def _options(options: ProtoMessage) -> list[Option]:
    found: list[Option] = []
    for field, value in options.ListFields():
        if field.is_extension or field.message_type is not None:
            continue  # custom options: only their own file can say what they mean
        values = list(value) if isinstance(value, (list, tuple)) or hasattr(value, "append") else [value]
        for item in values:
            if field.enum_type is not None:
                item = Word(field.enum_type.values_by_number[item].name)
            elif isinstance(item, bool):
                item = Word("true" if item else "false")
            elif not isinstance(item, str):
                item = Word(str(item))
            found.append(Option(field.name, item))
    return found
