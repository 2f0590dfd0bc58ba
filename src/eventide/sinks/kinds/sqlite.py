"""SQLite: the embedded default, one file that every tool can read."""

from __future__ import annotations

import math
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
import pyarrow as pa
import pyarrow.types as kinds

from eventide.errors import SinkError, SinkRefused, SinkUnavailable
from eventide.redaction import without_secrets
from eventide.sinks import plain
from eventide.sinks.retry import Retry
from eventide.sinks.shape import PaneShape
from eventide.sinks.sql import Database, SqlSink
from eventide.sinks.sql_generations import newest, table_of
from eventide.sinks.sql_target import names, upsert
from eventide.sinks.target import Target
from eventide.storage.address import from_here

TRANSIENT = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
}
NAN = "NaN"
"""What stands in a column of numbers where a number is none: SQLite would store null."""


@dataclass(frozen=True)
class SqliteDatabase(Database):
    """Instants are stored as integers (fast, exact) and shown as text; decimals and times of day as text; nested values as JSON."""

    path: str
    caseless: ClassVar[bool] = True
    busy_timeout: ClassVar[float] = 5.0
    begin: ClassVar[str] = "begin immediate"
    """A reader that becomes a writer may find its view too old and fail; a writer from the start waits its turn."""

    def connect(self) -> sqlite3.Connection:
        """Write-ahead logging, so that readers never wait; a micro-batch may run on another thread than the opening."""
        connection = sqlite3.connect(self.path, timeout=self.busy_timeout, isolation_level=None, check_same_thread=False)
        for setting in ("journal_mode = wal", "synchronous = full", "cache_size = -262144"):
            connection.execute(f"pragma {setting}")
        return connection

    def type_of(self, kind: pa.DataType) -> str:
        """SQLite's storage classes."""
        if kinds.is_boolean(kind) or kinds.is_integer(kind) or kinds.is_timestamp(kind):
            return "INTEGER"
        if kinds.is_floating(kind):
            return "REAL"
        return "BLOB" if kinds.is_binary(kind) or kinds.is_large_binary(kind) else "TEXT"

    def columns(self, connection: sqlite3.Connection, table: str) -> dict[str, str]:
        return {row[1]: row[2] for row in connection.execute(f"pragma table_info({self.quote(table)})")}

    def is_view(self, connection: sqlite3.Connection, name: str) -> bool:
        found = connection.execute("select type from sqlite_master where lower(name) = lower(?)", (name,)).fetchone()
        return found is not None and found[0] == "view"

    def table_options(self) -> str:
        """One tree, ordered by window, instead of a table and an index beside it."""
        return " without rowid"

    def shown(self, column: str, kind: pa.DataType) -> str:
        """Instants as text that SQLite's own date functions read; floor division, for times before 1970."""
        if not kinds.is_timestamp(kind):
            return column
        micros = f"((({column}) % 1000000 + 1000000) % 1000000)"
        seconds = f"strftime('%Y-%m-%d %H:%M:%S', (({column}) - {micros}) / 1000000, 'unixepoch')"
        return f"{seconds} || printf('.%06d', {micros})"

    def instant(self, micros: int) -> str:
        """Instants are stored as integers."""
        return str(int(micros))

    def adds(self, kind: pa.DataType) -> bool:
        """SQLite adds decimals as floating point."""
        return not kinds.is_decimal(kind)

    def added(self, function: str, column: str, kind: pa.DataType) -> str:
        """SQLite's own sum takes a text for zero, and infinity less infinity for nothing."""
        if function != "sum" or not kinds.is_floating(kind):
            return super().added(function, column, kind)
        numbers = f"coalesce(sum({column}), case when count({column}) > 0 then {self.nan(kind)} end)"
        return f"case when max(typeof({column}) = 'text') then {self.nan(kind)} else {numbers} end"

    def nan(self, kind: pa.DataType) -> str:
        """A text, because SQLite would store nothing at all for a number that is none."""
        return f"'{NAN}'"

    def write(self, connection: sqlite3.Connection, target: Target, rows: pa.Table) -> None:
        """In process there are no round trips to save: one prepared upsert over sorted rows beat a staging table."""
        values = f"values ({', '.join('?' * len(target.columns))})"
        statement = upsert(target, self.quote(target.name), values, self.quote)
        for start in range(0, rows.num_rows, 50_000):
            connection.executemany(statement, storable(rows.slice(start, 50_000)))

    def error(self, cause: Exception) -> SinkError:
        """Busy, full or out of reach may pass; all else will not."""
        code = getattr(cause, "sqlite_errorcode", None)
        if code is not None and (code & 0xFF) in TRANSIENT:
            return SinkUnavailable(f"SQLite at {self.path!r}: {cause}; the transaction was rolled back, nothing was applied")
        return SinkRefused(f"SQLite at {self.path!r}: {cause}")


def storable(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows in SQLite's storage classes."""
    for index, one in enumerate(table.schema):
        column: Any = table.column(index)
        if plain.is_nested(one.type):
            column = plain.as_text(column)
        elif kinds.is_timestamp(one.type):
            column = column.cast(pa.timestamp("us", one.type.tz)).cast(pa.int64())
        elif kinds.is_date(one.type) or kinds.is_time(one.type) or kinds.is_decimal(one.type):
            column = column.cast(pa.string())
        elif kinds.is_boolean(one.type):
            column = column.cast(pa.int8())
        table = table.set_column(index, one.name, column)
    frame = pl.DataFrame(pl.from_arrow(table))
    rows = frame.rows()
    if not any(frame[name].is_nan().any() for name, kind in frame.schema.items() if kind.is_float()):
        return rows
    return [tuple(NAN if isinstance(cell, float) and math.isnan(cell) else cell for cell in row) for row in rows]


@without_secrets
@dataclass(frozen=True)
class SqliteSink(SqlSink):
    """Panes into a SQLite file."""

    path: str
    table: str | None = None
    retry: Retry = field(default=Retry(), repr=False)

    def database(self) -> SqliteDatabase:
        return SqliteDatabase(from_here(self.path))

    def stands(self, output: str, shape: PaneShape, generation: int) -> dict[str, tuple[object, ...]]:
        """Read where nothing can be written; a file or a table that is not there holds nothing."""
        database, name = self.database(), self.table or output
        if not Path(self.path).exists():
            return {}
        connection = sqlite3.connect(f"{Path(self.path).resolve().as_uri()}?mode=ro", uri=True, timeout=database.busy_timeout)
        try:
            target = table_of(name, shape, newest(database, connection, name))
            if not database.columns(connection, target.name):
                return {}
            wanted = names([shape.meta("window_id"), shape.meta("window_end"), *shape.value_names], database.quote)
            op, of = (database.quote(shape.meta(column)) for column in ("op", "generation"))
            query = f"select {wanted} from {database.quote(target.name)} where {op} = 'insert' and {of} >= ?"
            return {window_id: tuple(values) for window_id, *values in connection.execute(query, (generation,))}
        except sqlite3.Error as error:
            raise database.error(error) from error
        finally:
            connection.close()

    def as_stored(self, values: pa.Table) -> list[tuple[object, ...]]:
        """In SQLite's storage classes."""
        return [tuple(row) for row in storable(values)]


def sqlite(path: str, table: str | None = None, *, retry: Retry | None = None) -> SqliteSink:
    """Results into a SQLite file; read the view named like the output (or `table`).

    >>> sqlite("upi.db")
    SqliteSink(path='upi.db', table=None)
    """
    return SqliteSink(str(path), table, retry or Retry())
