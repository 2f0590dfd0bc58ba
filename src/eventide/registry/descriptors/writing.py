"""From a file descriptor to the text of a .proto file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)

_LABELS = {1: "optional ", 2: "required ", 3: "repeated "}
_MAX_FIELD, _MAX_ENUM = 536_870_912, 2_147_483_647
_INDENT = "  "


def write_file(file: FileDescriptorProto) -> str:
    """The .proto text that describes the same file."""
    lines = [f'syntax = "{file.syntax or "proto2"}";']
    if file.package:
        lines.append(f"package {file.package};")
    for i, name in enumerate(file.dependency):
        how = "public " if i in file.public_dependency else "weak " if i in file.weak_dependency else ""
        lines.append(f"import {how}{_quote(name)};")
    lines += [f"option {option};" for option in _options(file)]
    writer = _Writer(proto3=file.syntax == "proto3")
    for message in file.message_type:
        lines += writer.message(message)
    for enum in file.enum_type:
        lines += writer.enum(enum)
    lines += writer.extensions(file.extension)
    for service in file.service:
        lines += writer.service(service)
    return "\n".join(lines) + "\n"


class _Writer:
    def __init__(self, *, proto3: bool) -> None:
        self._proto3 = proto3

    def message(self, message: DescriptorProto) -> Iterator[str]:
        yield f"message {message.name} {{"
        yield from _indented(self._members(message))
        yield "}"

    def _members(self, message: DescriptorProto) -> Iterator[str]:
        yield from (f"option {option};" for option in _options(message))
        entries = {nested.name: nested for nested in message.nested_type if nested.options.map_entry}
        groups = {f.type_name.rsplit(".", 1)[-1]: f for f in message.field if f.type == FieldDescriptorProto.TYPE_GROUP}
        written: set[int] = set()
        for field in message.field:
            if not field.HasField("oneof_index") or field.proto3_optional:
                yield from self._field(field, entries, message)
            elif field.oneof_index not in written:
                written.add(field.oneof_index)
                yield f"oneof {message.oneof_decl[field.oneof_index].name} {{"
                for member in message.field:
                    if member.HasField("oneof_index") and member.oneof_index == field.oneof_index:
                        yield from _indented(self._field(member, entries, message, label=False))
                yield "}"
        yield from _ranges("reserved", ((r.start, r.end - 1) for r in message.reserved_range), _MAX_FIELD - 1)
        yield from _names(message.reserved_name)
        yield from _ranges("extensions", ((r.start, r.end - 1) for r in message.extension_range), _MAX_FIELD - 1)
        yield from self.extensions(message.extension)
        for nested in message.nested_type:
            if nested.name not in entries and nested.name not in groups:
                yield from self.message(nested)
        for enum in message.enum_type:
            yield from self.enum(enum)

    def _field(
        self,
        field: FieldDescriptorProto,
        entries: dict[str, DescriptorProto],
        inside: DescriptorProto,
        *,
        label: bool = True,
    ) -> Iterator[str]:
        short = field.type_name.rsplit(".", 1)[-1]
        if field.type == FieldDescriptorProto.TYPE_GROUP:
            group = next(nested for nested in inside.nested_type if nested.name == short)
            yield f"{_LABELS[field.label] if label else ''}group {group.name} = {field.number} {{"
            yield from _indented(self._members(group))
            yield "}"
            return
        options = _field_options(field)
        if field.label == FieldDescriptorProto.LABEL_REPEATED and short in entries:
            key, value = entries[short].field
            yield f"map<{_type(key)}, {_type(value)}> {field.name} = {field.number}{options};"
            return
        shown = _LABELS[field.label] if label else ""
        if self._proto3 and field.label == FieldDescriptorProto.LABEL_OPTIONAL and not field.proto3_optional:
            shown = ""
        yield f"{shown}{_type(field)} {field.name} = {field.number}{options};"

    def enum(self, enum: EnumDescriptorProto) -> Iterator[str]:
        yield f"enum {enum.name} {{"
        yield from _indented(f"option {option};" for option in _options(enum))
        for value in enum.value:
            options = ", ".join(_options(value))
            yield f"{_INDENT}{value.name} = {value.number}{f' [{options}]' if options else ''};"
        yield from _indented(_ranges("reserved", ((r.start, r.end) for r in enum.reserved_range), _MAX_ENUM))
        yield from _indented(_names(enum.reserved_name))
        yield "}"

    def extensions(self, fields: Iterable[FieldDescriptorProto]) -> Iterator[str]:
        for field in fields:
            yield f"extend {field.extendee} {{"
            yield from _indented(self._field(field, {}, DescriptorProto()))
            yield "}"

    def service(self, service: ServiceDescriptorProto) -> Iterator[str]:
        yield f"service {service.name} {{"
        yield from _indented(f"option {option};" for option in _options(service))
        for method in service.method:
            given = ("stream " if method.client_streaming else "") + method.input_type
            back = ("stream " if method.server_streaming else "") + method.output_type
            options = "".join(f" option {option};" for option in _options(method))
            yield f"{_INDENT}rpc {method.name} ({given}) returns ({back}){f' {{{options} }}' if options else ';'}"
        yield "}"


def _type(field: FieldDescriptorProto) -> str:
    if field.type_name:
        return field.type_name
    return FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()


def _field_options(field: FieldDescriptorProto) -> str:
    options = []
    if field.HasField("default_value"):
        quoted = field.type in (FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_BYTES)
        options.append(f"default = {_quote(field.default_value) if quoted else field.default_value}")
    if field.HasField("json_name") and field.json_name != json_name(field.name):
        options.append(f"json_name = {_quote(field.json_name)}")
    options += _options(field)
    return f" [{', '.join(options)}]" if options else ""


def json_name(name: str) -> str:
    """The name that Protobuf gives a field in JSON unless told otherwise."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def _options(described: Any) -> Iterator[str]:
    if not described.HasField("options"):
        return
    for option, value in described.options.ListFields():
        if option.name in ("map_entry", "uninterpreted_option") or option.message_type is not None:
            continue
        for each in value if option.is_repeated else (value,):
            shown = option.enum_type.values_by_number[each].name if option.enum_type else _literal(each)
            yield f"{f'({option.full_name})' if option.is_extension else option.name} = {shown}"


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return _quote(value) if isinstance(value, str) else str(value)


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _ranges(word: str, ranges: Iterable[tuple[int, int]], highest: int) -> Iterator[str]:
    shown = [str(a) if a == b else f"{a} to {'max' if b >= highest else b}" for a, b in ranges]
    if shown:
        yield f"{word} {', '.join(shown)};"


def _names(names: Iterable[str]) -> Iterator[str]:
    quoted = ", ".join(_quote(name) for name in names)
    if quoted:
        yield f"reserved {quoted};"


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (_INDENT + line for line in lines)
