"""The slice store: immutable Parquet parts under each batch's number, listed in the ledger, never updated in place."""

from __future__ import annotations

import hashlib
import io
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import quote

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from eventide.errors import StoreError
from eventide.model.event import LaneId
from eventide.sinks.chunks import narrowed
from eventide.storage.address import from_here
from eventide.storage.opened import data_files

LONGEST = 150
"""File names have at most 255 characters."""


class PartKind(StrEnum):
    """What a part holds."""

    PARTIAL = "partial"
    """Partial aggregates by slice and key."""
    ROWS = "rows"
    """Rows that wait to be swept."""
    FIRSTS = "firsts"
    """Rows that wait and are known to be the first of their equals."""
    KEPT = "kept"
    """What deduplication remembers."""
    SAID = "book"
    """What an output has said of its windows."""
    SESSIONS = "sessions"
    """An output's sessions that live."""
    SIDE = "side"
    """Rows of one side of a join that may still find a match."""
    CLOCK = "clock"
    """A lane's clock."""
    STANDING = "standing"
    """Results that stand below a stage, and what became of them."""


@dataclass(frozen=True)
class Part:
    """One row group of one file: the rows of one bucket, and the range of what it is about."""

    path: str
    group: int
    kind: PartKind
    bucket: int
    rows: int
    low: int
    high: int
    batch: int
    output: str = ""
    """Whose it is, by name: an output's, or a lane's if it is a clock; empty where all outputs share it."""
    aggregation: str = ""
    """Which of several aggregations it is a part of, or which side of a join; empty where there is one, or where all of them share it."""

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> Part:
        """The part back from plain values.

        >>> Part.from_json(dict(path="a", group=0, kind="book", bucket=0, rows=1, low=0, high=9, batch=3)).kind
        <PartKind.SAID: 'book'>
        """
        return cls(**{**raw, "kind": PartKind(raw["kind"])})


