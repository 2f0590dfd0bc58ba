"""Avro containers, some blocks at a time: many records at once where all columns are plain, and one by one where not.

Polars reads records of plain fields into columns, which are then fitted as those of every typed file. Whatever it refuses, and nested or
computed types, are read record by record. Bytes that no writer writes, such as a branch that a union does not have, are found only there.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, cast

import polars as pl

from eventide.engine.feeds.avro_kinds import Parsed
from eventide.engine.feeds.columnar import fitter, frame_of
from eventide.engine.feeds.decode import Reading
from eventide.engine.feeds.typed_columns import declared
from eventide.engine.feeds.values import Misfit
from eventide.kernel.columns import DEAD, RAW
from eventide.sinks.plain import text as plain_text

MAGIC = b"Obj\x01"
HEADER = {
    "type": "record", "name": "org.apache.avro.file.Header", "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": 4}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": 16}},
    ],
}  # fmt: skip
BYTES_PER_PART, RECORDS_PER_PART = 16 * 1024 * 1024, 50_000
PLAIN = {"boolean", "int", "long", "float", "double", "bytes", "string"}
LOGICAL = {("long", "timestamp-micros"), ("long", "timestamp-millis"), ("int", "date")}
CODECS = {b"null", b"deflate", b"snappy"}
"""Of those that Polars knows."""


@dataclass(frozen=True)
class Part:
    """Some blocks of a container, as a container."""

    header: dict[str, Any]
    blocks: bytes
    records: int

    def stream(self, schema: Parsed) -> io.BytesIO:
        """Its bytes, under a schema that reads them."""
        import fastavro

        out = io.BytesIO()
        meta = {**self.header["meta"], "avro.schema": json.dumps(schema).encode()}
        fastavro.schemaless_writer(out, HEADER, {**self.header, "meta": meta})
        return io.BytesIO(out.getvalue() + self.blocks)


def avro_frames(stream: IO[bytes], reading: Reading) -> Iterator[pl.DataFrame]:
    """The records of a container as columns, with the reason for each that cannot be read; a broken container is a ValueError."""
    header = _header(stream)
    schema = json.loads(header["meta"]["avro.schema"])
    at_once = header["meta"].get("avro.codec", b"null") in CODECS and _is_plain(schema)
    for part in _parts(stream, header):
        found = _together(part, schema, reading) if at_once else None
        yield _one_by_one(part, schema, reading) if found is None else found


def _header(stream: IO[bytes]) -> dict[str, Any]:
    import fastavro  # only here: workers that read no Avro need not wait for it

    try:
        header = cast(dict[str, Any], fastavro.schemaless_reader(stream, HEADER, None))
        assert header["magic"] == MAGIC
        fastavro.parse_schema(json.loads(header["meta"]["avro.schema"]))
    except OSError:
        raise
    except Exception as error:
        raise ValueError(f"it is no sound Avro file: its header cannot be read ({type(error).__name__})") from error
    return dict(header)


def _parts(stream: IO[bytes], header: dict[str, Any]) -> Iterator[Part]:
    blocks, size, records = [], 0, 0
    while (count := _long(stream)) is not None:
        length = _long(stream)
        if count < 0 or length is None or length < 0:
            raise ValueError("it is no sound Avro file: a block has no length")
        block = stream.read(length + 16)
        if len(block) < length + 16 or block[length:] != header["sync"]:
            raise ValueError("it is no sound Avro file: a block is broken off, or not where it should be")
        blocks.append(_varint(count) + _varint(length) + block)
        size, records = size + length, records + count
        if size >= BYTES_PER_PART or records >= RECORDS_PER_PART:
            yield Part(header, b"".join(blocks), records)
            blocks, size, records = [], 0, 0
    if blocks:
        yield Part(header, b"".join(blocks), records)


def _long(stream: IO[bytes]) -> int | None:
    """A number as Avro writes it; None at the end of the file."""
    number: int = 0
    shift = 0
    while byte := stream.read(1):
        number |= (byte[0] & 0x7F) << shift
        shift += 7
        if byte[0] < 0x80:
            return (number >> 1) ^ -(number & 1)
        if shift > 63:
            raise ValueError("it is no sound Avro file: a block has no length")
    if shift:
        raise ValueError("it is no sound Avro file: it ends inside a block")
    return None


def _varint(number: int) -> bytes:
    number, out = number << 1, bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _is_plain(schema: Parsed) -> bool:
    return (
        isinstance(schema, dict)
        and schema.get("type") == "record"
        and all(_plain_field(f["type"]) for f in schema.get("fields", []))
    )


def _plain_field(kind: Parsed) -> bool:
    if isinstance(kind, list):
        return (
            len(kind) == 2 and "null" in kind and all(one == "null" or _plain_field(one) for one in kind) and kind[0] != kind[1]
        )
    if isinstance(kind, dict):
        logical = kind.get("logicalType")
        return kind["type"] in PLAIN if logical is None else (kind["type"], logical) in LOGICAL
    return kind in PLAIN


def _together(part: Part, schema: Parsed, reading: Reading) -> pl.DataFrame | None:
    """All records as columns; None where that could change one of them, or what becomes of it."""
    try:
        frame = pl.read_avro(part.stream(schema))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return None
    frame = frame.select([name for name in reading.kinds if name in frame.columns])
    if len(frame) != part.records or not all(_same_family(frame.schema[n], reading.kinds[n]) for n in frame.columns):
        return None
    fitted = declared(frame, reading.kinds, reading.times)
    if DEAD not in fitted.columns:
        return fitted
    return fitted.with_columns(pl.when(pl.col(DEAD).is_null()).then(pl.col(name)).alias(name) for name in reading.kinds)


def _same_family(given: pl.DataType, kind: pl.DataType) -> bool:
    """Types between which columns and single values are fitted alike."""
    instants = isinstance(given, pl.Datetime) and isinstance(kind, pl.Datetime)
    return given == kind or instants or (given.is_integer() and kind.is_integer())


def _one_by_one(part: Part, schema: Parsed, reading: Reading) -> pl.DataFrame:
    read = fitter(reading.kinds, reading.times)
    rows: list[list[Any] | None] = []
    reasons: list[str | None] = []
    raw: list[bytes | None] = []
    for record in _records(part, schema):
        row, reason, body = None, None, None
        try:
            if not isinstance(record, dict):
                raise Misfit("not a record")
            row = read(record)
        except Misfit as error:
            reason, body = str(error), (plain_text(record) or "").encode(errors="backslashreplace")
        rows.append(row)
        reasons.append(reason)
        raw.append(body)
    return frame_of(rows, reading.kinds, reasons).with_columns(pl.Series(RAW, raw, dtype=pl.Binary))


def _records(part: Part, schema: Parsed) -> Iterator[Any]:
    """Whatever the reader of records stumbles over is the file's fault."""
    import fastavro

    from eventide.registry.avro_logical import exact

    try:
        found = 0
        for record in fastavro.reader(part.stream(exact(schema))):
            found += 1
            yield record
    except OSError:
        raise
    except Exception as error:
        raise ValueError(f"it is no sound Avro file: {type(error).__name__}: {error}") from error
    if found != part.records:
        raise ValueError(f"it is no sound Avro file: {found} records where its blocks say {part.records}")
