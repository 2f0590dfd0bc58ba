"""Delta Lake: the stored ranks are compared on the driver, and what outranks them goes in as one commit; without the JVM."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from eventide.errors import DefinitionError, SinkError, SinkRefused, SinkUnavailable
from eventide.model.time import Duration
from eventide.redaction import without_secrets
from eventide.sinks.base import Capabilities, Delivery, Held, Span
from eventide.sinks.chunks import narrowed
from eventide.sinks.kinds.delta_files import DeltaFiles
from eventide.sinks.lake import SIGNATURE, claim_by, file_error, held_by, labelled, same_kind
from eventide.sinks.libraries import need
from eventide.sinks.ranked import current, outdated
from eventide.sinks.retry import Retry
from eventide.sinks.shape import PaneShape
from eventide.sinks.target import Target, additions, refuse_other_shape
from eventide.sinks.upkeep import LakeWriter, Upkeep
from eventide.storage.address import from_here


def quote(name: str) -> str:
    """An identifier as DataFusion takes it; its parser has no escape for a backtick."""
    if "`" in name:
        raise SinkRefused(f"a Delta table cannot be merged on a column called {name!r}: leave out the backtick")
    return f"`{name}`"


class DeltaWriter(LakeWriter):
    """Replaces outranked rows in one commit of the table's log; a lost race for it reads the ranks again."""

    def __init__(self, sink: DeltaSink, target: Target, shape: PaneShape | None) -> None:
        super().__init__(target, sink.retry, shape, sink.upkeep)
        self.path = from_here(sink.path)
        # The library's own patience with a store (three minutes for each request) would be added to ours.
        self.options = {"max_retries": "2", "retry_timeout": "10s", **dict(sink.storage_options)} if "://" in self.path else {}

    def error(self, cause: Exception) -> SinkError:
        """A lost race for the commit may be won the next time."""
        if self.lost_race(cause):
            return SinkUnavailable(f"Delta at {self.path!r}: another writer was first: {cause}")
        return file_error(f"Delta at {self.path!r}", cause)

    def lost_race(self, cause: Exception) -> bool:
        """By the type; whoever comes second to make a table finds that it is there."""
        return type(cause).__name__ == "CommitFailedError" or "table already exists" in str(cause)

    def table(self) -> Any:
        """The table as it is now; None if there is none."""
        kind = need("deltalake", "delta").DeltaTable
        there = kind.is_deltatable(self.path, self.options or None)
        return kind(self.path, storage_options=self.options or None) if there else None

    def held(self) -> Held | None:
        """By the table's properties."""
        table = self.table()
        if table is None or self.shape is None:
            return None
        names = pa.schema(table.schema().to_arrow()).names
        return held_by(
            table.metadata().configuration, names, self.shape, lambda column: table.to_pyarrow_table(columns=[column])[column]
        )

    def label(self, properties: dict[str, str]) -> None:
        """Set properties of the table, in a commit of their own."""
        self.table().alter.set_table_properties(properties, raise_if_not_exists=False)

    def prepare(self) -> None:
        """Check or create the table."""
        deltalake = need("deltalake", "delta")
        columns = self.target.columns
        for column in columns:
            if pa.types.is_time(column.type) or pa.types.is_duration(column.type):
                raise DefinitionError(
                    f"column {column.name!r} is {column.type}, and Delta has neither times of day nor spans of time. Make it a text, or whole "
                    "microseconds, in a .map(…)."
                )
        table = self.table()
        if table is None:
            deltalake.DeltaTable.create(self.path, columns, storage_options=self.options or None)
            return
        if self.shape is not None:
            refuse_other_shape(self.path, self.held(), self.shape)
        found = pa.schema(table.schema().to_arrow())
        wanted = dict(zip(columns.names, columns.types, strict=True))
        added = additions(self.target, dict(zip(found.names, found.types, strict=True)), wanted, same_kind)
        if added:
            fields = deltalake.Schema.from_arrow(pa.schema([columns.field(name) for name in added])).fields
            table.alter.add_columns(fields)

    def look_after(self) -> None:
        """Few files, a checkpoint of the log, and nothing that was replaced longer ago than it is kept."""
        self.files().compact()
        table = self.table()
        if self.upkeep.keep_for is not None:
            self._keep(table, f"interval {max(1, self.upkeep.keep_for // 1_000_000)} seconds")
        table.create_checkpoint()
        if self.upkeep.keep_for is not None:
            table.vacuum(dry_run=False, enforce_retention_duration=False)
            table.cleanup_metadata()

    def _keep(self, table: Any, span: str) -> None:
        """Every engine that looks after a Delta table goes by these properties."""
        wanted = {"delta.deletedFileRetentionDuration": span, "delta.logRetentionDuration": span}
        have = table.metadata().configuration
        if any(have.get(name) != value for name, value in wanted.items()):
            table.alter.set_table_properties(wanted)

    def withdraw(self, generation: int, span: Span) -> bool:
        """One commit."""
        table, shape = self.table(), self.shape
        assert shape is not None
        rows = pa.table(table.to_pyarrow_table(filters=[(shape.meta("generation"), "<", generation)]))
        rows = narrowed(rows.select(shape.schema.names), shape.schema)
        gone = outdated(rows, shape, generation, span)
        if gone.num_rows:
            same = " and ".join(f"t.{quote(name)} = s.{quote(name)}" for name in shape.identity)
            still = f"t.{quote(shape.meta('generation'))} < {int(generation)}"
            merging = table.merge(gone, same, source_alias="s", target_alias="t")
            merging.when_matched_update({quote(shape.meta("op")): "'retract'"}, predicate=still).execute()
        return outdated(rows, shape, generation, Span(span.low)).num_rows > gone.num_rows

    def replace(self, generation: int, panes: Iterable[pa.RecordBatch]) -> None:
        """All rows in one commit; until the properties say so too, nobody takes the table for one or the other shape."""
        shape, schema = self.shape, self.target.columns
        assert shape is not None
        if self.held() == Held(generation, shape.signature):
            return
        self.label({SIGNATURE: ""})
        reader = pa.RecordBatchReader.from_batches(schema, iter(panes))
        write = need("deltalake", "delta").write_deltalake
        write(self.path, reader, mode="overwrite", schema_mode="overwrite", storage_options=self.options or None)
        self.label(labelled(shape, generation))

    def files(self) -> DeltaFiles:
        return DeltaFiles(self.table())


