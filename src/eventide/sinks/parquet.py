"""Parquet: an append log of panes, one file per micro-batch, and beside it a compacted file of what stands."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.fs as fs
import pyarrow.parquet as pq

from eventide.errors import SinkError
from eventide.redaction import without_secrets
from eventide.sinks.base import Capabilities, Delivery, Held, Span
from eventide.sinks.lake import file_error, same_kind
from eventide.sinks.ranked import current, first_of_each, highest, outdated, retracts
from eventide.sinks.retry import Retry
from eventide.sinks.shape import PaneShape
from eventide.sinks.target import TableWriter, Target, additions, refuse_other_shape

COVERS = b"eventide.covers"
RECORD = "generations.json"


class Folder:
    """A folder on any file system that Arrow can reach; files appear whole or not at all."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.files, self.root = fs.FileSystem.from_uri(path) if "://" in path else (fs.LocalFileSystem(), path)
        self.root = self.root.rstrip("/")

    def write(self, name: str, table: pa.Table) -> None:
        """Write one file; an earlier one of that name is replaced in one step."""
        target = f"{self.root}/{name}"
        folder, _, base = target.rpartition("/")
        self.files.create_dir(folder, recursive=True)
        trial = f"{folder}/.{base}.tmp"
        try:
            pq.write_table(table, trial, filesystem=self.files, compression="zstd")
            self.files.move(trial, target)
        except Exception:
            with contextlib.suppress(Exception):
                self.files.delete_file(trial)
            raise

    def names(self, folder: str) -> list[str]:
        """The Parquet files of a folder below this one, in order."""
        selector = fs.FileSelector(f"{self.root}/{folder}".rstrip("/"), allow_not_found=True)
        found = [info.base_name for info in self.files.get_file_info(selector)]
        return sorted(name for name in found if name.endswith(".parquet") and not name.startswith("."))

    def read(self, name: str) -> pa.Table:
        """One file."""
        return pq.read_table(f"{self.root}/{name}", filesystem=self.files, partitioning=None)

    def note(self, record: dict[str, Any]) -> None:
        """Write the record that says whose results stand here, in one step."""
        self.files.create_dir(self.root, recursive=True)
        trial = f"{self.root}/.{RECORD}.tmp"
        with self.files.open_output_stream(trial) as stream:
            stream.write(json.dumps(record).encode())
        self.files.move(trial, f"{self.root}/{RECORD}")

    def noted(self) -> dict[str, Any]:
        """That record; empty if there is none."""
        if not self.exists(RECORD):
            return {}
        with self.files.open_input_stream(f"{self.root}/{RECORD}") as stream:
            found: dict[str, Any] = json.loads(stream.read())
        return found

    def log(self) -> str:
        """The folder of the panes that stand, one for each shape."""
        return str(self.noted().get("log", "panes"))

    def exists(self, name: str) -> bool:
        """Whether a file is there."""
        return bool(self.files.get_file_info(f"{self.root}/{name}").type == fs.FileType.File)