class Store:
    """A state directory: on a disk, in an object store, or on HDFS.

    `attempt` names the run that writes: a task of a dead run that lingers on somewhere cannot touch the files of the run after it.
    """

    def __init__(self, root: str, attempt: str = "") -> None:
        self.root = from_here(root)
        self.attempt = attempt
        self._files = data_files(self.root)

    def __reduce__(self) -> tuple[type[Store], tuple[str, str]]:
        return (Store, (self.root, self.attempt))

    def write(
        self,
        kind: PartKind,
        batch: int,
        frames: Iterable[tuple[int, pl.DataFrame]],
        *,
        about: str | None = None,
        output: str = "",
        aggregation: str = "",
        ascending: bool = False,
    ) -> list[Part]:
        """Write frames, one row group for each bucket, into a new file; `about` is the column whose range is noted.

        Where all columns are whole numbers that ascend, only their differences are written: a fifth of the time, a hundredth of the bytes.
        """
        tables = [(bucket, frame) for bucket, frame in frames if len(frame)]
        if not tables:
            return []
        path = f"data/{batch:012d}/{kind}-{uuid.uuid4().hex}.parquet"
        parts, schema, sink = [], tables[0][1].to_arrow().schema, io.BytesIO()
        with pq.ParquetWriter(sink, schema, **(_differences(schema) if ascending else {"compression": "lz4"})) as writer:
            for group, (bucket, frame) in enumerate(tables):
                writer.write_table(frame.to_arrow().cast(schema), row_group_size=max(1, len(frame)))
                low, high = _range(frame[about]) if about else (0, 0)
                parts.append(Part(path, group, kind, bucket, len(frame), low, high, batch, output, aggregation))
        self._files.put(path, sink.getbuffer())
        return parts

    def write_table(self, directory: str, batch: int, name: str, frame: pl.DataFrame) -> str:
        """Write rows for users to read: a file below a directory, under the batch that made it.

        The name says which part of the batch it is, and whose: a task that Spark runs again writes its file again, and no second one.
        """
        path = f"{directory}/batch={batch}/{attempted(name, self.attempt)}.parquet"
        sink = io.BytesIO()
        pq.write_table(frame.to_arrow(), sink, compression="lz4")
        self._files.put(path, sink.getbuffer())
        return path

    def read(self, parts: Iterable[Part], columns: list[str] | None = None) -> list[pl.DataFrame]:
        """The frames of parts, in their order."""
        opened: dict[str, pq.ParquetFile] = {}
        frames = []
        for part in parts:
            if part.path not in opened:
                opened[part.path] = self._open(part.path)
            table = opened[part.path].read_row_group(part.group, columns=columns, use_threads=False)
            frames.append(_frame(table))
        return frames

    def _open(self, path: str) -> pq.ParquetFile:
        try:
            return pq.ParquetFile(self._files.open(path), pre_buffer=True)
        except (FileNotFoundError, pa.ArrowInvalid, OSError) as error:
            raise StoreError(
                f"the state directory {self.root} lists {path}, which cannot be read ({error}). Nothing was overwritten. "
                "Restore the file, or start over with a new generation: eventide run FILE --start-over."
            ) from error

    def batches(self, paths: Iterable[str], schema: pa.Schema | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of user-facing files as Arrow batches, one file after the other; with a schema, its columns and types."""
        for path in paths:
            for batch in self._open(path).iter_batches(batch_size=65_536):
                table = pa.Table.from_batches([batch])
                yield from (table if schema is None else narrowed(table.select(schema.names), schema)).to_batches()

    def count(self, path: str) -> int:
        """How many rows a file holds, by its own footer."""
        return int(self._open(path).metadata.num_rows)

    def schema(self, path: str) -> pa.Schema:
        """The columns of a file, by its own footer."""
        return self._open(path).schema_arrow

    def columns(self, path: str, names: Iterable[str]) -> pl.DataFrame:
        """Some columns of a whole file, those that it has."""
        file = self._open(path)
        return _frame(file.read(columns=[name for name in names if name in file.schema_arrow.names], use_threads=False))

    def delete(self, paths: Iterable[str]) -> None:
        """Remove files; one that is gone already is no fault."""
        self._files.delete(*paths)

    def evict(self, paths: list[str], empty: Iterable[str], between: Callable[[], None]) -> None:
        """Remove files that nothing refers to any more, and the directories that they leave empty."""
        for first in range(0, len(paths), self._files.at_once):
            self._files.delete(*paths[first : first + self._files.at_once])
            between()
        for directory in empty:
            self._files.prune(directory)

    def delete_directory(self, path: str) -> None:
        """Remove a directory and all below it; one that is gone already is no fault."""
        self._files.delete_directory(path)

    def directories(self, path: str) -> list[str]:
        """The names of the directories directly below a path."""
        return self._files.directories(path)

    def files(self, path: str) -> list[str]:
        """The files below a path, at any depth, relative to the root."""
        return sorted(self._files.sizes(path))

    def sizes(self, path: str) -> dict[str, int]:
        """The same with their sizes in bytes."""
        return self._files.sizes(path)

    def url(self, path: str) -> str:
        """A path as Spark reads it."""
        return f"{self.root.rstrip('/')}/{path}"


def _differences(schema: pa.Schema) -> dict[str, Any]:
    encoding = dict.fromkeys(schema.names, "DELTA_BINARY_PACKED")
    return {"compression": "none", "use_dictionary": False, "write_statistics": False, "column_encoding": encoding}


def attempted(name: str, attempt: str) -> str:
    """A file's name with the attempt that wrote it; the sign between them is quoted where it stands in a lane's name.

    >>> attempted("bucket-00001", "6a1f03bb")
    'bucket-00001@6a1f03bb'
    """
    return f"{name}@{attempt}" if attempt else name


def attempt_in(path: str) -> str:
    """The attempt that wrote a file, by its name."""
    return path.rpartition("/")[2].removesuffix(".parquet").partition("@")[2]


def lane_name(lane: LaneId) -> str:
    """A lane as part of a file's name.

    >>> lane_name((0, "north/1"))
    '0-north%2F1'
    """
    quoted = quote(lane[1], safe="")
    if len(quoted) > LONGEST:
        quoted = f"{quoted[:LONGEST]}-{hashlib.sha256(lane[1].encode()).hexdigest()[:16]}"
    return f"{lane[0]}-{quoted}"


def _range(column: pl.Series) -> tuple[int, int]:
    low, high = column.min(), column.max()
    assert isinstance(low, int) and isinstance(high, int)
    return low, high


def _frame(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame
