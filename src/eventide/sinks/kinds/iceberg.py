"""Iceberg: the stored ranks are compared on the driver, and what outranks them goes in as one snapshot."""

from __future__ import annotations

import traceback
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from eventide.errors import SinkError, SinkRefused, SinkUnavailable
from eventide.model.time import Duration
from eventide.redaction import without_secrets
from eventide.sinks.base import Capabilities, Delivery, Held, Span
from eventide.sinks.chunks import narrowed
from eventide.sinks.kinds.iceberg_files import IcebergFiles, Snapshots, expire
from eventide.sinks.lake import claim_by, file_error, held_by, labelled, same_kind
from eventide.sinks.libraries import need
from eventide.sinks.ranked import current, highest, outdated, retracts
from eventide.sinks.retry import Retry
from eventide.sinks.shape import PaneShape
from eventide.sinks.target import Target, additions, refuse_other_shape
from eventide.sinks.upkeep import LakeWriter, Upkeep

RACES = {
    "CommitFailedException",
    "ValidationException",
    "TableAlreadyExistsError",
    "NamespaceAlreadyExistsError",
    "IntegrityError",
}
"""What the library raises, or a catalog in SQL, when another writer was first."""
PASSING = {
    "CommitStateUnknownException",
    "ServiceUnavailableError",
    "ServerError",
    "TooManyRequestsError",
    "AuthorizationExpiredError",
    "WaitingForLockException",
}


