"""Files read inside the worker, in chunks, with no Spark row in between."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl
import pyarrow.fs as pafs

from eventide.engine.feeds import file_formats
from eventide.engine.feeds.decode import Reading
from eventide.engine.feeds.file_faults import UnreadableFile, expect_text, fault_bytes, fault_text, read_whole
from eventide.engine.feeds.landed import LandedFile
from eventide.kernel.columns import ARRIVAL, DEAD, OFFSET, RAW
from eventide.storage.arrow import file_system


def chunks_of(files: list[LandedFile], format: str, reading: Reading, offset: int) -> Iterator[pl.DataFrame]:
    """The files of one lane, one after the other, as chunks ready for the kernel; offsets go on from the given one."""
    for file in files:
        for frame in frames_of(file, format, reading):
            placed = frame.with_columns(
                pl.lit(file.modified, dtype=pl.Int64).alias(ARRIVAL),
                pl.int_range(offset, offset + len(frame), dtype=pl.Int64).alias(OFFSET),
            )
            offset += len(frame)
            yield (reading if file.fault is None else replace(reading, decoder=None)).prepare(placed)


def frames_of(file: LandedFile, format: str, reading: Reading) -> Iterator[pl.DataFrame]:
    """A file's rows in chunks: its columns, or its lines as bytes where they are still to be decoded."""
    if file.fault is not None:
        yield _dead_file(file, reading)
        return
    with read_whole(file):
        files, inner = file_system(file.path)
        if format == "parquet":
            yield from file_formats.parquet(files, inner, reading)
        elif format == "json":
            _expect_text(files, inner)
            yield from file_formats.json_lines(files, inner)
        elif format == "csv":
            _expect_text(files, inner)
            yield from file_formats.csv(files, inner, reading)
        else:
            yield from file_formats.avro(files, inner, reading)


def with_faults(files: list[LandedFile], format: str, reading: Reading) -> list[LandedFile]:
    """The files, each read once to its end; those that cannot be read say why."""
    return [replace(file, fault=_fault(file, format, reading)) for file in files]


def _fault(file: LandedFile, format: str, reading: Reading) -> str | None:
    if file.fault is None:
        try:
            for _ in frames_of(file, format, reading):
                pass
        except UnreadableFile as error:
            return str(error).removeprefix(f"{file.path}: ")
    return file.fault


def _dead_file(file: LandedFile, reading: Reading) -> pl.DataFrame:
    """One row that says that a whole file is a dead letter."""
    facts = pl.DataFrame({RAW: [fault_bytes(file)], DEAD: [fault_text(file)]}, schema={RAW: pl.Binary, DEAD: pl.String})
    return facts.with_columns(pl.lit(None, dtype=kind).alias(name) for name, kind in reading.kinds.items())


def _expect_text(files: pafs.FileSystem, path: str) -> None:
    with files.open_input_stream(path) as stream:
        expect_text(stream.read(16))