@without_secrets
@dataclass(frozen=True)
class DeltaSink:
    """Panes into a Delta table."""

    path: str
    storage_options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    upkeep: Upkeep = field(default=Upkeep.of(20, "1 hour"), repr=False)
    retry: Retry = field(default=Retry(), repr=False)

    @property
    def capabilities(self) -> Capabilities:
        """Readers filter `op = 'insert'`, as Delta has no views; `read` does it for them."""
        return Capabilities(upsert=True, retract=True, transactional=True, append=True, generations=True)

    def place(self, name: str) -> Hashable:
        """The path, whatever the output is called."""
        return type(self).__name__, from_here(self.path).rstrip("/")

    def open(self, output: str, shape: PaneShape) -> DeltaWriter:
        """Check or create the table."""
        return _prepared(DeltaWriter(self, Target.of_panes(output, shape), shape))

    def open_log(self, name: str, schema: pa.Schema, identity: tuple[str, ...]) -> DeltaWriter:
        """A table of late rows or dead letters."""
        return _prepared(DeltaWriter(self, Target.of_log(name, schema, identity), None))

    def held(self, output: str, shape: PaneShape) -> Held | None:
        """By the table's properties."""
        writer = DeltaWriter(self, Target.of_panes(output, shape), shape)
        return writer.attempt(writer.held)

    def claim(self, output: str, shape: PaneShape, generation: int) -> None:
        """As properties of the table."""
        writer = DeltaWriter(self, Target.of_panes(output, shape), shape)
        claim_by(
            writer.attempt(writer.held), shape, generation, lambda properties: writer.attempt(lambda: writer.label(properties))
        )

    def withdraw(self, output: str, shape: PaneShape, generation: int, span: Span) -> bool:
        """Older results inside the span become tombstones, in one commit."""
        writer = DeltaWriter(self, Target.of_panes(output, shape), shape)
        return writer.attempt(lambda: writer.withdraw(generation, span))

    def replace(
        self, output: str, shape: PaneShape, generation: int, panes: Iterable[pa.RecordBatch], delivery: Delivery
    ) -> None:
        """Overwrite the table and its columns in one commit; the older rows stay in the table's history."""
        writer = DeltaWriter(self, Target.of_panes(output, shape), shape)
        writer.attempt(lambda: writer.replace(generation, panes))

    def read(self, shape: PaneShape) -> pa.Table:
        """What stands now."""
        table = need("deltalake", "delta").DeltaTable(self.path, storage_options=dict(self.storage_options) or None)
        stored = pa.table(table.to_pyarrow_table()).select(shape.schema.names)
        return current(narrowed(stored, shape.schema), shape)


def _prepared(writer: DeltaWriter) -> DeltaWriter:
    writer.attempt(writer.prepare)
    return writer


def delta(
    path: str,
    *,
    storage_options: dict[str, str] | None = None,
    compact_every: int = 20,
    keep_for: Duration | None = "1 hour",
    retry: Retry | None = None,
) -> DeltaSink:
    """Results into the Delta table at `path`; readers filter `op = 'insert'`.

    Its small files are put together after `compact_every` deliveries; what was replaced stays for `keep_for` (None: for ever).

    >>> delta("lake/totals", storage_options={"AWS_SECRET_ACCESS_KEY": "secret"})
    DeltaSink(path='lake/totals')
    """
    options = tuple(sorted((storage_options or {}).items()))
    return DeltaSink(str(path), options, Upkeep.of(compact_every, keep_for), retry or Retry())
