"""Iceberg: the stored ranks are compared on the driver, and what outranks them goes in as one snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import pyarrow as pa

from eventide.errors import SinkError, SinkRefused, SinkUnavailable
from eventide.redaction import without_secrets
from eventide.sinks.base import Capabilities, Delivery, Held, Span
from eventide.sinks.lake import claim_by, file_error, held_by, labelled, same_kind
from eventide.sinks.libraries import need
from eventide.sinks.ranked import current, first_of_each, highest, outdated, retracts
from eventide.sinks.retry import Retry
from eventide.sinks.shape import PaneShape
from eventide.sinks.target import TableWriter, Target, additions, refuse_other_shape

PASSING = ("CommitFailedException", "CommitStateUnknownException", "ServiceUnavailableError", "ConnectionError")


class IcebergWriter(TableWriter):
    """Replaces outranked rows in one transaction; a lost race for the commit reads the ranks again."""

    def __init__(self, sink: IcebergSink, target: Target, shape: PaneShape | None) -> None:
        super().__init__(target, sink.retry, shape)
        self.sink = sink

    def error(self, cause: Exception) -> SinkError:
        """A lost race for the commit may be won the next time."""
        where, kind = f"Iceberg table {self.sink.table!r}", type(cause).__name__
        if kind in PASSING:
            return SinkUnavailable(f"{where}: {kind}: {cause}")
        if kind in ("UnauthorizedError", "ForbiddenError"):
            return SinkRefused(f"{where}: the catalog does not accept these credentials")
        return file_error(where, cause)

    def held(self) -> Held | None:
        """By the table's properties."""
        catalog = self.sink.catalog()
        if self.shape is None or not catalog.table_exists(self.sink.table):
            return None
        table = catalog.load_table(self.sink.table)
        names = table.schema().as_arrow().names
        return held_by(
            table.properties, names, self.shape, lambda column: table.scan(selected_fields=(column,)).to_arrow()[column]
        )

    def label(self, properties: dict[str, str]) -> None:
        """Set properties of the table."""
        with self.sink.catalog().load_table(self.sink.table).transaction() as changes:
            changes.set_properties(properties)

    def prepare(self) -> None:
        """Check or create the table."""
        if self.shape is not None:
            refuse_other_shape(self.sink.table, self.held(), self.shape)
        catalog, columns = self.sink.catalog(), self.target.columns
        if not catalog.table_exists(self.sink.table):
            catalog.create_namespace_if_not_exists(self.sink.table.rpartition(".")[0])
            catalog.create_table(self.sink.table, schema=columns)
            return
        table = catalog.load_table(self.sink.table)
        found = table.schema().as_arrow()
        wanted = dict(zip(columns.names, columns.types, strict=True))
        added = additions(self.target, dict(zip(found.names, found.types, strict=True)), wanted, same_kind)
        if added:
            with table.update_schema() as change:
                change.union_by_name(pa.schema([columns.field(name) for name in added]))

    def store(self, rows: pa.Table, delivery: Delivery) -> None:
        """One snapshot."""
        rows = rows if self.shape else first_of_each(rows, self.target.identity)
        self.attempt(lambda: self._replace(rows))

    def _replace(self, rows: pa.Table) -> None:
        expressions = need("pyiceberg.expressions", "iceberg")
        table = self.sink.catalog().load_table(self.sink.table)
        identity, rank = list(self.target.identity), list(self.target.rank)
        stored = table.scan(
            row_filter=self._near(expressions, rows), selected_fields=tuple(dict.fromkeys(identity + rank))
        ).to_arrow()
        fields = [self.target.columns.field(name) for name in stored.column_names]
        stored = stored.cast(pa.schema(fields))
        known, coming = (pl.DataFrame(pl.from_arrow(side.select(identity))) for side in (stored, rows))
        fresh = coming.with_row_index("eventide_row").join(known, on=identity, how="anti", nulls_equal=True)["eventide_row"]
        if not rank or len(identity) > 1:
            if len(fresh):
                table.append(rows.take(fresh.sort().to_arrow()))
            return
        # The stored ranks and the coming ones together: the coming rows that still stand outrank what is there.
        assert self.shape is not None
        marked = [
            side.select(stored.column_names).append_column("coming", pa.array([flag] * side.num_rows, pa.bool_()))
            for side, flag in ((stored, False), (rows, True))
        ]
        standing = highest(pa.concat_tables(marked), self.shape)
        winners = set(standing.filter(standing["coming"])[identity[0]].to_pylist())
        if not winners:
            return
        outranked = winners & set(stored[identity[0]].to_pylist())
        writable = rows.filter(pa.compute.is_in(rows[identity[0]], pa.array(list(winners), pa.string())))
        if outranked:
            table.overwrite(writable, overwrite_filter=expressions.In(identity[0], list(outranked)))
        else:
            table.append(writable)

    def withdraw(self, generation: int, span: Span) -> bool:
        """One snapshot."""
        expressions, shape = need("pyiceberg.expressions", "iceberg"), self.shape
        assert shape is not None
        table, age = self.sink.catalog().load_table(self.sink.table), shape.meta("generation")
        older = expressions.LessThan(age, generation)
        rows = table.scan(row_filter=older).to_arrow().select(shape.schema.names).cast(shape.schema)
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
        table = self.sink.catalog().load_table(self.sink.table)
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
                changes.append(pa.Table.from_batches([batch]).select(columns.names).cast(columns))
            changes.set_properties(labelled(shape, generation))

    def _near(self, expressions: Any, rows: pa.Table) -> Any:
        """Only files that can hold these windows are read."""
        if self.shape is None:
            return expressions.AlwaysTrue()
        end = self.shape.meta("window_end")
        bounds: Any = pa.compute.min_max(rows[end]).as_py()
        at_least = expressions.GreaterThanOrEqual(end, bounds["min"].isoformat())
        return expressions.And(at_least, expressions.LessThanOrEqual(end, bounds["max"].isoformat()))


@without_secrets
@dataclass(frozen=True)
class IcebergSink:
    """Panes into an Iceberg table."""

    properties: tuple[tuple[str, str], ...] = field(repr=False)
    table: str
    catalog_name: str = "default"
    retry: Retry = field(default=Retry(), repr=False)

    @property
    def capabilities(self) -> Capabilities:
        """Readers filter `op = 'insert'`; `read` does it for them."""
        return Capabilities(upsert=True, retract=True, transactional=True, append=True, generations=True)

    def catalog(self) -> Any:
        """The catalog, by its properties or by its name in the user's own configuration."""
        return need("pyiceberg.catalog", "iceberg").load_catalog(self.catalog_name, **dict(self.properties))

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
        return current(stored.select(shape.schema.names).cast(shape.schema), shape)


def _prepared(writer: IcebergWriter) -> IcebergWriter:
    writer.attempt(writer.prepare)
    return writer


def iceberg(catalog: str | Mapping[str, str], table: str, *, retry: Retry | None = None) -> IcebergSink:
    """Results into an Iceberg table (`namespace.name`); readers filter `op = 'insert'`.

    The catalog is a name from the user's pyiceberg configuration, or its properties.

    >>> iceberg({"type": "sql", "uri": "sqlite:///cat.db", "warehouse": "file:///lake"}, "sales.totals")
    IcebergSink(table='sales.totals', catalog_name='default')
    """
    named = catalog if isinstance(catalog, str) else "default"
    properties = () if isinstance(catalog, str) else tuple(sorted(catalog.items()))
    return IcebergSink(properties, table, named, retry or Retry())
