"""The wire format: a zero byte, the schema's id in four bytes, then the payload. Standard library only.

>>> decode_header(encode_header(7) + b"payload")
(7, b'payload')
"""

from __future__ import annotations

import struct

from eventide.errors import EventideError

MAGIC = 0
HEADER_SIZE = 5
_HEADER = struct.Struct(">bI")
_MOST_INDEXES = 1_000


class WireError(EventideError, ValueError):
    """A record that is not in the wire format, or whose schema is not known; `kind` says which, for dead letters."""

    kind = "wire"


class Truncated(WireError):
    """Fewer bytes than the header alone needs, or than the message indexes announce."""

    kind = "truncated"


class BadMagic(WireError):
    """The first byte is not zero: the record was not written by a registry-aware serialiser."""

    kind = "bad_magic"


class UnknownId(WireError):
    """The registry has no schema with this id."""

    kind = "unknown_id"

    def __init__(self, schema_id: int, detail: str = "") -> None:
        super().__init__(f"no schema has the id {schema_id}{': ' + detail if detail else ''}")
        self.schema_id = schema_id

    def __reduce__(self) -> tuple[type[UnknownId], tuple[int]]:
        return type(self), (self.schema_id,)


class BadPayload(WireError):
    """The bytes behind the header are not what the schema says."""

    kind = "bad_payload"


def encode_header(schema_id: int) -> bytes:
    """The five bytes that go before a payload."""
    if not 0 <= schema_id <= 0xFFFFFFFF:
        raise ValueError(f"{schema_id} does not fit the four bytes of a schema id")
    return _HEADER.pack(MAGIC, schema_id)


def decode_header(record: bytes) -> tuple[int, bytes]:
    """The schema's id and the payload.

    Raises:
        Truncated: there is no whole header.
        BadMagic: the first byte is not zero.
    """
    if len(record) > 0 and record[0] != MAGIC:
        raise BadMagic(f"the first byte is 0x{record[0]:02x}, not 0x00: this record names no schema")
    if len(record) < HEADER_SIZE:
        raise Truncated(f"{len(record)} bytes, and the header alone has {HEADER_SIZE}")
    return _HEADER.unpack_from(record)[1], bytes(record[HEADER_SIZE:])


def encode_indexes(indexes: list[int]) -> bytes:
    r"""The path to a Protobuf message inside its file, as Confluent's serialisers write it.

    The first message of a file, by far the most common, is a single zero byte.

    >>> encode_indexes([0]), encode_indexes([1, 0])
    (b'\x00', b'\x04\x02\x00')
    """
    if indexes == [0]:
        return b"\x00"
    return _zigzag(len(indexes)) + b"".join(_zigzag(index) for index in indexes)


def decode_indexes(payload: bytes) -> tuple[list[int], bytes]:
    r"""The path to a Protobuf message, and the message itself.

    >>> decode_indexes(b"\x04\x02\x00message")
    ([1, 0], b'message')

    Raises:
        Truncated: the indexes go on past the end.
        BadPayload: their number makes no sense.
    """
    count, at = _unzigzag(payload, 0)
    if count == 0:
        return [0], payload[at:]
    if not 0 < count <= _MOST_INDEXES:
        raise BadPayload(f"{count} message indexes: this is no Protobuf record")
    indexes = []
    for _ in range(count):
        index, at = _unzigzag(payload, at)
        if index < 0:
            raise BadPayload(f"a message index of {index}: this is no Protobuf record")
        indexes.append(index)
    return indexes, payload[at:]


def _zigzag(number: int) -> bytes:
    value = (number << 1) ^ (number >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(0x80 | (value & 0x7F))
        value >>= 7
    out.append(value)
    return bytes(out)


def _unzigzag(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data):
            raise Truncated("the record ends inside its message indexes")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 63:
            raise BadPayload("a message index of more than 64 bits: this is no Protobuf record")