def _fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A file written before an aggregate was added, with nulls where it knows nothing."""
    columns = [
        table.column(f.name).cast(f.type) if f.name in table.column_names else pa.nulls(table.num_rows, f.type) for f in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


class ParquetWriter(TableWriter):
    """One file per delivery, named by its batch and clock: run again, it replaces itself."""

    def __init__(self, folder: Folder, target: Target, sink: ParquetSink, shape: PaneShape | None) -> None:
        super().__init__(target, sink.retry, shape)
        self.folder = folder
        self.compact_every = sink.compact_every
        self.uncompacted = 0
        self.log = "panes" if shape else ""

    def prepare(self) -> None:
        """Check the newest file of the log, if there is one."""
        if self.shape is not None:
            refuse_other_shape(self.folder.path, self.held(), self.shape)
            self.log = self.folder.log()
        written = self.folder.names(self.log)
        if written:
            have = pq.read_schema(f"{self.folder.root}/{self.log}/{written[-1]}", filesystem=self.folder.files)
            wanted = dict(zip(self.target.columns.names, self.target.columns.types, strict=True))
            additions(self.target, dict(zip(have.names, have.types, strict=True)), wanted, same_kind)

    def held(self) -> Held | None:
        """By the record beside the files; where there is none, by the files."""
        noted, shape = self.folder.noted(), self.shape
        if shape is None:
            return None
        if noted:
            return Held(noted["generation"], noted["signature"])
        ages = []
        for name in self.folder.names("panes"):
            table = self.folder.read(f"panes/{name}")
            column = next((c for c in (shape.meta("generation"), "generation", "_generation") if c in table.column_names), None)
            ages += [] if column is None or not table.num_rows else [pa.compute.max(table[column]).as_py()]
        return Held(max(ages), "") if ages else None

    def label(self, generation: int) -> None:
        """Write down whose results stand here."""
        assert self.shape is not None
        self.folder.note({"generation": generation, "signature": self.shape.signature, "log": self.folder.log()})

    def replace(self, generation: int, panes: Iterable[pa.RecordBatch], delivery: Delivery) -> None:
        """A log of its own, then the file that readers read, then the record by which writers find the log."""
        shape = self.shape
        assert shape is not None
        if self.held() == Held(generation, shape.signature):
            return
        self.log = f"panes_g{generation}"
        for name in self.folder.names(self.log):
            self.folder.files.delete_file(f"{self.folder.root}/{self.log}/{name}")
        for number, batch in enumerate(panes):
            rows = pa.Table.from_batches([batch]).select(shape.schema.names).cast(shape.schema)
            self.folder.write(f"{self.log}/{number:06d}-{self._name(delivery)}", rows)
        self._show(_standing(self.folder, shape, self.log))
        self.folder.note({"generation": generation, "signature": shape.signature, "log": self.log})

    def error(self, cause: Exception) -> SinkError:
        """As the file system sees it."""
        return file_error(f"Parquet at {self.folder.path!r}", cause)

    def gathered(self, batches: Any) -> pa.Table:
        """The log keeps every pane, outranked ones too; only repeats within a delivery go."""
        shape, self.shape = self.shape, None
        try:
            rows = super().gathered(batches)
        finally:
            self.shape = shape
        return rows if shape else first_of_each(rows, self.target.identity)

    def store(self, rows: pa.Table, delivery: Delivery) -> None:
        """The log first, then the compacted view of it."""
        self.attempt(lambda: self.folder.write(f"{self.log}/{self._name(delivery)}".lstrip("/"), rows))
        self.uncompacted += 1
        if self.shape and self.uncompacted >= self.compact_every:
            self.attempt(self.compact)

    def _name(self, delivery: Delivery) -> str:
        pipeline = re.sub(r"[^\w.-]", "_", delivery.pipeline)
        return f"{delivery.batch:012d}-{delivery.clock}-{pipeline}.parquet"

    def compact(self) -> None:
        """Bring `compacted.parquet` (with tombstones) and `current.parquet` (for readers) up to the log."""
        assert self.shape is not None
        self._show(_standing(self.folder, self.shape, self.log))

    def _show(self, standing: pa.Table) -> None:
        assert self.shape is not None
        self.folder.write(_compacted(self.log), standing)
        self.folder.write("current.parquet", current(standing, self.shape).replace_schema_metadata(None))
        self.uncompacted = 0

    def close(self) -> None:
        """Leave the current view up to date."""
        if self.shape and self.uncompacted:
            self.attempt(self.compact)


def _compacted(log: str) -> str:
    return f"compacted{log.removeprefix('panes')}.parquet"


def _standing(folder: Folder, shape: PaneShape, log: str) -> pa.Table:
    """The highest rank per identity: what was compacted, and the log files that it does not cover yet."""
    tables, covered = [], set()
    if folder.exists(_compacted(log)):
        compacted = folder.read(_compacted(log))
        covered = set(json.loads((compacted.schema.metadata or {}).get(COVERS, b"[]")))
        tables.append(_fitted(compacted, shape.schema))
    written = folder.names(log)
    tables += [_fitted(folder.read(f"{log}/{name}"), shape.schema) for name in written if name not in covered]
    rows = pa.concat_tables(tables) if tables else shape.schema.empty_table()
    return highest(rows, shape).replace_schema_metadata({COVERS: json.dumps(written)})


@without_secrets
@dataclass(frozen=True)
class ParquetSink:
    """Panes into Parquet files below one folder for each output."""

    path: str
    table: str | None = None
    compact_every: int = 1
    retry: Retry = field(default=Retry(), repr=False)

    @property
    def capabilities(self) -> Capabilities:
        """Readers of `current.parquet` see a whole delivery or none of it."""
        return Capabilities(upsert=True, retract=True, transactional=True, append=True, generations=True)

    def folder(self, output: str) -> Folder:
        """Where an output's files are."""
        return Folder(f"{self.path.rstrip('/')}/{self.table or output}")

    def open(self, output: str, shape: PaneShape) -> ParquetWriter:
        """Check the newest file of the log, if there is one."""
        return _prepared(self._writer(output, shape))

    def open_log(self, name: str, schema: pa.Schema, identity: tuple[str, ...]) -> ParquetWriter:
        """Late rows or dead letters: one file per micro-batch that had any."""
        return _prepared(ParquetWriter(self.folder(name), Target.of_log(name, schema, identity), self, None))

    def _writer(self, output: str, shape: PaneShape) -> ParquetWriter:
        return ParquetWriter(self.folder(output), Target.of_panes(self.table or output, shape), self, shape)

    def held(self, output: str, shape: PaneShape) -> Held | None:
        """By the record beside the files."""
        writer = self._writer(output, shape)
        return writer.attempt(writer.held)

    def claim(self, output: str, shape: PaneShape, generation: int) -> None:
        """In the record beside the files."""
        writer = self._writer(output, shape)
        held = writer.attempt(writer.held)
        if held is None or held.generation < generation or not held.signature:
            writer.attempt(lambda: writer.label(max(generation, held.generation if held else generation)))

    def withdraw(self, output: str, shape: PaneShape, generation: int, span: Span) -> bool:
        """The withdrawals go into the log, and `current.parquet` is brought up to it."""
        writer = self._writer(output, shape)
        writer.attempt(writer.prepare)
        standing = _standing(writer.folder, shape, writer.log)
        gone = outdated(standing, shape, generation, span)
        if gone.num_rows:
            name = f"{writer.log}/withdrawn-by-{generation}-{span.low}-{span.high}.parquet"
            writer.attempt(lambda: writer.folder.write(name, retracts(gone, shape).replace_schema_metadata(None)))
        writer.attempt(writer.compact)
        return outdated(standing, shape, generation, Span(span.low)).num_rows > gone.num_rows

    def replace(
        self, output: str, shape: PaneShape, generation: int, panes: Iterable[pa.RecordBatch], delivery: Delivery
    ) -> None:
        """A log of its own, then `current.parquet` in one step; the older log stays beside it."""
        writer = self._writer(output, shape)
        writer.attempt(lambda: writer.replace(generation, panes, delivery))

    def read(self, output: str, shape: PaneShape) -> pa.Table:
        """What stands now, the not yet compacted part of the log included."""
        folder = self.folder(output)
        return current(_standing(folder, shape, folder.log()), shape).replace_schema_metadata(None)


def _prepared(writer: ParquetWriter) -> ParquetWriter:
    writer.attempt(writer.prepare)
    return writer


def parquet(path: str, table: str | None = None, *, compact_every: int = 1, retry: Retry | None = None) -> ParquetSink:
    """Results as Parquet: `<path>/<output>/panes/` is the log, `<path>/<output>/current.parquet` is what stands.

    With many windows compact less often: `compact_every=20` rewrites the current file after 20 deliveries.

    >>> parquet("out/")
    ParquetSink(path='out/', table=None, compact_every=1)
    """
    return ParquetSink(str(path), table, compact_every, retry or Retry())
