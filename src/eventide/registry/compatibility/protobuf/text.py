"""A .proto file as Confluent writes it: the text that is stored, and the normalised one with full names."""

from __future__ import annotations

from collections.abc import Iterable

from eventide.registry.compatibility.protobuf.element import (
    MAX_NUMBER,
    SCALARS,
    Enum,
    Extend,
    Extensions,
    Field,
    File,
    Group,
    Message,
    OneOf,
    Option,
    Range,
    Service,
    map_types,
)
from eventide.registry.compatibility.protobuf.names import Names
from eventide.registry.compatibility.protobuf.options import bracketed, statement, tidy
from eventide.registry.compatibility.schema import InvalidSchema

_Scope = tuple[str, ...]


def canonical(file: File) -> str:
    """The text as it was written, laid out Confluent's way; comments are gone."""
    return _Writer(None).file(file)


def normalized(file: File, names: Names) -> str:
    """The text in an order of its own, with full names.

    Raises:
        InvalidSchema: a name means nothing.
    """
    return _Writer(names).file(file)


class _Writer:
    def __init__(self, names: Names | None) -> None:
        self._names = names

    def file(self, file: File) -> str:
        tidy_up = self._names is not None
        text = ""
        if file.syntax and (not tidy_up or file.syntax == "proto3"):
            text += f'syntax = "{file.syntax}";\n'
        elif file.edition:
            text += f'edition = "{file.edition}";\n'
        if file.package:
            text += f"package {file.package};\n"
        groups = (("", file.imports), ("public ", file.public_imports), ("weak ", file.weak_imports))
        if any(names for _, names in groups):
            text += "\n"
        for modifier, names in groups:
            for name in sorted(set(names)) if tidy_up else names:
                text += f'import {modifier}"{name}";\n'
        options = self._options(file.options, ())
        if options:
            text += "\n" + "".join(statement(option, tidy_up) for option in options)
        text += self._types(file.types, (), "\n")
        if file.extends:
            text += "\n" + "".join(self._extend(extend, ()) for extend in self._extends(file.extends, ()))
        if file.services:
            text += "\n" + "".join(self._service(service) for service in file.services)
        return text

    def _types(self, types: list[Message | Enum], scope: _Scope, opening: str) -> str:
        if self._names is not None:
            types = [inner for inner in types if not self._is_map_entry(inner)]
        if not types:
            return ""
        text = opening
        for inner in types:
            if isinstance(inner, Message):
                text += self._message(inner, (*scope, inner.name))
        for inner in types:
            if isinstance(inner, Enum):
                text += self._enum(inner, (*scope, inner.name))
        return text

    def _is_map_entry(self, inner: Message | Enum) -> bool:
        return isinstance(inner, Message) and str(inner.option("map_entry")) == "true"

    def _message(self, message: Message, scope: _Scope) -> str:
        text = f"message {message.name} {{"
        reserved = self._ranges(message.reserved)
        text += _section(f"reserved {_ranges(given, self._names is not None)};\n" for given in reserved)
        text += _section(statement(option, self._names is not None) for option in self._options(message.options, scope))
        text += _section(self._field(field, scope) for field in self._by_number(message.fields))
        oneofs = self._oneofs(message.oneofs)
        # Oneofs without fields are left out of the normalised text, but not the empty line before them.
        text += _section(self._oneof(oneof, scope) for oneof in oneofs) if oneofs or not message.oneofs else "\n"
        text += _section(self._group(group, scope) for group in message.groups)
        text += _section(self._extensions(extensions, scope) for extensions in self._split(message.extensions))
        text += _section(self._extend(extend, scope) for extend in self._extends(message.extends, scope))
        nested = self._types(message.types, scope, "")
        return text + ("\n" + indented(nested) if nested else "") + "}\n"

    def _enum(self, enum: Enum, scope: _Scope) -> str:
        text = f"enum {enum.name} {{"
        if enum.reserved or enum.options or enum.values:
            text += "\n"
        for given in self._ranges(enum.reserved):
            text += f"  reserved {_ranges(given, self._names is not None)};\n"
        for option in self._options(enum.options, scope):
            text += indented(statement(option, self._names is not None))
        values = enum.values
        if self._names is not None:
            values = sorted(values, key=lambda value: (value.number, value.name))
        for value in values:
            options = self._options(value.options, scope)
            text += indented(f"{value.name} = {value.number}{bracketed(options, self._names is not None)};\n")
        return text + "}\n"

    def _oneof(self, oneof: OneOf, scope: _Scope) -> str:
        text = f"oneof {oneof.name} {{"
        text += _section(statement(option, self._names is not None) for option in self._options(oneof.options, scope))
        text += _section(self._field(field, scope) for field in self._by_number(oneof.fields))
        return text + _section(self._group(group, scope) for group in oneof.groups) + "}\n"

    def _group(self, group: Group, scope: _Scope) -> str:
        label = f"{group.label} " if group.label else ""
        fields = _section(self._field(field, scope) for field in self._by_number(group.fields))
        return f"{label}group {group.name} = {group.number} {{{fields}}}\n"

    def _extend(self, extend: Extend, scope: _Scope) -> str:
        fields = _section(self._field(field, scope) for field in self._by_number(extend.fields))
        return f"extend {extend.name} {{{fields}}}\n"

    def _extensions(self, extensions: Extensions, scope: _Scope) -> str:
        options = bracketed(self._options(extensions.options, scope), self._names is not None)
        return f"extensions {_ranges(extensions.ranges, self._names is not None)}{options};\n"

    def _service(self, service: Service) -> str:
        text = f"service {service.name} {{"
        text += _section(statement(option, self._names is not None) for option in self._options(service.options, ()))
        lines: list[str] = []
        for rpc in service.rpcs:
            request, response = self._named(rpc.request, ()), self._named(rpc.response, ())
            line = f"rpc {rpc.name} ({'stream ' * rpc.request_streams}{request}) returns "
            line += f"({'stream ' * rpc.response_streams}{response})"
            options = self._options(rpc.options, ())
            if options:
                inner = "".join(statement(option, self._names is not None) for option in options)
                line += " {\n" + indented(inner) + "}"
            lines.append(line + ";\n")
        return text + _section(lines) + "}\n"

    def _field(self, field: Field, scope: _Scope) -> str:
        label, kind = field.label, self._type(field.type, scope)
        if self._names is not None and kind.startswith("map<"):
            label = None
        options = list(field.options)
        if field.default is not None:
            options.append(Option("default", field.default))
        if field.json_name is not None:
            options.append(Option("json_name", field.json_name))
        listed = bracketed(self._options(options, scope), self._names is not None)
        return f"{label + ' ' if label else ''}{kind} {field.name} = {field.number}{listed};\n"

    def _type(self, kind: str, scope: _Scope) -> str:
        if self._names is None or kind in SCALARS:
            return kind
        if not kind.startswith("map<"):
            found = self._names.find(kind, self._names.package, scope)
            if found is None or not found.is_map:
                return self._named(kind, scope)
            kind = found.as_map()
        key, value = map_types(kind) or ("", "")
        return f"map<{key}, {value if value in SCALARS else self._named(value, scope)}>"

    def _named(self, name: str, scope: _Scope) -> str:
        if self._names is None:
            return name
        full = self._names.resolve(name, self._names.package, scope)
        if full is None:
            raise InvalidSchema(f"Could not resolve type: {name}")
        return f".{full}"

    def _options(self, options: list[Option], scope: _Scope) -> list[Option]:
        return tidy(options, self._names, scope) if self._names is not None else options

    def _by_number(self, fields: list[Field]) -> list[Field]:
        return sorted(fields, key=lambda field: field.number) if self._names is not None else fields

    def _oneofs(self, oneofs: list[OneOf]) -> list[OneOf]:
        if self._names is None:
            return oneofs
        filled = [oneof for oneof in oneofs if oneof.fields]
        return sorted(filled, key=lambda oneof: min(field.number for field in oneof.fields))

    def _ranges(self, given: list[list[Range]]) -> list[list[Range]]:
        if self._names is None:
            return given
        single = [value for values in given for value in values]
        return [[value] for value in sorted(single, key=lambda value: (_first(value), str(value)))]

    def _split(self, given: list[Extensions]) -> list[Extensions]:
        if self._names is None:
            return given
        single = [Extensions([value], extensions.options) for extensions in given for value in extensions.ranges]
        return sorted(single, key=lambda extensions: _first(extensions.ranges[0]))

    def _extends(self, given: list[Extend], scope: _Scope) -> list[Extend]:
        if self._names is None:
            return given
        found: dict[str, Extend] = {}
        for extend in given:
            name = self._named(extend.name, scope)
            found.setdefault(name, Extend(name)).fields.extend(extend.fields)
        return list(found.values())


def indented(text: str) -> str:
    """The lines of the text, each two spaces further in; empty ones too, as Confluent has them."""
    return "".join(f"  {line}\n" for line in text.rstrip("\n").split("\n"))


def _section(lines: Iterable[str]) -> str:
    text = "".join(indented(line) for line in lines)
    return "\n" + text if text else ""


def _first(value: Range) -> int:
    return 2**31 - 1 if isinstance(value, str) else value if isinstance(value, int) else value[0]


def _ranges(values: list[Range], tidy_up: bool) -> str:
    parts: list[str] = []
    for value in values:
        if isinstance(value, str):
            parts.append(f'"{value}"')
        elif isinstance(value, int) or (tidy_up and value[0] == value[1]):
            parts.append(str(value if isinstance(value, int) else value[0]))
        else:
            parts.append(f"{value[0]} to {'max' if value[1] >= MAX_NUMBER else value[1]}")
    return ", ".join(parts)
