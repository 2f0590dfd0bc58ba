"""Files read inside the worker, in chunks, with no Spark row in between."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace

import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from eventide.engine.decode import Reading
from eventide.engine.filefaults import UnreadableFile, expect_text, fault_bytes, fault_text, read_whole
from eventide.engine.landed import LandedFile
from eventide.engine.store import file_system
from eventide.kernel.columns import ARRIVAL, DEAD, OFFSET, RAW

ROWS_PER_CHUNK = 500_000
INSTANTS = [f"%Y-%m-%d{between}%H:%M:%S%.f{zone}" for between in ("T", " ") for zone in ("%#z", "")]
"""How a text may say an instant: ISO 8601, with a T or a blank, with a zone or in UTC."""


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
            yield from _parquet(files, inner, reading)
        elif format == "json":
            _expect_text(files, inner)
            for lines in _lines(files, inner):
                yield pl.DataFrame({RAW: lines}, schema={RAW: pl.Binary})
        elif format == "csv":
            _expect_text(files, inner)
            yield from _csv(files, inner, reading)
        else:
            with files.open_input_stream(inner) as stream:
                yield _fitted(pl.read_avro(io.BytesIO(stream.read())), reading)


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


def _parquet(files: pafs.FileSystem, path: str, reading: Reading) -> Iterator[pl.DataFrame]:
    coded = sorted(reading.coded)
    with pq.ParquetFile(files.open_input_file(path), pre_buffer=True, read_dictionary=coded) as file:
        wanted = [name for name in reading.kinds if name in file.schema_arrow.names]
        for batch in file.iter_batches(batch_size=ROWS_PER_CHUNK, columns=wanted, use_threads=False):
            frame = pl.from_arrow(pa.Table.from_batches([batch]))
            assert isinstance(frame, pl.DataFrame)
            yield _fitted(frame, reading)


def _fitted(frame: pl.DataFrame, reading: Reading) -> pl.DataFrame:
    """The columns asked for, with their declared types; a value that does not fit makes its row a dead letter."""
    missing = [pl.lit(None, dtype=kind).alias(name) for name, kind in reading.kinds.items() if name not in frame.columns]
    frame = frame.with_columns(missing).select(list(reading.kinds))
    wrong = [name for name, kind in reading.kinds.items() if frame.schema[name] != kind and not _codes(frame[name], reading)]
    if not wrong:
        return frame
    cast = frame.with_columns([_as(frame[name], reading.kinds[name]).alias(name) for name in wrong])
    lost = [pl.lit(cast[name].is_null() & frame[name].is_not_null()) for name in wrong]
    reason = pl.when(pl.any_horizontal(lost)).then(pl.lit(f"another schema: a value of {', '.join(wrong)} does not fit"))
    return cast.with_columns(reason.otherwise(None).alias(DEAD))


def _codes(column: pl.Series, reading: Reading) -> bool:
    """Whether a column came as codes for text, and may."""
    return column.name in reading.coded and column.dtype == pl.Categorical and reading.kinds[column.name] == pl.String


def _as(values: pl.Series, kind: pl.DataType) -> pl.Expr:
    """Values as another type; null where they do not fit."""
    if values.dtype != pl.String:
        return pl.lit(values).cast(kind, strict=False)
    if isinstance(kind, pl.Datetime):
        return pl.coalesce([_instants(values, form, kind) for form in INSTANTS])
    if kind == pl.Date:
        return pl.lit(values).str.to_date("%Y-%m-%d", strict=False)
    if kind == pl.Boolean:
        return pl.lit(values.str.to_lowercase()).replace_strict({"true": True, "false": False}, default=None, return_dtype=kind)
    return pl.lit(values).cast(kind, strict=False)


def _instants(values: pl.Series, form: str, kind: pl.Datetime) -> pl.Expr:
    """Texts of one form as instants: those that name no zone are in UTC."""
    read = pl.lit(values).str.to_datetime(form, time_unit="us", strict=False)
    if not form.endswith("%#z"):
        read = read.dt.replace_time_zone("UTC")
    return read if kind.time_zone else read.dt.replace_time_zone(None)


def _lines(files: pafs.FileSystem, path: str) -> Iterator[list[bytes]]:
    lines: list[bytes] = []
    rest = b""
    with files.open_input_stream(path) as stream:
        while block := stream.read(16 * 1024 * 1024):
            *whole, rest = (rest + block).split(b"\n")
            lines += [line for line in whole if line.strip()]
            if len(lines) >= ROWS_PER_CHUNK:
                yield lines
                lines = []
    lines += [rest] if rest.strip() else []
    if lines:
        yield lines


def _csv(files: pafs.FileSystem, path: str, reading: Reading) -> Iterator[pl.DataFrame]:
    options = pacsv.ConvertOptions(column_types=dict.fromkeys(reading.kinds, pa.string()), strings_can_be_null=True)
    with files.open_input_stream(path) as stream:
        for batch in pacsv.open_csv(stream, convert_options=options):  # type: ignore[arg-type]
            frame = pl.from_arrow(pa.Table.from_batches([batch]))
            assert isinstance(frame, pl.DataFrame)
            yield _fitted(frame, reading)
