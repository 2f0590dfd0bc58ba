"""Iceberg: the stored ranks are compared on the driver, and what outranks them goes in as one snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import pyarrow as pa

from eventide.errors import SinkError, SinkRefused, SinkUnavailable
from eventide.redaction import without_secrets
from eventide.sinks.base import Capabilities, Delivery
from eventide.sinks.lake import file_error, same_kind
from eventide.sinks.libraries import need
from eventide.sinks.ranked import current, first_of_each, highest
from eventide.sinks.retry import Retry
from eventide.sinks.shape import PaneShape
from eventide.sinks.target import TableWriter, Target, additions

PASSING = ("CommitFailedException", "CommitStateUnknownException", "ServiceUnavailableError", "ConnectionError")


class IcebergWriter(TableWriter):
    """Replaces outranked rows in one transaction; a lost race for the commit reads the ranks again."""

    def __init__(self, sink: IcebergSink, target: Target, shape: PaneShape | None) -> None:
        super().__init__(target, sink.retry, shape)
        self.sink = sink
        self.attempt(self._prepare)

    def error(self, cause: Exception) -> SinkError:
        """A lost race for the commit may be won the next time."""
        where, kind = f"Iceberg table {self.sink.table!r}", type(cause).__name__
        if kind in PASSING:
            return SinkUnavailable(f"{where}: {kind}: {cause}")
        if kind in ("UnauthorizedError", "ForbiddenError"):
            return SinkRefused(f"{where}: the catalog does not accept these credentials")
        return file_error(where, cause)

    def _prepare(self) -> None:
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
        if not rank:
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
        return Capabilities(upsert=True, retract=True, transactional=True, append=True)

    def catalog(self) -> Any:
        """The catalog, by its properties or by its name in the user's own configuration."""
        return need("pyiceberg.catalog", "iceberg").load_catalog(self.catalog_name, **dict(self.properties))

    def open(self, output: str, shape: PaneShape) -> IcebergWriter:
        """Check or create the table."""
        return IcebergWriter(self, Target.of_panes(output, shape), shape)

    def open_log(self, name: str, schema: pa.Schema, identity: tuple[str, ...]) -> IcebergWriter:
        """A table of late rows or dead letters."""
        return IcebergWriter(self, Target.of_log(name, schema, identity), None)

    def read(self, shape: PaneShape) -> pa.Table:
        """What stands now."""
        stored = self.catalog().load_table(self.table).scan().to_arrow()
        return current(stored.select(shape.schema.names).cast(shape.schema), shape)


def iceberg(catalog: str | Mapping[str, str], table: str, *, retry: Retry | None = None) -> IcebergSink:
    """Results into an Iceberg table (`namespace.name`); readers filter `op = 'insert'`.

    The catalog is a name from the user's pyiceberg configuration, or its properties.

    >>> iceberg({"type": "sql", "uri": "sqlite:///cat.db", "warehouse": "file:///lake"}, "sales.totals")
    IcebergSink(table='sales.totals', catalog_name='default')
    """
    named = catalog if isinstance(catalog, str) else "default"
    properties = () if isinstance(catalog, str) else tuple(sorted(catalog.items()))
    return IcebergSink(properties, table, named, retry or Retry())
