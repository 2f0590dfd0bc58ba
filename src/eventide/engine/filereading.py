"""Files read inside the worker, in chunks, with no Spark row in between."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl
import pyarrow.fs as pafs

from eventide.engine import fileformats
from eventide.engine.decode import Reading
from eventide.engine.store import StoreError, file_system
from eventide.kernel.columns import ARRIVAL, OFFSET
from eventide.model.event import LaneId


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
        yield from fileformats.parquet(files, inner, reading)
    elif format == "json":
        yield from fileformats.json_lines(files, inner)
    elif format == "csv":
        yield from fileformats.csv(files, inner, reading)
    else:
        yield from fileformats.avro(files, inner, reading)


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
