"""From the text of a .proto file to its file descriptor: names resolved, maps and optionals written out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from proto_schema_parser import ast
from proto_schema_parser.parser import Parser

from eventide.registry.compatibility import InvalidSchema
from eventide.registry.descriptors.writing import json_name

_MESSAGE, _ENUM = FieldDescriptorProto.TYPE_MESSAGE, FieldDescriptorProto.TYPE_ENUM
_SCALARS = {
    name.removeprefix("TYPE_").lower(): number
    for name, number in FieldDescriptorProto.Type.items()
    if number not in (_MESSAGE, _ENUM, FieldDescriptorProto.TYPE_GROUP)
}
_LABELS: dict[Any, FieldDescriptorProto.Label.ValueType] = {
    None: FieldDescriptorProto.LABEL_OPTIONAL,
    ast.FieldCardinality.OPTIONAL: FieldDescriptorProto.LABEL_OPTIONAL,
    ast.FieldCardinality.REQUIRED: FieldDescriptorProto.LABEL_REQUIRED,
    ast.FieldCardinality.REPEATED: FieldDescriptorProto.LABEL_REPEATED,
}
_LARGEST_FIELD = 536_870_911
_LARGEST_ENUM = 2_147_483_647
_WELL_KNOWN = ("any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct",
               "timestamp", "type", "wrappers")  # fmt: skip
_Types = dict[str, "FieldDescriptorProto.Type.ValueType"]


def compile_file(text: str, references: Mapping[str, str], name: str) -> FileDescriptorProto:
    """The descriptor of a .proto text; `references` are the files it imports, by name."""
    parsed = Parser().parse(text)
    types: _Types = {}
    _collect_imported(parsed, references, types, set())
    return _Compiler(parsed, types, name).compile()


def _package(file: ast.File) -> str:
    return next((e.name for e in file.file_elements if isinstance(e, ast.Package)), "")


def _collect(elements: Iterable[Any], scope: str, types: _Types) -> None:
    """Every type that these elements define, by full name."""
    for element in elements:
        if isinstance(element, ast.Message | ast.Group):
            types[f"{scope}.{element.name}"] = _MESSAGE
            _collect(element.elements, f"{scope}.{element.name}", types)
        elif isinstance(element, ast.Enum):
            types[f"{scope}.{element.name}"] = _ENUM
        elif isinstance(element, ast.OneOf | ast.Extension):
            _collect(element.elements, scope, types)


def _collect_imported(file: ast.File, references: Mapping[str, str], types: _Types, seen: set[str]) -> None:
    package = _package(file)
    _collect(file.file_elements, f".{package}" if package else "", types)
    for element in file.file_elements:
        if not isinstance(element, ast.Import) or element.name in seen:
            continue
        seen.add(element.name)
        if element.name in references:
            _collect_imported(Parser().parse(references[element.name]), references, types, seen)
        else:
            _collect_well_known(element.name, types)


def _collect_well_known(name: str, types: _Types) -> None:
    stem = name.removeprefix("google/protobuf/").removesuffix(".proto")
    if stem in _WELL_KNOWN:
        __import__(f"google.protobuf.{stem}_pb2")
    try:
        file = descriptor_pool.Default().FindFileByName(name)
    except KeyError:
        return
    for message in file.message_types_by_name.values():
        types[f".{message.full_name}"] = _MESSAGE
        for nested in message.nested_types:
            types[f".{nested.full_name}"] = _MESSAGE
    for enum in file.enum_types_by_name.values():
        types[f".{enum.full_name}"] = _ENUM


class _Compiler:
    def __init__(self, parsed: ast.File, types: _Types, name: str) -> None:
        self._parsed = parsed
        self._types = types
        self._name = name
        self._proto3 = parsed.syntax == "proto3"

    def compile(self) -> FileDescriptorProto:
        file = FileDescriptorProto(name=self._name, package=_package(self._parsed) or None)
        if self._proto3:
            file.syntax = "proto3"
        scope = f".{file.package}" if file.package else ""
        for element in self._parsed.file_elements:
            if isinstance(element, ast.Import):
                if element.public:
                    file.public_dependency.append(len(file.dependency))
                file.dependency.append(element.name)
            elif isinstance(element, ast.Option):
                _set_option(file.options, element)
            elif isinstance(element, ast.Message):
                self._message(file.message_type.add(), element, scope)
            elif isinstance(element, ast.Enum):
                self._enum(file.enum_type.add(), element)
            elif isinstance(element, ast.Extension):
                self._extension(file, element, scope)
            elif isinstance(element, ast.Service):
                self._service(file.service.add(), element, scope)
        return file

    def _message(self, out: DescriptorProto, message: ast.Message | ast.Group, scope: str) -> None:
        out.name = message.name
        inside = f"{scope}.{message.name}"
        optional: list[FieldDescriptorProto] = []
        for element in message.elements:
            if isinstance(element, ast.Field):
                field = self._field(out.field.add(), element, inside)
                if self._proto3 and element.cardinality == ast.FieldCardinality.OPTIONAL:
                    field.proto3_optional = True
                    optional.append(field)
            elif isinstance(element, ast.MapField):
                self._map(out, element, inside)
            elif isinstance(element, ast.Group):
                self._group(out, element, inside)
            elif isinstance(element, ast.OneOf):
                index = len(out.oneof_decl)
                out.oneof_decl.add(name=element.name)
                for member in element.elements:
                    if isinstance(member, ast.Field):
                        self._field(out.field.add(), member, inside).oneof_index = index
            elif isinstance(element, ast.Message):
                self._message(out.nested_type.add(), element, inside)
            elif isinstance(element, ast.Enum):
                self._enum(out.enum_type.add(), element)
            elif isinstance(element, ast.Extension):
                self._extension(out, element, inside)
            elif isinstance(element, ast.Option):
                _set_option(out.options, element)
            elif isinstance(element, ast.ExtensionRange):
                for start, end in _ranges(element.ranges, _LARGEST_FIELD):
                    out.extension_range.add(start=start, end=end + 1)
            elif isinstance(element, ast.Reserved):
                for start, end in _ranges(element.ranges, _LARGEST_FIELD):
                    out.reserved_range.add(start=start, end=end + 1)
                out.reserved_name.extend(name.strip('"') for name in element.names)
        for field in optional:  # each stands in a oneof of its own, after the real ones
            field.oneof_index = len(out.oneof_decl)
            out.oneof_decl.add(name=f"_{field.name}")

    def _field(self, out: FieldDescriptorProto, field: ast.Field, scope: str) -> FieldDescriptorProto:
        out.name, out.number, out.label = field.name, field.number, _LABELS[field.cardinality]
        out.json_name = json_name(field.name)
        self._set_type(out, field.type, scope)
        self._set_options(out, field.options)
        return out

    def _set_options(self, out: FieldDescriptorProto, options: list[ast.Option]) -> None:
        for option in options:
            if option.name == "json_name":
                out.json_name = str(option.value)
            elif option.name == "default":
                out.default_value = _plain(option.value)
            else:
                _set_option(out.options, option)

    def _set_type(self, out: FieldDescriptorProto, name: str, scope: str) -> None:
        if name in _SCALARS:
            out.type = _SCALARS[name]
            return
        out.type_name, out.type = self._resolve(name, scope)

    def _resolve(self, name: str, scope: str) -> tuple[str, FieldDescriptorProto.Type.ValueType]:
        if name.startswith("."):
            if name in self._types:
                return name, self._types[name]
        else:
            around = scope
            while True:
                full = f"{around}.{name}"
                if full in self._types:
                    return full, self._types[full]
                if not around:
                    break
                around = around.rpartition(".")[0]
        raise InvalidSchema(f'"{name}" is not defined.')

    def _map(self, out: DescriptorProto, field: ast.MapField, scope: str) -> None:
        entry_name = "".join(part[:1].upper() + part[1:] for part in field.name.split("_")) + "Entry"
        entry = out.nested_type.add(name=entry_name)
        entry.options.map_entry = True
        for number, (name, type_) in enumerate((("key", field.key_type), ("value", field.value_type)), 1):
            member = entry.field.add(name=name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL, json_name=name)
            self._set_type(member, type_, scope)
        made = out.field.add(
            name=field.name,
            number=field.number,
            label=FieldDescriptorProto.LABEL_REPEATED,
            type=_MESSAGE,
            type_name=f"{scope}.{entry_name}",
            json_name=json_name(field.name),
        )
        self._set_options(made, field.options)

    def _group(self, out: DescriptorProto, group: ast.Group, scope: str) -> None:
        self._message(out.nested_type.add(), group, scope)
        out.field.add(
            name=group.name.lower(),
            number=group.number,
            label=_LABELS[group.cardinality],
            type=FieldDescriptorProto.TYPE_GROUP,
            type_name=f"{scope}.{group.name}",
            json_name=json_name(group.name.lower()),
        )

    @staticmethod
    def _enum(out: EnumDescriptorProto, enum: ast.Enum) -> None:
        out.name = enum.name
        for element in enum.elements:
            if isinstance(element, ast.EnumValue):
                value = out.value.add(name=element.name, number=element.number)
                for option in element.options:
                    _set_option(value.options, option)
            elif isinstance(element, ast.Option):
                _set_option(out.options, element)
            elif isinstance(element, ast.EnumReserved):
                for start, end in _ranges(element.ranges, _LARGEST_ENUM):
                    out.reserved_range.add(start=start, end=end)
                out.reserved_name.extend(name.strip('"') for name in element.names)

    def _extension(self, out: FileDescriptorProto | DescriptorProto, extension: ast.Extension, scope: str) -> None:
        for element in extension.elements:
            if isinstance(element, ast.Field):
                field = self._field(out.extension.add(), element, scope)
                field.extendee = self._resolve(extension.typeName, scope)[0]

    def _service(self, out: Any, service: ast.Service, scope: str) -> None:
        out.name = service.name
        for element in service.elements:
            if isinstance(element, ast.Option):
                _set_option(out.options, element)
            elif isinstance(element, ast.Method):
                method = out.method.add(name=element.name)
                method.input_type = self._resolve(element.input_type.type, scope)[0]
                method.output_type = self._resolve(element.output_type.type, scope)[0]
                method.client_streaming = element.input_type.stream
                method.server_streaming = element.output_type.stream


def _set_option(options: Any, option: ast.Option) -> None:
    """Set one of Protobuf's own options; custom ones need their definition and are left out of the descriptor."""
    known = options.DESCRIPTOR.fields_by_name.get(option.name)
    if known is None or known.message_type is not None:
        return
    value: Any = option.value
    if known.enum_type is not None:
        chosen = known.enum_type.values_by_name.get(_plain(value))
        if chosen is None:
            return
        value = chosen.number
    if isinstance(value, ast.Identifier):
        value = value.name
    try:
        setattr(options, option.name, value)
    except (TypeError, ValueError, AttributeError):
        raise InvalidSchema(f"The option {option.name} cannot be {_plain(option.value)}.") from None


def _plain(value: Any) -> str:
    if isinstance(value, ast.Identifier):
        return value.name
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _ranges(ranges: Iterable[str], largest: int) -> list[tuple[int, int]]:
    found = []
    for each in ranges:
        start, _, end = (part.strip() for part in each.partition(" to "))
        found.append((int(start), largest if end == "max" else int(end or start)))
    return found
