"""What is in a file, chunk by chunk, for each format."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import IO, Any, cast

import polars as pl
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from eventide.engine.feeds.arrow_rows import rows_of
from eventide.engine.feeds.avro_files import avro_frames
from eventide.engine.feeds.calendar import says_dates
from eventide.engine.feeds.csv_records import decode_csv, header_of, records_of
from eventide.engine.feeds.decode import Reading
from eventide.engine.feeds.typed_columns import declared
from eventide.kernel.columns import RAW

ROWS_PER_CHUNK = 500_000
BYTES_PER_CHUNK = 128 * 1024 * 1024
BLOCK = 16 * 1024 * 1024


def parquet(files: pafs.FileSystem, path: str, reading: Reading) -> Iterator[pl.DataFrame]:
    """Columns as they are stored, in the declared types; one that is not needed is read where a value of it could fail to fit."""
    coded = sorted(reading.coded)
    with pq.ParquetFile(files.open_input_file(path), pre_buffer=True, read_dictionary=coded) as file:
        stored = dict(pl.DataFrame(pl.from_arrow(file.schema_arrow.empty_table())).schema)
        every = {**(reading.declared or {}), **reading.kinds}
        wanted = {n: k for n, k in every.items() if n in reading.kinds or (n in stored and (stored[n] != k or says_dates(k)))}
        for batch in file.iter_batches(
            batch_size=ROWS_PER_CHUNK, columns=[name for name in wanted if name in stored], use_threads=False
        ):
            frame = rows_of(pa.Table.from_batches([batch]))
            fitted = declared(frame, wanted, reading.times, reading.coded)
            yield fitted.select([n for n in fitted.columns if n in reading.kinds or n not in wanted])


def json_lines(files: pafs.FileSystem, path: str) -> Iterator[pl.DataFrame]:
    """Lines as bytes, still to be decoded; empty ones are none."""
    for lines in _chunks(line.removesuffix(b"\r") for line in _lines(files, path) if line.strip()):
        yield pl.DataFrame({RAW: lines}, schema={RAW: pl.Binary})


def csv(files: pafs.FileSystem, path: str, reading: Reading) -> Iterator[pl.DataFrame]:
    """Records below a header, decoded."""
    records = records_of(_without_mark(_lines(files, path)))
    for first in records:
        header = header_of(first, reading.kinds)
        for chunk in _chunks(records):
            yield decode_csv(chunk, header, reading.kinds, reading.times)


def avro(files: pafs.FileSystem, path: str, reading: Reading) -> Iterator[pl.DataFrame]:
    """Records of an Avro container, decoded."""
    with files.open_input_stream(path) as stream:
        yield from avro_frames(cast(IO[bytes], stream), reading)  # it reads as one, which its stubs do not say


def _lines(files: pafs.FileSystem, path: str) -> Iterator[bytes]:
    """The lines of a file, the last one too if nothing ends it."""
    held: list[bytes] = []
    with files.open_input_stream(path) as stream:
        while block := stream.read(BLOCK):
            first, *more = block.split(b"\n")
            held.append(first)
            if more:
                yield b"".join(held)
                held = [more.pop()]
                yield from more
    last = b"".join(held)
    if last:
        yield last


def _without_mark(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Lines without the mark of byte order that may stand before the first of them."""
    for line in lines:
        yield line.removeprefix(codecs.BOM_UTF8)
        yield from lines


def _chunks(records: Iterator[Any]) -> Iterator[list[Any]]:
    """Records in lists of a bounded size."""
    some: list[Any] = []
    size = 0
    for record in records:
        some.append(record)
        size += len(record[0]) if isinstance(record, tuple) else len(record)
        if len(some) >= ROWS_PER_CHUNK or size >= BYTES_PER_CHUNK:
            yield some
            some, size = [], 0
    if some:
        yield some