ATTEMPT = {"commit.retry.num-retries": "0", "commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "8"}
"""How one attempt of ours commits."""


class IcebergWriter(LakeWriter):
    """Replaces outranked rows in one transaction; a lost race for the commit reads the ranks again."""

    def __init__(self, sink: IcebergSink, target: Target, shape: PaneShape | None) -> None:
        super().__init__(target, sink.retry, shape, sink.upkeep)
        self.sink = sink
        self.known = Snapshots()
        self._catalog: Any = None

    def catalog(self) -> Any:
        """The catalog, made once and again after an error."""
        self._catalog = self._catalog or self.sink.catalog()
        return self._catalog

    def table(self) -> Any:
        """The table as it is now, for one attempt, as far as a writer needs it.

        The library would repeat a lost commit by itself, upon rows that it has not seen: two writers of one window would both
        append it. So it may not, whatever the table says; we read the ranks again. It also copies what it knows of a table with
        every step, so it knows only the snapshot that we build upon. None of this is stored.
        """
        table = self.catalog().load_table(self.sink.table)
        said, current = table.metadata, table.metadata.current_snapshot()
        snapshots = [current] if current else []
        slim = {"properties": {**said.properties, **ATTEMPT}, "snapshots": snapshots, "snapshot_log": [], "metadata_log": []}
        table.metadata = said.model_copy(update=slim)
        return table

    def error(self, cause: Exception) -> SinkError:
        """A lost race for the commit may be won the next time."""
        where, kind = f"Iceberg table {self.sink.table!r}", type(cause).__name__
        self._catalog = None
        if kind in PASSING or self.lost_race(cause) or _over_records(cause):
            return SinkUnavailable(f"{where}: {kind}: {cause}")
        if kind in ("UnauthorizedError", "ForbiddenError"):
            return SinkRefused(f"{where}: the catalog does not accept these credentials")
        return file_error(where, cause)

    def lost_race(self, cause: Exception) -> bool:
        return type(cause).__name__ in RACES

    def held(self) -> Held | None:
        """By the table's properties."""
        catalog = self.catalog()
        if self.shape is None or not catalog.table_exists(self.sink.table):
            return None
        table = catalog.load_table(self.sink.table)
        names = table.schema().as_arrow().names
        return held_by(
            table.properties, names, self.shape, lambda column: table.scan(selected_fields=(column,)).to_arrow()[column]
        )

    def label(self, properties: dict[str, str]) -> None:
        """Set properties of the table."""
        with self.table().transaction() as changes:
            changes.set_properties(properties)

    def prepare(self) -> None:
        """Check or create the table."""
        if self.shape is not None:
            refuse_other_shape(self.sink.table, self.held(), self.shape)
        catalog, columns = self.catalog(), self.target.columns
        if not catalog.table_exists(self.sink.table):
            catalog.create_namespace_if_not_exists(self.sink.table.rpartition(".")[0])
            catalog.create_table(
                self.sink.table, schema=columns, properties={"write.metadata.delete-after-commit.enabled": "true"}
            )
            return
        table = catalog.load_table(self.sink.table)
        found = table.schema().as_arrow()
        wanted = dict(zip(columns.names, columns.types, strict=True))
        added = additions(self.target, dict(zip(found.names, found.types, strict=True)), wanted, same_kind)
        if added:
            with table.update_schema() as change:
                change.union_by_name(pa.schema([columns.field(name) for name in added]))

    def files(self) -> IcebergFiles:
        return IcebergFiles(self.table())

    def withdraw(self, generation: int, span: Span) -> bool:
        """One snapshot."""
        expressions, shape = need("pyiceberg.expressions", "iceberg"), self.shape
        assert shape is not None
        table, age = self.table(), shape.meta("generation")
        older = expressions.LessThan(age, generation)
        rows = narrowed(table.scan(row_filter=older).to_arrow().select(shape.schema.names), shape.schema)
        gone = outdated(rows, shape, generation, span)
        if gone.num_rows:
            windows = list(dict.fromkeys(gone[shape.meta("window_id")].to_pylist()))
            there = expressions.And(older, expressions.In(shape.meta("window_id"), windows))
            changed = highest(pa.concat_tables([rows, retracts(gone, shape)]), shape)
            kept = changed.filter(pa.compute.is_in(changed[shape.meta("window_id")], pa.array(windows, pa.string())))
            table.overwrite(kept, overwrite_filter=there)
        return outdated(rows, shape, generation, Span(span.low)).num_rows > gone.num_rows

    def replace(self, generation: int, panes: Iterable[pa.RecordBatch]) -> None:
        """Columns, rows and properties in one commit of the catalog."""
        shape, columns = self.shape, self.target.columns
        assert shape is not None
        if self.held() == Held(generation, shape.signature):
            return
        table = self.table()
        have = table.schema().as_arrow()
        with table.transaction() as changes:
            changes.delete(need("pyiceberg.expressions", "iceberg").AlwaysTrue())
            other = [f.name for f in have if f.name not in columns.names or not same_kind(f.type, columns.field(f.name).type)]
            if other:
                with changes.update_schema(allow_incompatible_changes=True) as change:
                    for name in other:
                        change.delete_column(name)
            with changes.update_schema(allow_incompatible_changes=True) as change:
                change.union_by_name(columns)
            for batch in panes:
                changes.append(narrowed(pa.Table.from_batches([batch]).select(columns.names), columns))
            changes.set_properties(labelled(shape, generation))

    def look_after(self) -> None:
        """Small files together, in one snapshot; then the old snapshots go, and the files that only they had."""
        self.files().compact()
        if self.upkeep.keep_for is not None:
            expire(self.catalog().load_table(self.sink.table), self.upkeep.keep_for, self.known)


@without_secrets
@dataclass(frozen=True)
class IcebergSink:
    """Panes into an Iceberg table."""

    properties: tuple[tuple[str, str], ...] = field(repr=False)
    table: str
    catalog_name: str = "default"
    upkeep: Upkeep = field(default=Upkeep.of(20, "1 hour"), repr=False)
    retry: Retry = field(default=Retry(), repr=False)

    @property
    def capabilities(self) -> Capabilities:
        """Readers filter `op = 'insert'`; `read` does it for them."""
        return Capabilities(upsert=True, retract=True, transactional=True, append=True, generations=True)

    def catalog(self) -> Any:
        """The catalog, by its properties or by its name in the user's own configuration."""
        return need("pyiceberg.catalog", "iceberg").load_catalog(self.catalog_name, **dict(self.properties))

    def place(self, name: str) -> Hashable:
        """The table of the catalog, whatever the output is called."""
        return type(self).__name__, self.catalog_name, self.properties, self.table

    def open(self, output: str, shape: PaneShape) -> IcebergWriter:
        """Check or create the table."""
        return _prepared(self._writer(output, shape))

    def open_log(self, name: str, schema: pa.Schema, identity: tuple[str, ...]) -> IcebergWriter:
        """A table of late rows or dead letters."""
        return _prepared(IcebergWriter(self, Target.of_log(name, schema, identity), None))

    def _writer(self, output: str, shape: PaneShape) -> IcebergWriter:
        return IcebergWriter(self, Target.of_panes(output, shape), shape)

    def held(self, output: str, shape: PaneShape) -> Held | None:
        """By the table's properties."""
        writer = self._writer(output, shape)
        return writer.attempt(writer.held)

    def claim(self, output: str, shape: PaneShape, generation: int) -> None:
        """As properties of the table."""
        writer = self._writer(output, shape)
        claim_by(
            writer.attempt(writer.held), shape, generation, lambda properties: writer.attempt(lambda: writer.label(properties))
        )

    def withdraw(self, output: str, shape: PaneShape, generation: int, span: Span) -> bool:
        """Older results inside the span become tombstones, in one snapshot."""
        writer = self._writer(output, shape)
        return writer.attempt(lambda: writer.withdraw(generation, span))

    def replace(
        self, output: str, shape: PaneShape, generation: int, panes: Iterable[pa.RecordBatch], delivery: Delivery
    ) -> None:
        """Other columns and rows in one commit; the older rows stay in the table's snapshots."""
        writer = self._writer(output, shape)
        writer.attempt(lambda: writer.replace(generation, panes))

    def read(self, shape: PaneShape) -> pa.Table:
        """What stands now."""
        stored = self.catalog().load_table(self.table).scan().to_arrow()
        return current(narrowed(stored.select(shape.schema.names), shape.schema), shape)


def _prepared(writer: IcebergWriter) -> IcebergWriter:
    writer.attempt(writer.prepare)
    return writer


def iceberg(
    catalog: str | Mapping[str, str],
    table: str,
    *,
    compact_every: int = 20,
    keep_for: Duration | None = "1 hour",
    retry: Retry | None = None,
) -> IcebergSink:
    """Results into an Iceberg table (`namespace.name`); readers filter `op = 'insert'`.

    The catalog is a name from the user's pyiceberg configuration, or its properties. Small files are put together after
    `compact_every` deliveries; snapshots stay for `keep_for` (None: for ever).

    >>> iceberg({"type": "sql", "uri": "sqlite:///cat.db", "warehouse": "file:///lake"}, "sales.totals")
    IcebergSink(table='sales.totals', catalog_name='default')
    """
    named = catalog if isinstance(catalog, str) else "default"
    properties = () if isinstance(catalog, str) else tuple(sorted(catalog.items()))
    return IcebergSink(properties, table, named, Upkeep.of(compact_every, keep_for), retry or Retry())


DECODERS = ("pyiceberg.avro", "pyiceberg.serializers")


def _over_records(cause: Exception) -> bool:
    """Whether an error was raised while the table's own records were decoded: its metadata, and its lists of files.

    They are written whole and never changed, so that it was the answer of the store that broke off; the decoders call that by any name.
    """
    raised_in = (frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(cause.__traceback__))
    return any(name.startswith(DECODERS) for name in raised_in)
