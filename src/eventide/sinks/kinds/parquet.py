"""Parquet: an append log of panes, one file per micro-batch, and beside it a compacted file of what stands."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import re
import time
import uuid
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.fs as fs
import pyarrow.parquet as pq

from eventide.errors import SinkError
from eventide.model.time import Duration
from eventide.redaction import without_secrets
from eventide.sinks.base import Capabilities, Delivery, Held, Span
from eventide.sinks.chunks import narrowed
from eventide.sinks.lake import file_error, fitted, same_kind
from eventide.sinks.ranked import emitted, first_of_each, highest, outdated, retracts, shown
from eventide.sinks.retry import Retry
from eventide.sinks.shape import PaneShape
from eventide.sinks.target import TableWriter, Target, additions, refuse_other_shape
from eventide.sinks.upkeep import Upkeep
from eventide.storage.address import from_here

COVERS = b"eventide.covers"
RECORD = "generations.json"
OBJECT_STORES = ("s3", "gcs", "abfs")
"""Arrow's names of file systems in which a file is there when it is whole."""
LONGEST_WAIT = 60.0
"""Seconds after which readers see what has come, however little it is."""


class Folder:
    """A folder on any file system that Arrow can reach; files appear whole or not at all."""

    def __init__(self, path: str) -> None:
        self.path = from_here(path)

    def below(self, name: str) -> Folder:
        """A folder inside this one; what an address says after its path stays behind it.

        >>> Folder("s3://lake/out?region=eu-west-1").below("totals").path
        's3://lake/out/totals?region=eu-west-1'
        """
        place, mark, options = self.path.partition("?") if "://" in self.path else (self.path, "", "")
        return Folder(f"{place.rstrip('/')}/{name}{mark}{options}")

    @functools.cached_property
    def _opened(self) -> tuple[fs.FileSystem, str]:
        return fs.FileSystem.from_uri(self.path) if "://" in self.path else (fs.LocalFileSystem(), self.path)

    @property
    def files(self) -> fs.FileSystem:
        """The file system, asked for when it is first needed: one far away may not answer."""
        return self._opened[0]

    @property
    def root(self) -> str:
        """The folder's path in it."""
        return self._opened[1].rstrip("/")

    def write(self, name: str, table: pa.Table) -> None:
        """Write one file; an earlier one of that name is replaced in one step."""
        self.put(name, encoded(table))

    def put(self, name: str, body: pa.Buffer) -> None:
        """Object stores show a file when it is whole; elsewhere it gets its name at the end, from one that only this writer has."""
        target = f"{self.root}/{name}"
        folder, _, base = target.rpartition("/")
        self.files.create_dir(folder, recursive=True)
        if self.files.type_name in OBJECT_STORES:
            self._fill(target, body)
            return
        trial = f"{folder}/.{base}.{uuid.uuid4().hex}.tmp"
        try:
            self._fill(trial, body)
            self._name(trial, target)
        except Exception:
            with contextlib.suppress(Exception):
                self.files.delete_file(trial)
            raise

    def _fill(self, path: str, body: pa.Buffer) -> None:
        with self.files.open_output_stream(path) as stream:
            stream.write(body)

    def _name(self, trial: str, target: str) -> None:
        """A disk replaces a file in one step. HDFS gives a name once: there the older file steps aside first (see `exists`)."""
        try:
            self.files.move(trial, target)
        except OSError:
            if isinstance(self.files, fs.LocalFileSystem) or not self._is_file(target):
                raise
            older = _aside(target)
            with contextlib.suppress(FileNotFoundError):
                self.files.delete_file(older)
            self.files.move(target, older)
            self.files.move(trial, target)
            self.files.delete_file(older)

    def remove(self, name: str) -> None:
        """Remove a file; one that is gone already is no fault."""
        with contextlib.suppress(FileNotFoundError):
            self.files.delete_file(f"{self.root}/{name}")

    def written_before(self, folder: str, names: Iterable[str], instant: float) -> list[str]:
        """Those of some files of a folder that were written before an instant."""
        infos = self.files.get_file_info([f"{self.root}/{folder}/{name}" for name in names])
        return [info.base_name for info in infos if info.mtime is not None and info.mtime.timestamp() < instant]

    def covered(self, name: str) -> set[str]:
        """The log files that a compacted file holds the rows of."""
        if not self.exists(name):
            return set()
        said = pq.read_metadata(f"{self.root}/{name}", filesystem=self.files).metadata or {}
        return set(json.loads(said.get(COVERS, b"[]")))

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
        self.put(RECORD, pa.py_buffer(json.dumps(record).encode()))

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
        """Whether a file is there. One that stepped aside for a file that never took its place, because its writer died, comes back."""
        path = f"{self.root}/{name}"
        if self._is_file(path):
            return True
        if self.files.type_name in (*OBJECT_STORES, "local") or not self._is_file(_aside(path)):
            return False
        self.files.move(_aside(path), path)
        return True

    def _is_file(self, path: str) -> bool:
        return bool(self.files.get_file_info(path).type == fs.FileType.File)


