"""The elements of a .proto file, as they are written: what the parser makes and the text is made from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SCALARS = frozenset(
    (
        *("int32", "int64", "uint32", "uint64", "sint32", "sint64", "bool", "string", "bytes"),
        *("fixed32", "fixed64", "sfixed32", "sfixed64", "float", "double"),
    )
)
MAX_NUMBER = 536_870_911
"""The highest field number there is; written ``max``."""


class Word(str):
    """A value that stands without quotes: a number, a truth value or the name of an enum constant."""

    __slots__ = ()


Range = int | str | tuple[int, int]
"""A reserved number, a reserved name, or the first and last of several numbers."""


@dataclass(slots=True)
class Option:
    """An option: its value is text, a Word, a list, a dict, or another option inside it."""

    name: str
    value: Any
    custom: bool = False


@dataclass(slots=True)
class Field:
    """A field of a message; a map field has the type ``map<key, value>``."""

    label: str | None
    type: str
    name: str
    number: int
    options: list[Option] = field(default_factory=list)
    default: Any = None
    json_name: str | None = None


@dataclass(slots=True)
class Group:
    """A group: a field and a message in one, as proto2 had them."""

    label: str | None
    name: str
    number: int
    fields: list[Field] = field(default_factory=list)


@dataclass(slots=True)
class OneOf:
    """Fields of which at most one is set."""

    name: str
    fields: list[Field] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class Extend:
    """Fields that are added to a message defined elsewhere."""

    name: str
    fields: list[Field] = field(default_factory=list)


@dataclass(slots=True)
class Extensions:
    """Numbers that others may use for fields of their own."""

    ranges: list[Range]
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class EnumValue:
    """A constant of an enum."""

    name: str
    number: int
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class Enum:
    """An enum, with its values in the order in which they were written."""

    name: str
    values: list[EnumValue] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    reserved: list[list[Range]] = field(default_factory=list)


@dataclass(slots=True)
class Message:
    """A message, with the messages and enums inside it."""

    name: str
    fields: list[Field] = field(default_factory=list)
    oneofs: list[OneOf] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    types: list[Message | Enum] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    reserved: list[list[Range]] = field(default_factory=list)
    extensions: list[Extensions] = field(default_factory=list)
    extends: list[Extend] = field(default_factory=list)

    def all_fields(self) -> list[Field]:
        """Its own fields and those of its oneofs."""
        return self.fields + [inner for oneof in self.oneofs for inner in oneof.fields]

    def option(self, name: str) -> Any:
        """The value of an option, None if it is not there."""
        return next((option.value for option in self.options if option.name == name and not option.custom), None)


@dataclass(slots=True)
class Rpc:
    """A method of a service."""

    name: str
    request: str
    response: str
    request_streams: bool = False
    response_streams: bool = False
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class Service:
    """A service: calls under one name. It is kept in the text; compatibility does not look at it."""

    name: str
    rpcs: list[Rpc] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class File:
    """A whole .proto file."""

    syntax: str | None = None
    edition: str | None = None
    package: str | None = None
    imports: list[str] = field(default_factory=list)
    public_imports: list[str] = field(default_factory=list)
    weak_imports: list[str] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    types: list[Message | Enum] = field(default_factory=list)
    extends: list[Extend] = field(default_factory=list)
    services: list[Service] = field(default_factory=list)


def map_types(type_name: str) -> tuple[str, str] | None:
    """The types of key and value, if the type is a map."""
    if not type_name.startswith("map<"):
        return None
    key, _, value = type_name[4:-1].partition(",")
    return key.strip(), value.strip()
