"""Reads a .proto file, proto2 or proto3, into its elements.

A parser of our own: the one from PyPI takes 3 ms for a dozen lines, and options that it drops are part of the text.
"""

from __future__ import annotations

from typing import Any

from eventide.registry.compatibility.protobuf.element import (
    MAX_NUMBER,
    Enum,
    EnumValue,
    Extend,
    Extensions,
    Field,
    File,
    Group,
    Message,
    OneOf,
    Option,
    Range,
    Rpc,
    Service,
    Word,
)
from eventide.registry.compatibility.protobuf.tokens import Tokens

MAX_DEPTH = 100
"""How deep messages and option values may nest; the compilers of Protobuf stop at 32 to 100 as well."""

_LABELS = ("required", "optional", "repeated")


def read(text: str) -> File:
    """The elements of the file.

    Raises:
        InvalidSchema: the text is no .proto file; says line and column.
    """
    return _Parser(text).file()


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = Tokens(text.removeprefix("\ufeff"))
        self._depth = 0

    def file(self) -> File:
        file, tokens = File(), self._tokens
        while tokens.peek():
            word = tokens.take()
            if word == ";":
                continue
            if word in ("syntax", "edition"):
                self._version(file, word)
            elif word == "package":
                file.package = tokens.name()
                tokens.expect(";")
            elif word == "import":
                target = file.imports
                if tokens.accept("public"):
                    target = file.public_imports
                elif tokens.accept("weak"):
                    target = file.weak_imports
                target.append(tokens.text())
                tokens.expect(";")
            elif word == "option":
                file.options.append(self._statement_option())
            elif word == "message":
                file.types.append(self._message())
            elif word == "enum":
                file.types.append(self._enum())
            elif word == "extend":
                file.extends.append(self._extend())
            elif word == "service":
                file.services.append(self._service())
            else:
                tokens.refuse(f"unexpected label: {word}")
        return file

    def _version(self, file: File, word: str) -> None:
        self._tokens.expect("=")
        value = self._tokens.text()
        if word == "edition":
            file.edition = value
        elif value in ("proto2", "proto3"):
            file.syntax = value
        else:
            self._tokens.refuse(f"unexpected syntax: {value}")
        self._tokens.expect(";")

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._tokens.refuse(f"nested deeper than {MAX_DEPTH} levels")

    def _message(self) -> Message:
        tokens = self._tokens
        message = Message(tokens.name())
        tokens.expect("{")
        self._enter()
        while not tokens.accept("}"):
            word = tokens.peek()
            if word == ";":
                tokens.take()
            elif word == "option":
                tokens.take()
                message.options.append(self._statement_option())
            elif word == "message":
                tokens.take()
                message.types.append(self._message())
            elif word == "enum":
                tokens.take()
                message.types.append(self._enum())
            elif word == "oneof":
                tokens.take()
                message.oneofs.append(self._oneof())
            elif word == "extend":
                tokens.take()
                message.extends.append(self._extend())
            elif word == "reserved":
                tokens.take()
                message.reserved.append(self._ranges())
                tokens.expect(";")
            elif word == "extensions":
                tokens.take()
                extensions = Extensions(self._ranges(), self._compact_options())
                message.extensions.append(extensions)
                tokens.expect(";")
            else:
                self._field_or_group(message.fields, message.groups)
        self._depth -= 1
        return message

    def _field_or_group(self, fields: list[Field], groups: list[Group]) -> None:
        tokens = self._tokens
        label = tokens.take() if tokens.peek() in _LABELS else None
        if tokens.accept("group"):
            groups.append(self._group(label))
            return
        fields.append(self._field(label))

    def _field(self, label: str | None) -> Field:
        tokens = self._tokens
        kind = tokens.name()
        if kind == "map" and tokens.accept("<"):
            key = tokens.name()
            tokens.expect(",")
            kind = f"map<{key}, {tokens.name()}>"
            tokens.expect(">")
        name = tokens.name()
        tokens.expect("=")
        field = Field(label, kind, name, self._number())
        for option in self._compact_options():
            if option.name == "default" and not option.custom:
                field.default = option.value
            elif option.name == "json_name" and not option.custom:
                field.json_name = str(option.value)
            else:
                field.options.append(option)
        tokens.expect(";")
        return field

    def _number(self) -> int:
        number = self._tokens.number()
        if not 1 <= number <= MAX_NUMBER:
            self._tokens.refuse(f"the field number {number} is not between 1 and {MAX_NUMBER}")
        return number

    def _group(self, label: str | None) -> Group:
        tokens = self._tokens
        name = tokens.name()
        tokens.expect("=")
        group = Group(label, name, self._number())
        self._compact_options()
        tokens.expect("{")
        self._enter()
        while not tokens.accept("}"):
            if not tokens.accept(";"):
                self._field_or_group(group.fields, [])
        self._depth -= 1
        return group

    def _oneof(self) -> OneOf:
        tokens = self._tokens
        oneof = OneOf(tokens.name())
        tokens.expect("{")
        while not tokens.accept("}"):
            if tokens.accept(";"):
                continue
            if tokens.accept("option"):
                oneof.options.append(self._statement_option())
            else:
                self._field_or_group(oneof.fields, oneof.groups)
        return oneof

    def _extend(self) -> Extend:
        tokens = self._tokens
        extend = Extend(tokens.name())
        tokens.expect("{")
        while not tokens.accept("}"):
            if not tokens.accept(";"):
                self._field_or_group(extend.fields, [])
        return extend

    def _enum(self) -> Enum:
        tokens = self._tokens
        enum = Enum(tokens.name())
        tokens.expect("{")
        while not tokens.accept("}"):
            if tokens.accept(";"):
                continue
            if tokens.accept("option"):
                enum.options.append(self._statement_option())
            elif tokens.accept("reserved"):
                enum.reserved.append(self._ranges())
                tokens.expect(";")
            else:
                name = tokens.name()
                tokens.expect("=")
                enum.values.append(EnumValue(name, tokens.number(), self._compact_options()))
                tokens.expect(";")
        return enum

    def _ranges(self) -> list[Range]:
        tokens = self._tokens
        found: list[Range] = []
        while True:
            if tokens.is_text():
                found.append(tokens.text())
            elif tokens.peek()[:1].isalpha():
                found.append(tokens.name())
            else:
                first = tokens.number()
                if tokens.accept("to"):
                    found.append((first, MAX_NUMBER if tokens.accept("max") else tokens.number()))
                else:
                    found.append(first)
            if not tokens.accept(","):
                return found

    def _service(self) -> Service:
        tokens = self._tokens
        service = Service(tokens.name())
        tokens.expect("{")
        while not tokens.accept("}"):
            if tokens.accept(";"):
                continue
            if tokens.accept("option"):
                service.options.append(self._statement_option())
                continue
            tokens.expect("rpc")
            rpc = Rpc(tokens.name(), "", "")
            rpc.request, rpc.request_streams = self._rpc_type()
            tokens.expect("returns")
            rpc.response, rpc.response_streams = self._rpc_type()
            if tokens.accept("{"):
                while not tokens.accept("}"):
                    if not tokens.accept(";"):
                        tokens.expect("option")
                        rpc.options.append(self._statement_option())
                tokens.accept(";")
            else:
                tokens.expect(";")
            service.rpcs.append(rpc)
        return service

    def _rpc_type(self) -> tuple[str, bool]:
        self._tokens.expect("(")
        streams = self._tokens.accept("stream")
        name = self._tokens.name()
        self._tokens.expect(")")
        return name, streams

    def _statement_option(self) -> Option:
        option = self._option()
        self._tokens.expect(";")
        return option

    def _compact_options(self) -> list[Option]:
        found: list[Option] = []
        if self._tokens.accept("["):
            while not self._tokens.accept("]"):
                found.append(self._option())
                if not self._tokens.accept(","):
                    self._tokens.expect("]")
                    break
        return found

    def _option(self) -> Option:
        tokens = self._tokens
        custom = tokens.accept("(")
        name = tokens.name()
        if custom:
            tokens.expect(")")
        inner: list[str] = []
        if custom and tokens.peek().startswith("."):
            inner = tokens.word().strip(".").split(".")
        tokens.expect("=")
        value = self._value()
        for part in reversed(inner):
            value = Option(part, value)
        return Option(name, value, custom)

    def _value(self) -> Any:
        tokens = self._tokens
        if tokens.is_text():
            return tokens.text()
        self._enter()
        try:
            if tokens.accept("{"):
                return self._literal("}")
            if tokens.accept("<"):
                return self._literal(">")
            if tokens.accept("["):
                items: list[Any] = []
                while not tokens.accept("]"):
                    items.append(self._value())
                    tokens.accept(",")
                return items
            return Word(tokens.word())
        finally:
            self._depth -= 1

    def _literal(self, end: str) -> dict[str, Any]:
        tokens = self._tokens
        found: dict[str, Any] = {}
        while not tokens.accept(end):
            if tokens.accept("["):
                key = "[" + tokens.name()
                while tokens.accept("/"):
                    key += "/" + tokens.name()
                tokens.expect("]")
                key += "]"
            else:
                key = tokens.name()
            tokens.accept(":")
            value = self._value()
            if key in found:
                before = found[key] if isinstance(found[key], list) else [found[key]]
                value = before + (value if isinstance(value, list) else [value])
            found[key] = value
            if not tokens.accept(","):
                tokens.accept(";")
        return found