def _aside(path: str) -> str:
    """Where a file stands while another takes its name."""
    folder, _, base = path.rpartition("/")
    return f"{folder}/.{base}.older"


def encoded(table: pa.Table) -> pa.Buffer:
    """A table as the bytes of a Parquet file; the same table gives the same bytes."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return sink.getvalue()


class ParquetWriter(TableWriter):
    """One file per delivery, named by its batch, its clock and its content: run again, it replaces itself."""

    def __init__(self, folder: Folder, target: Target, sink: ParquetSink, shape: PaneShape | None) -> None:
        super().__init__(target, sink.retry, shape)
        self.folder = folder
        self.upkeep = sink.upkeep
        self.deliveries = self.rows = 0
        """What came since `current.parquet` was written."""
        self.standing = 0
        self.shown_at = time.monotonic()
        self.log = "panes" if shape else ""

    def prepare(self) -> None:
        """Check the newest file of the log, if there is one."""
        if self.shape is not None:
            refuse_other_shape(self.folder.path, self.held(), self.shape)
            self.log = self.folder.log()
        written = self.folder.names(self.log)
        newest = f"{self.log}/{written[-1]}".lstrip("/") if written else _compacted(self.log)
        if written or self.folder.exists(newest):
            have = pq.read_schema(f"{self.folder.root}/{newest}", filesystem=self.folder.files)
            wanted = dict(zip(self.target.columns.names, self.target.columns.types, strict=True))
            additions(self.target, dict(zip(have.names, have.types, strict=True)), wanted, same_kind)

    def resume(self) -> None:
        """Bring `current.parquet` up to what a run that was killed had put into the log."""
        if self.shape is None:
            return
        log = self.folder.names(self.log)
        if set(log) - self.folder.covered(_compacted(self.log)) or (log and not self.folder.exists("current.parquet")):
            self.compact()

    def held(self) -> Held | None:
        """By the record beside the files; where there is none, by the files."""
        noted, shape = self.folder.noted(), self.shape
        if shape is None:
            return None
        if noted:
            return Held(noted["generation"], noted["signature"])
        ages = []
        compacted = [_compacted("panes")] if self.folder.exists(_compacted("panes")) else []
        for name in [*compacted, *(f"panes/{name}" for name in self.folder.names("panes"))]:
            table = self.folder.read(name)
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
            self.folder.remove(f"{self.log}/{name}")
        for number, batch in enumerate(panes):
            rows = narrowed(pa.Table.from_batches([batch]).select(shape.schema.names), shape.schema)
            self.folder.write(f"{self.log}/{number:06d}-{_name(delivery)}.parquet", rows)
        self._show(_standing(self.folder, shape, self.log))
        self.folder.note({"generation": generation, "signature": shape.signature, "log": self.log})

    def withdraw(self, generation: int, span: Span) -> bool:
        """Put the withdrawals into the log; says whether there is more to withdraw after the span."""
        shape = self.shape
        assert shape is not None
        standing = _standing(self.folder, shape, self.log)
        gone = outdated(standing, shape, generation, span)
        if gone.num_rows:
            name = f"{self.log}/withdrawn-by-{generation}-{span.low}-{span.high}-{uuid.uuid4().hex[:16]}.parquet"
            self.folder.write(name, retracts(gone, shape).replace_schema_metadata(None))
        return outdated(standing, shape, generation, Span(span.low)).num_rows > gone.num_rows

    def error(self, cause: Exception) -> SinkError:
        """As the file system sees it."""
        return file_error(f"Parquet at {self.folder.path!r}", cause)

    def deliver(self, panes: Iterable[pa.RecordBatch], delivery: Delivery) -> None:
        """The panes into the log; `current.parquet` when it is due, which a delivery without panes may find it to be."""
        super().deliver(panes, delivery)
        if self.due():
            self.attempt(self.compact)

    def gathered(self, batches: Any) -> pa.Table:
        """The log keeps every pane, outranked ones too, in the order of emission; only repeats within a delivery go."""
        if self.shape:
            return emitted(self.fitting(batches), self.shape)
        return first_of_each(super().gathered(batches), self.target.identity)

    def store(self, rows: pa.Table, delivery: Delivery) -> None:
        """A file of its own; of a batch that comes again with other content both are kept, and what is shown follows from both."""
        if self.shape:
            body = encoded(rows)
            name = f"{self.log}/{_name(delivery)}-{hashlib.sha256(body).hexdigest()[:16]}.parquet"
            self.attempt(lambda: self.folder.put(name, body))
            self.deliveries, self.rows = self.deliveries + 1, self.rows + rows.num_rows
        else:
            self.attempt(lambda: self._fold(f"{_name(delivery)}.parquet", rows))

    def _fold(self, name: str, rows: pa.Table) -> None:
        """Late rows and dead letters are read as they lie: one file for each batch, with each row once."""
        if self.folder.exists(name):
            known = fitted(self.folder.read(name), self.target.columns)
            rows = first_of_each(pa.concat_tables([known, rows]), self.target.identity)
        self.folder.write(name, rows)

    def due(self) -> bool:
        """Whether enough has come, or enough time passed, that what stands is written again as a whole.

        Written after each delivery, it would cost more the more windows there are. When a sixteenth of it is new, the cost of
        a delivery stays the same; and a minute is as long as readers wait.
        """
        waited = self.deliveries > 0 and time.monotonic() - self.shown_at > LONGEST_WAIT
        return waited or (self.deliveries >= self.upkeep.compact_every and self.rows * 16 >= self.standing)

    def compact(self) -> None:
        """Bring `compacted.parquet` (with tombstones) and `current.parquet` (for readers) up to the log."""
        assert self.shape is not None
        self._show(_standing(self.folder, self.shape, self.log))
        if self.upkeep.keep_for is not None:
            covered = self.folder.covered(_compacted(self.log)) & set(self.folder.names(self.log))
            for name in self.folder.written_before(self.log, covered, time.time() - self.upkeep.keep_for / 1e6):
                self.folder.remove(f"{self.log}/{name}")

    def _show(self, standing: pa.Table) -> None:
        assert self.shape is not None
        # What readers see first: killed in between, the next run finds panes that the other file does not cover, and shows them again.
        self.folder.write("current.parquet", shown(standing, self.shape).replace_schema_metadata(None))
        self.folder.write(_compacted(self.log), standing)
        self.deliveries = self.rows = 0
        self.standing, self.shown_at = standing.num_rows, time.monotonic()

    def close(self) -> None:
        """Leave the current view up to date."""
        if self.shape and self.deliveries:
            self.attempt(self.compact)


def _name(delivery: Delivery) -> str:
    pipeline = re.sub(r"[^\w.-]", "_", delivery.pipeline)
    return f"{delivery.batch:012d}-{delivery.clock}-{pipeline}"


def _compacted(log: str) -> str:
    return f"compacted{log.removeprefix('panes')}.parquet"


def _standing(folder: Folder, shape: PaneShape, log: str) -> pa.Table:
    """The highest rank per identity: what was compacted, and the log files that it does not cover yet."""
    tables, covered = [], set()
    if folder.exists(_compacted(log)):
        compacted = folder.read(_compacted(log))
        covered = set(json.loads((compacted.schema.metadata or {}).get(COVERS, b"[]")))
        tables.append(fitted(compacted, shape.schema))
    written = folder.names(log)
    tables += [fitted(folder.read(f"{log}/{name}"), shape.schema) for name in written if name not in covered]
    rows = pa.concat_tables(tables) if tables else shape.schema.empty_table()
    return highest(rows, shape).replace_schema_metadata({COVERS: json.dumps(written)})


@without_secrets
@dataclass(frozen=True)
class ParquetSink:
    """Panes into Parquet files below one folder for each output."""

    path: str
    table: str | None = None
    upkeep: Upkeep = field(default=Upkeep.of(1, None), repr=False)
    retry: Retry = field(default=Retry(), repr=False)

    @property
    def capabilities(self) -> Capabilities:
        """Readers of `current.parquet` see a whole delivery or none of it."""
        return Capabilities(upsert=True, retract=True, transactional=True, append=True, generations=True)

    def folder(self, output: str) -> Folder:
        """Where an output's files are."""
        return Folder(self.path).below(self.table or output)

    def place(self, name: str) -> Hashable:
        """The folder."""
        return type(self).__name__, self.folder(name).path

    def open(self, output: str, shape: PaneShape) -> ParquetWriter:
        """Check the newest file of the log, if there is one, and show what it holds."""
        writer = _prepared(self._writer(output, shape))
        writer.attempt(writer.resume)
        return writer

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
        more = writer.attempt(lambda: writer.withdraw(generation, span))
        writer.attempt(writer.compact)
        return more

    def replace(
        self, output: str, shape: PaneShape, generation: int, panes: Iterable[pa.RecordBatch], delivery: Delivery
    ) -> None:
        """A log of its own, then `current.parquet` in one step; the older log stays beside it."""
        writer = self._writer(output, shape)
        writer.attempt(lambda: writer.replace(generation, panes, delivery))

    def read(self, output: str, shape: PaneShape) -> pa.Table:
        """What stands now, the not yet compacted part of the log included."""
        folder = self.folder(output)
        return shown(_standing(folder, shape, folder.log()), shape).replace_schema_metadata(None)


def _prepared(writer: ParquetWriter) -> ParquetWriter:
    writer.attempt(writer.prepare)
    return writer


def parquet(
    path: str,
    table: str | None = None,
    *,
    compact_every: int = 1,
    keep_for: Duration | None = None,
    retry: Retry | None = None,
) -> ParquetSink:
    """Results as Parquet: `<path>/<output>/panes/` is the log, `<path>/<output>/current.parquet` is what stands.

    `compact_every=20` writes the current file after 20 deliveries at the earliest. The log is kept, or with `keep_for="7 days"`
    that long after its panes have gone into what stands.

    >>> parquet("out/")
    ParquetSink(path='out/', table=None)
    """
    return ParquetSink(str(path), table, Upkeep.of(compact_every, keep_for), retry or Retry())
