"""Files read inside the worker, in chunks, with no Spark row in between."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from eventide.engine.decode import Reading
from eventide.engine.store import StoreError, file_system
from eventide.kernel.columns import ARRIVAL, DEAD, OFFSET, RAW
from eventide.model.event import LaneId

ROWS_PER_CHUNK = 500_000
INSTANTS = [f"%Y-%m-%d{between}%H:%M:%S%.f{zone}" for between in ("T", " ") for zone in ("%#z", "")]
"""How a text may say an instant: ISO 8601, with a T or a blank, with a zone or in UTC."""


@dataclass(frozen=True)
class LandedFile:
    """A file as the listing shows it."""

    path: str
    modified: int
    """Microseconds since 1970."""
    lane: str
    size: int = -1
    """In bytes."""


def chunks_of(files: list[LandedFile], format: str, reading: Reading, offset: int) -> Iterator[pl.DataFrame]:
    """The files of one lane, one after the other, as chunks ready for the kernel; offsets go on from the given one."""
    for file in files:
        for frame in frames_of(file.path, format, reading):
            placed = frame.with_columns(
                pl.lit(file.modified, dtype=pl.Int64).alias(ARRIVAL),
                pl.int_range(offset, offset + len(frame), dtype=pl.Int64).alias(OFFSET),
            )
            offset += len(frame)
            yield reading.prepare(placed)


def frames_of(path: str, format: str, reading: Reading) -> Iterator[pl.DataFrame]:
    """A file's rows in chunks: its columns, or its lines as bytes where they are still to be decoded."""
    files, inner = file_system(path)
    if format == "parquet":
        yield from _parquet(files, inner, reading)
    elif format == "json":
        for lines in _lines(files, inner):
            yield pl.DataFrame({RAW: lines}, schema={RAW: pl.Binary})
    elif format == "csv":
        yield from _csv(files, inner, reading)
    else:
        with files.open_input_stream(inner) as stream:
            yield _fitted(pl.read_avro(io.BytesIO(stream.read())), reading)


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


def list_files(root: str, pattern: str, lane: str) -> list[LandedFile]:
    """What has landed below a directory, oldest first."""
    files, base = file_system(root)
    suffix = pattern.removeprefix("*").rstrip("*")
    found = []
    for info in files.get_file_info(pafs.FileSelector(base, recursive=True, allow_not_found=True)):
        hidden = any(part.startswith(("_", ".")) for part in info.path[len(base) :].split("/") if part)
        if info.type == pafs.FileType.File and suffix in info.base_name and not hidden:
            milliseconds = (info.mtime_ns or 0) // 1_000_000  # as Spark's file source has it: it tells no finer times apart
            found.append(LandedFile(info.path, milliseconds * 1_000, lane_of(info.path, base, lane)))
    return sorted(found, key=lambda f: (f.modified, f.path))


def by_lane(source: int, files: list[LandedFile]) -> dict[LaneId, list[LandedFile]]:
    """Files of one source, each lane's in the order in which they were given."""
    lanes: dict[LaneId, list[LandedFile]] = {}
    for file in files:
        lanes.setdefault((source, file.lane), []).append(file)
    return dict(sorted(lanes.items()))


def lane_of(path: str, base: str, lane: str) -> str:
    """The lane of a file: its directory below the source's path, or the whole source.

    >>> lane_of("/landing/in/l0/1.parquet", "/landing/in", "directory"), lane_of("/landing/in/1.parquet", "/landing/in", "directory")
    ('l0', '.')
    """
    if lane != "directory":
        return "0"
    return _below(_without_scheme(path), _without_scheme(base).rstrip("/")).rpartition("/")[0] or "."


def _below(path: str, base: str) -> str:
    """A path below a base, both whole: a directory's name alone may occur anywhere in a path."""
    for start in (base, os.path.abspath(base)):
        if path.startswith(f"{start}/"):
            return path[len(start) + 1 :]
    raise StoreError(f"the file {path} does not lie below {base}, the directory that its source names.")


def _without_scheme(path: str) -> str:
    return path.partition("://")[2] if "://" in path else path.removeprefix("file:")
