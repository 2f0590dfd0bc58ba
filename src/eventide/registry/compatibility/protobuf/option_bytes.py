"""Custom options as they stand in a descriptor: written to the wire by the definition of the extension that they set."""

from __future__ import annotations

import struct
from typing import Any

from eventide.registry.compatibility.protobuf.element import SCALARS, Enum, Field, Option, Word, map_types
from eventide.registry.compatibility.protobuf.names import Names
from eventide.registry.compatibility.protobuf.options import tidy

_FIXED = {"fixed32": "<I", "sfixed32": "<i", "float": "<f", "fixed64": "<Q", "sfixed64": "<q", "double": "<d"}
_VARINT, _EIGHT, _LENGTH, _FOUR = 0, 1, 2, 5


def encoded(options: list[Option], names: Names, scope: tuple[str, ...]) -> bytes:
    """The custom ones among the options; one whose definition is nowhere to be found has no bytes.

    Raises:
        ValueError: a value that its type cannot hold.
    """
    found = b""
    for option in tidy([option for option in options if option.custom], names, scope):
        field = names.extension(option.name)
        if field is not None:
            found += _field(field, option.value, names, option.name.rpartition(".")[0])
    return found


def _field(field: Field, value: Any, names: Names, place: str) -> bytes:
    values = value if isinstance(value, list) else [value]
    return b"".join(_one(field.number, field.type, item, names, place) for item in values)


def _one(number: int, kind: str, value: Any, names: Names, place: str) -> bytes:
    pair = map_types(kind)
    if pair is not None:
        entry = [Field(None, pair[0], "key", 1), Field(None, pair[1], "value", 2)]
        return _delimited(number, _members(entry, value, names, place))
    if kind in SCALARS:
        return _scalar(number, kind, value)
    # Under its full name too: what every schema may import is known by that alone.
    full = names.resolve(kind, place, ()) or names.resolve(f"{place}.{kind}", "", ())
    if full is None:
        return b""
    found = names.defined(full)
    if isinstance(found.element, Enum):
        numbers = {constant.name: constant.number for constant in found.element.values}
        return _tag(number, _VARINT) + _varint(numbers[str(value)] if str(value) in numbers else int(value, 0))
    return _delimited(number, _members(found.element.all_fields(), value, names, full))


def _members(fields: list[Field], value: Any, names: Names, place: str) -> bytes:
    """A message written out as text: its fields by name, extensions in brackets."""
    given = dict(value) if isinstance(value, dict) else {}
    found = b""
    for field in sorted(fields, key=lambda field: field.number):
        if field.name in given:
            found += _field(field, given.pop(field.name), names, place)
    for name, item in given.items():
        extension = names.extension(name[1:-1]) if name.startswith("[") else None
        if extension is not None:
            found += _field(extension, item, names, name[1:-1].rpartition(".")[0])
    return found


def _scalar(number: int, kind: str, value: Any) -> bytes:
    if kind in ("string", "bytes"):
        return _delimited(number, str(value).encode("utf-8", "surrogateescape"))
    if kind in _FIXED:
        packed = struct.pack(_FIXED[kind], _float(value) if kind in ("float", "double") else int(value, 0))
        return _tag(number, _FOUR if len(packed) == 4 else _EIGHT) + packed
    if kind == "bool":
        return _tag(number, _VARINT) + _varint(int(str(value) in ("true", "t", "1")))
    whole = int(value, 0)
    if kind.startswith("sint"):
        whole = (whole << 1) ^ (whole >> 63)
    return _tag(number, _VARINT) + _varint(whole)


def _float(value: Word) -> float:
    return float(value.rstrip("fF") if value[:2] not in ("0x", "0X") and value.lower() != "inf" else value)


def _delimited(number: int, content: bytes) -> bytes:
    return _tag(number, _LENGTH) + _varint(len(content)) + content


def _tag(number: int, wire: int) -> bytes:
    return _varint(number << 3 | wire)


def _varint(value: int) -> bytes:
    value &= 2**64 - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value))
