"""DuckDB: an analytical file; Arrow goes in as it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import pyarrow as pa
import pyarrow.types as kinds

from eventide.errors import SinkError, SinkRefused, SinkUnavailable
from eventide.redaction import without_secrets
from eventide.sinks.libraries import need
from eventide.sinks.retry import Retry
from eventide.sinks.sql import Database, SqlSink
from eventide.sinks.sql_target import names, upsert
from eventide.sinks.target import Target
from eventide.storage.address import from_here

TYPES = {
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.date32(): "DATE",
    pa.binary(): "BLOB",
    pa.large_binary(): "BLOB",
}


@dataclass(frozen=True)
class DuckDatabase(Database):
    """Every Arrow type has its own type here, nested ones too."""

    path: str
    caseless: ClassVar[bool] = True
    keeps_open: ClassVar[bool] = False
    """A DuckDB file belongs to one process at a time: it is let go between deliveries, so that others can read it."""

    def connect(self) -> Any:
        connection = need("duckdb", "duckdb").connect(self.path)
        connection.execute("set timezone = 'UTC'")
        return connection

    def type_of(self, kind: pa.DataType) -> str:
        """In the words of the catalogue."""
        if kinds.is_timestamp(kind):
            return "TIMESTAMP WITH TIME ZONE" if kind.tz else "TIMESTAMP"
        if kinds.is_decimal(kind):
            return f"DECIMAL({kind.precision},{kind.scale})"
        if kinds.is_time(kind):
            return "TIME"
        if kinds.is_map(kind):
            return f"MAP({self.type_of(kind.key_type)}, {self.type_of(kind.item_type)})"
        if kinds.is_struct(kind):
            return f"STRUCT({', '.join(f'{self.quote(part.name)} {self.type_of(part.type)}' for part in kind)})"
        if kinds.is_nested(kind):
            return f"{self.type_of(cast(Any, kind).value_type)}[]"
        return TYPES.get(kind, "VARCHAR")

    def columns(self, connection: Any, table: str) -> dict[str, str]:
        here = "table_name = ? and schema_name = current_schema() order by column_index"
        query = f"select column_name, data_type from duckdb_columns() where {here}"
        return dict(connection.execute(query, [table]).fetchall())

    def same_type(self, reported: str, wanted: str) -> bool:
        """DuckDB quotes the fields of a struct only where they need it."""
        return reported.replace('"', "") == wanted.replace('"', "")

    def is_view(self, connection: Any, name: str) -> bool:
        query = "select 1 from duckdb_views() where view_name = ? and schema_name = current_schema()"
        return connection.execute(query, [name]).fetchone() is not None

    def write(self, connection: Any, target: Target, rows: pa.Table) -> None:
        """One statement over the Arrow table."""
        connection.register("eventide_staged", rows)
        select = f"select {names(target.columns.names, self.quote)} from eventide_staged"
        connection.execute(upsert(target, self.located(target.name), select, self.quote))
        connection.unregister("eventide_staged")

    def error(self, cause: Exception) -> SinkError:
        """Another process holding the file, or a full disk, may pass."""
        passing = type(cause).__name__ in ("IOException", "TransactionException", "OutOfMemoryException")
        kind = SinkUnavailable if passing else SinkRefused
        return kind(f"DuckDB at {self.path!r}: {cause}" + ("; nothing was applied" if passing else ""))


@without_secrets
@dataclass(frozen=True)
class DuckSink(SqlSink):
    """Panes into a DuckDB file."""

    path: str
    table: str | None = None
    retry: Retry = field(default=Retry(), repr=False)

    def database(self) -> DuckDatabase:
        return DuckDatabase(from_here(self.path))


def duckdb(path: str, table: str | None = None, *, retry: Retry | None = None) -> DuckSink:
    """Results into a DuckDB file; read the view named like the output (or `table`).

    >>> duckdb("upi.duckdb")
    DuckSink(path='upi.duckdb', table=None)
    """
    return DuckSink(str(path), table, retry or Retry())
