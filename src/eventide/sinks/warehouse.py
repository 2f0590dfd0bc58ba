"""A warehouse behind any DB-API connection, and the dialect of MERGE that each extends."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

from eventide.errors import SinkError, SinkRefused, SinkUnavailable
from eventide.redaction import masked, without_secrets
from eventide.sinks import plain
from eventide.sinks.ranked import first_of_each
from eventide.sinks.retry import Retry
from eventide.sinks.shape import INSTANT
from eventide.sinks.sql import CORRECTED, Database, SqlSink, drop_view
from eventide.sinks.sql_generations import EPOCH, MICRO
from eventide.sinks.sql_target import distinct, merge, names
from eventide.sinks.target import Target

Connect = Callable[[], Any]


class MergeDialect:
    """Standard SQL with MERGE; override what your warehouse says differently.

    A dialect has no state. The defaults suit PostgreSQL 15 and newer.
    """

    placeholder = "%s"
    """What stands for a parameter: `%s`, `?` or `:1` (a format with `{number}` is filled in)."""
    longest_name = 63
    schema = "current_schema()"
    """How the schema is asked for in which the connection makes its tables."""
    temporary = "create temporary table {name} ({columns})"
    """How a staging table that only this connection sees is made."""
    drop = "drop table {name}"
    key = "primary key ({columns})"
    """How a table's identity is declared."""
    replaces_views = False
    """Whether a view is replaced in one statement, where making and dropping one ends a transaction."""

    def quote(self, name: str) -> str:
        """An identifier, whatever is in it."""
        return '"' + name.replace('"', '""') + '"'

    def located(self, name: str) -> str:
        """A table or view with the schema it lives in, quoted; by default the connection's own."""
        return self.quote(name)

    def type_of(self, kind: pa.DataType) -> str:
        """A column type, in the words in which information_schema reports it."""
        if kinds.is_boolean(kind):
            return "boolean"
        if kinds.is_integer(kind):
            return "bigint"
        if kinds.is_floating(kind):
            return "double precision"
        if kinds.is_timestamp(kind):
            return "timestamp with time zone" if kind.tz else "timestamp without time zone"
        if kinds.is_decimal(kind):
            return f"numeric({kind.precision},{kind.scale})"
        if kinds.is_date(kind):
            return "date"
        if kinds.is_time(kind):
            return "time without time zone"
        return "bytea" if kinds.is_binary(kind) else "text"

    def same_type(self, reported: str, wanted: str) -> bool:
        """Whether a reported column type is the wanted one; precision is often reported elsewhere."""
        return reported.lower().partition("(")[0] == wanted.lower().partition("(")[0]

    def value(self, value: Any, kind: pa.DataType) -> Any:
        """One value as the driver takes it; nested ones are JSON text."""
        return plain.text(value) if plain.is_nested(kind) else value

    def catalogue(self) -> str:
        """Name and type of a table's columns; one parameter, the table, which is made in the connection's own schema."""
        here = f"table_name = {self.placeholder} and table_schema = {self.schema} order by ordinal_position"
        return f"select column_name, data_type from information_schema.columns where {here}"

    def views(self) -> str:
        """A row if a name is a view; one parameter, the name."""
        here = f"table_name = {self.placeholder} and table_schema = {self.schema}"
        return f"select 1 from information_schema.views where {here}"

    def distinct(self, table: str, column: str, texts: Iterable[str]) -> str:
        """A query for those of some texts that a column tells apart, by the collation that it has; "" if it has none."""
        return distinct(table, column, texts)

    def merge(self, target: Target, table: str, source: str) -> str:
        """The statement that applies staged rows by rank."""
        return merge(target, table, source, self.quote)

    def stage(self, connection: Any, staging: str, rows: pa.Table) -> None:
        """Bring rows into the staging table: by executemany, unless the warehouse has a better way."""
        columns = names(rows.column_names, self.quote)
        # Beside parameters a driver of the %s kind takes every other % for one, in names too.
        escaped = columns.replace("%", "%%") if "%" in self.placeholder else columns
        marks = ", ".join(self.placeholder.format(number=n + 1) for n in range(rows.num_columns))
        cells = [[self.value(v, c.type) for v in plain.python_values(c)] for c in rows.columns]
        with contextlib.closing(connection.cursor()) as cursor:
            cursor.executemany(f"insert into {staging} ({escaped}) values ({marks})", list(zip(*cells, strict=True)))

    def transient(self, error: Exception) -> bool:
        """Whether a driver's error may pass: DB-API calls those OperationalError, lost connections InterfaceError."""
        if str(getattr(error, "sqlstate", None) or "").startswith(
            "54"
        ):  # beyond a limit of the database: an OperationalError too
            return False
        names = {kind.__name__ for kind in type(error).__mro__}
        return not names.isdisjoint(("OperationalError", "InterfaceError", "TimeoutError", "ConnectionError"))


