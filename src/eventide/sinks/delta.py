"""Delta Lake: one MERGE by rank per delivery, from Arrow, without the JVM."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from eventide.errors import SinkError, SinkRefused, SinkUnavailable
from eventide.redaction import without_secrets
from eventide.sinks.base import Capabilities, Delivery
from eventide.sinks.lake import file_error, same_kind
from eventide.sinks.libraries import need
from eventide.sinks.ranked import current, first_of_each
from eventide.sinks.retry import Retry
from eventide.sinks.shape import PaneShape
from eventide.sinks.sqltarget import outranks
from eventide.sinks.target import TableWriter, Target, additions


def quote(name: str) -> str:
    """An identifier as DataFusion takes it; its parser has no escape for a backtick."""
    if "`" in name:
        raise SinkRefused(f"a Delta table cannot be merged on a column called {name!r}: leave out the backtick")
    return f"`{name}`"


class DeltaWriter(TableWriter):
    """Merges a delivery into the table in one commit of its log."""

    def __init__(self, sink: DeltaSink, target: Target, shape: PaneShape | None) -> None:
        super().__init__(target, sink.retry, shape)
        self.path = sink.path
        self.options = dict(sink.storage_options)
        self.attempt(self._prepare)

    def error(self, cause: Exception) -> SinkError:
        """A lost race for the commit may be won the next time."""
        if type(cause).__name__ == "CommitFailedError":
            return SinkUnavailable(f"Delta at {self.path!r}: another writer was first: {cause}")
        return file_error(f"Delta at {self.path!r}", cause)

    def _prepare(self) -> None:
        deltalake = need("deltalake", "delta")
        columns = self.target.columns
        if not deltalake.DeltaTable.is_deltatable(self.path, self.options or None):
            deltalake.DeltaTable.create(self.path, columns, storage_options=self.options or None)
            return
        table = deltalake.DeltaTable(self.path, storage_options=self.options or None)
        found = pa.schema(table.schema().to_arrow())
        wanted = dict(zip(columns.names, columns.types, strict=True))
        added = additions(self.target, dict(zip(found.names, found.types, strict=True)), wanted, same_kind)
        if added:
            fields = deltalake.Schema.from_arrow(pa.schema([columns.field(name) for name in added])).fields
            table.alter.add_columns(fields)

    def store(self, rows: pa.Table, delivery: Delivery) -> None:
        """One commit."""
        rows = rows if self.shape else first_of_each(rows, self.target.identity)
        self.attempt(lambda: self._merge(rows))

    def _merge(self, rows: pa.Table) -> None:
        table = need("deltalake", "delta").DeltaTable(self.path, storage_options=self.options or None)
        same = " and ".join(f"t.{quote(name)} = s.{quote(name)}" for name in self.target.identity)
        merging = table.merge(rows, same, source_alias="s", target_alias="t")
        if self.target.rank:
            merging = merging.when_matched_update_all(outranks(self.target.rank, "s", "t", quote))
        merging.when_not_matched_insert_all().execute()


@without_secrets
@dataclass(frozen=True)
class DeltaSink:
    """Panes into a Delta table."""

    path: str
    storage_options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    retry: Retry = field(default=Retry(), repr=False)

    @property
    def capabilities(self) -> Capabilities:
        """Readers filter `op = 'insert'`, as Delta has no views; `read` does it for them."""
        return Capabilities(upsert=True, retract=True, transactional=True, append=True)

    def open(self, output: str, shape: PaneShape) -> DeltaWriter:
        """Check or create the table."""
        target = Target.of_panes(output, shape)
        return DeltaWriter(self, target, shape)

    def open_log(self, name: str, schema: pa.Schema, identity: tuple[str, ...]) -> DeltaWriter:
        """A table of late rows or dead letters."""
        return DeltaWriter(self, Target.of_log(name, schema, identity), None)

    def read(self, shape: PaneShape) -> pa.Table:
        """What stands now."""
        table = need("deltalake", "delta").DeltaTable(self.path, storage_options=dict(self.storage_options) or None)
        return current(pa.table(table.to_pyarrow_table()).select(shape.schema.names).cast(shape.schema), shape)


def delta(path: str, *, storage_options: dict[str, str] | None = None, retry: Retry | None = None) -> DeltaSink:
    """Results into the Delta table at `path`; readers filter `op = 'insert'`.

    >>> delta("lake/totals", storage_options={"AWS_SECRET_ACCESS_KEY": "secret"})
    DeltaSink(path='lake/totals')
    """
    return DeltaSink(str(path), tuple(sorted((storage_options or {}).items())), retry or Retry())