@dataclass(frozen=True)
class Warehouse(Database):
    """The user's connection and dialect, as the shared writer wants them."""

    connector: Connect
    dialect: MergeDialect

    def connect(self) -> Any:
        """Through the user's own function."""
        return self.connector()

    def type_of(self, kind: pa.DataType) -> str:
        return self.dialect.type_of(kind)

    def quote(self, name: str) -> str:
        """As the dialect says, after the checks that hold everywhere."""
        super().quote(name)
        return self.dialect.quote(name)

    def located(self, table: str) -> str:
        self.quote(table)
        return self.dialect.located(table)

    def key(self, target: Target) -> str:
        return self.dialect.key.format(columns=names(target.identity, self.quote))

    def instant(self, micros: int) -> str:
        """An instant in the dialect's own type."""
        return f"cast('{(EPOCH + micros * MICRO).isoformat(sep=' ', timespec='microseconds')}' as {self.type_of(INSTANT)})"

    def replace_view(self, connection: Any, name: str, select: str) -> None:
        """In one statement where the warehouse can: one that ends a transaction would leave readers without a view."""
        if not self.dialect.replaces_views:
            return super().replace_view(connection, name, select)
        drop_view(self, connection, f"{name}{CORRECTED}")
        self.execute(connection, f"create or replace view {self.located(name)} as {select}")
        return None

    def columns(self, connection: Any, table: str) -> dict[str, str]:
        """From information_schema, or what the dialect has instead."""
        return {str(name): str(kind) for name, kind in self._query(connection, self.dialect.catalogue(), table)}

    def same_type(self, reported: str, wanted: str) -> bool:
        return self.dialect.same_type(reported, wanted)

    def distinct(self, table: str, column: str, texts: Iterable[str]) -> str:
        return self.dialect.distinct(self.located(table), self.quote(column), texts)

    def is_view(self, connection: Any, name: str) -> bool:
        return bool(self._query(connection, self.dialect.views(), name))

    def _query(self, connection: Any, statement: str, name: str) -> list[Any]:
        with contextlib.closing(connection.cursor()) as cursor:
            cursor.execute(statement.format(number=1), (name,))
            return list(cursor.fetchall())

    def execute(self, connection: Any, statement: str) -> None:
        """Through a cursor, as DB-API has it."""
        with contextlib.closing(connection.cursor()) as cursor:
            cursor.execute(statement)

    def rows(self, connection: Any, statement: str) -> list[Any]:
        with contextlib.closing(connection.cursor()) as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    @contextlib.contextmanager
    def transaction(self, connection: Any) -> Iterator[None]:
        """DB-API opens transactions by itself."""
        yield
        connection.commit()

    def write(self, connection: Any, target: Target, rows: pa.Table) -> None:
        """Rows into a staging table, then one MERGE."""
        rows = rows if target.rank else first_of_each(rows, target.identity)
        staging = self.dialect.located(f"eventide_staged_{uuid.uuid4().hex[:12]}")
        columns = ", ".join(f"{self.quote(f.name)} {self.type_of(f.type)}" for f in target.columns)
        self.execute(connection, self.dialect.temporary.format(name=staging, columns=columns))
        self.dialect.stage(connection, staging, rows.select(target.columns.names))
        source = f"select {names(target.columns.names, self.quote)} from {staging}"
        self.execute(connection, self.dialect.merge(target, self.located(target.name), source))
        self.execute(connection, self.dialect.drop.format(name=staging))

    def error(self, cause: Exception) -> SinkError:
        """As the dialect sees it; the driver's words are kept to one line."""
        kind = SinkUnavailable if self.dialect.transient(cause) else SinkRefused
        return kind(f"the warehouse ({type(self.dialect).__name__}): {type(cause).__name__}: {masked(str(cause)).strip()}")


@without_secrets
@dataclass(frozen=True)
class MergeSink(SqlSink):
    """Panes into a warehouse by MERGE."""

    connector: Connect = field(repr=False)
    dialect: MergeDialect
    table: str | None = None
    retry: Retry = field(default=Retry(), repr=False)

    def database(self) -> Warehouse:
        return Warehouse(self.connector, self.dialect)
