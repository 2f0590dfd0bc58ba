"""What every SQL sink shares: the check of the target, one transaction per delivery, retries, and readers' views."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, ClassVar, TypeVar

import pyarrow as pa

from eventide.errors import DefinitionError, SinkError, TargetMismatch
from eventide.sinks.base import Capabilities, Delivery
from eventide.sinks.retry import Retry
from eventide.sinks.shape import PaneShape
from eventide.sinks.sql_generations import EPOCH, MICRO, KeepsGenerations, newest, table_of, view_of
from eventide.sinks.sql_target import distinct, names
from eventide.sinks.target import TableWriter, Target, additions, refuse_other_shape

Result = TypeVar("Result")


class Database(ABC):
    """One kind of SQL database: its names, types, statements and errors. It holds no connection and can be pickled."""

    longest_name: ClassVar[int] = 10_000
    caseless: ClassVar[bool] = False
    """Whether names that differ by case alone are one table."""
    begin: ClassVar[str] = "begin"
    keeps_open: ClassVar[bool] = True
    """Whether a connection is kept between deliveries."""

    @abstractmethod
    def connect(self) -> Any:
        """A new connection on which nothing is committed until `commit`."""

    @abstractmethod
    def type_of(self, kind: pa.DataType) -> str:
        """The column type for a kind of value, in the words in which `columns` reports it."""

    @abstractmethod
    def columns(self, connection: Any, table: str) -> dict[str, str]:
        """The columns of a table or view with their types; empty if there is none."""

    @abstractmethod
    def is_view(self, connection: Any, name: str) -> bool:
        """Whether a name that exists is a view."""

    @abstractmethod
    def write(self, connection: Any, target: Target, rows: pa.Table) -> None:
        """Bring rows in, one per identity, and apply them by rank, inside the open transaction."""

    @abstractmethod
    def error(self, cause: Exception) -> SinkError:
        """What a driver's error means: try again, or never."""

    def quote(self, name: str) -> str:
        """An identifier as SQL takes it, whatever is in it."""
        if "\0" in name or not name:
            raise DefinitionError(f"{name!r} cannot be the name of a column or table")
        if len(name.encode()) > self.longest_name:
            raise DefinitionError(f"{name!r} is longer than the {self.longest_name} bytes that a name may have here")
        return '"' + name.replace('"', '""') + '"'

    def same_type(self, reported: str, wanted: str) -> bool:
        """Whether a column that is there has the type we want."""
        return reported == wanted

    def located(self, table: str) -> str:
        """A table's name with the schema it lives in."""
        return self.quote(table)

    def read_from(self, table: str) -> str:
        """A table as a view reads it."""
        return self.located(table)

    def shown(self, column: str, kind: pa.DataType) -> str:
        """A stored column as readers should see it."""
        return column

    def adds(self, kind: pa.DataType) -> bool:
        """Whether a view here can add values of this kind exactly."""
        return True

    def distinct(self, table: str, column: str, texts: Iterable[str]) -> str:
        """A query for those of some texts that a column tells apart, by the collation that it has; "" where there are none."""
        return distinct(self.located(table), self.quote(column), texts)

    def added(self, function: str, column: str, kind: pa.DataType) -> str:
        """The deltas of a value put together; among numbers the least and the greatest are numbers, as they are over the rows themselves."""
        if function == "sum" or not pa.types.is_floating(kind):
            return f"{function}({column})"
        return f"coalesce({function}(nullif({column}, {self.nan(kind)})), {function}({column}))"

    def nan(self, kind: pa.DataType) -> str:
        """Not a number, as a value of a kind."""
        return f"cast('NaN' as {self.type_of(kind)})"

    def create_table(self, target: Target) -> str:
        """The statement that makes the table."""
        columns = [
            f"{self.quote(field.name)} {self.declared(target, field)}{'' if field.nullable else ' not null'}"
            for field in target.columns
        ]
        return f"create table {self.located(target.name)} ({', '.join([*columns, self.key(target)])}){self.table_options()}"

    def key(self, target: Target) -> str:
        """How the identity is declared where the table is made."""
        return f"primary key ({names(target.identity, self.quote)})"

    def declared(self, target: Target, field: Any) -> str:
        """A column's type where its table is made."""
        return self.type_of(field.type)

    def table_options(self) -> str:
        """What follows the columns when a table is made."""
        return ""

    def execute(self, connection: Any, statement: str) -> Any:
        """Run one statement without parameters."""
        return connection.execute(statement)

    def rows(self, connection: Any, statement: str) -> list[Any]:
        """What a query gives."""
        return list(self.execute(connection, statement).fetchall())

    def instant(self, micros: int) -> str:
        """An instant as it compares with a stored one."""
        return f"cast('{(EPOCH + micros * MICRO).isoformat(sep=' ', timespec='microseconds')}' as timestamp with time zone)"

    def withdraw(self, connection: Any, target: Target, shape: PaneShape, condition: str) -> None:
        """Make withdrawals of the results that a condition names: where they stood, a stale insert finds its rank."""
        change = f"set {self.quote(shape.meta('op'))} = 'retract' where {condition}"
        self.execute(connection, f"update {self.located(target.name)} {change}")

    def replace_view(self, connection: Any, name: str, select: str) -> None:
        """Put another view in a view's place, inside the open transaction."""
        drop_view(self, connection, f"{name}{CORRECTED}")
        drop_view(self, connection, name)
        self.execute(connection, f"create view {self.located(name)} as {select}")

    @contextlib.contextmanager
    def transaction(self, connection: Any) -> Iterator[None]:
        """All or nothing."""
        self.execute(connection, self.begin)
        yield
        self.execute(connection, "commit")


CORRECTED = "_corrected"
"""The ending of the view that a reconciliation makes over an output's own: it goes before that one is made anew, and the next makes it again."""


APART = ("a", "A", "a ", "á")
"""Texts that a collation may hold for one: without regard to case, trailing spaces or accents."""


def check_keys(database: Database, connection: Any, target: Target) -> None:
    """Refuse a table that holds two texts for one: results of two keys would become one row."""
    for field in (target.columns.field(name) for name in target.identity):
        if not pa.types.is_string(field.type) or not (query := database.distinct(target.name, field.name, APART)):
            continue
        found = {str(text) for (text,) in database.rows(connection, query)}
        if missing := [text for text in APART if text not in found]:
            raise TargetMismatch(
                f"the column {field.name!r} of {target.name!r} holds {missing[0]!r} for the same text as another of {', '.join(map(repr, APART))}: "
                "results of two keys would become one row. Give it a collation that compares bytes, or give the output another target."
            )


def prepare(database: Database, connection: Any, target: Target, view: tuple[str, str] | None) -> None:
    """Make the table and its view, or add what a changed aggregate needs; refuse a table of another shape."""
    have = database.columns(connection, target.name)
    table = database.located(target.name)
    added: list[Any] = []
    if not have:
        database.execute(connection, database.create_table(target))
    else:
        wanted = {field.name: database.type_of(field.type) for field in target.columns}
        added = [target.columns.field(name) for name in additions(target, have, wanted, database.same_type)]
        for field in added:
            database.execute(
                connection,
                f"alter table {table} add column {database.quote(field.name)} {database.type_of(field.type)}",
            )
    check_keys(database, connection, target)
    if view is None:
        return
    name, select = view
    standing = database.columns(connection, name)
    if standing and not database.is_view(connection, name):
        raise TargetMismatch(
            f"{name!r} is a table; the output needs that name for its view over {target.name!r}. "
            "Give the output another name (table=…), or rename that table."
        )
    if standing and (added or not have):
        drop_view(database, connection, f"{name}{CORRECTED}")
        drop_view(database, connection, name)
    if not standing or added or not have:
        database.execute(connection, f"create view {database.located(name)} as {select}")


def drop_view(database: Database, connection: Any, name: str) -> None:
    """Remove a view, if there is one."""
    if database.columns(connection, name) and database.is_view(connection, name):
        database.execute(connection, f"drop view {database.located(name)}")


class SqlWriter(TableWriter):
    """Panes or log rows into one table: one transaction per delivery, tried again as a whole."""

    def __init__(self, database: Database, target: Target, retry: Retry, shape: PaneShape | None = None) -> None:
        super().__init__(target, retry, shape)
        self.database = database
        self._connection: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connection": None}

    def store(self, rows: pa.Table, delivery: Delivery) -> None:
        """Bring the rows in, in one transaction."""
        self.run(lambda connection: self.database.write(connection, self.target, rows))

    def error(self, cause: Exception) -> SinkError:
        return self.database.error(cause)

    def run(self, action: Callable[[Any], Result]) -> Result:
        """Do something in one transaction, again while the database is unavailable."""
        return self.attempt(lambda: self._once(action))

    def _once(self, action: Callable[[Any], Result]) -> Result:
        try:
            if self._connection is None:
                self._connection = self.database.connect()
            with self.database.transaction(self._connection):
                result = action(self._connection)
        except BaseException:
            # A connection in doubt is not used again; closing it rolls back.
            self.close()
            raise
        if not self.database.keeps_open:
            self.close()
        return result

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.close()


class SqlSink(KeepsGenerations):
    """What a sink into a SQL table can do, and how it is opened; each database adds how to reach it."""

    table: str | None
    retry: Retry

    @property
    def capabilities(self) -> Capabilities:
        """One row per window, tombstones hidden by the view, a delivery is a transaction."""
        return Capabilities(upsert=True, retract=True, transactional=True, append=True, generations=True)

    def database(self) -> Database:
        """The database behind this sink."""
        raise NotImplementedError

    def place(self, name: str) -> Hashable:
        """The database, and the table in it."""
        database, table = self.database(), self.table or name
        return type(self).__name__, database, table.lower() if database.caseless else table

    def open(self, output: str, shape: PaneShape) -> SqlWriter:
        """Check or create `<table>_panes` and the view `<table>`."""
        database, name = self.database(), self.table or output
        if shape.accumulation == "discarding":
            for value, kind in shape.values:
                if not database.adds(kind):
                    raise DefinitionError(
                        f"{type(database).__name__} cannot add deltas of {value!r} ({kind}) exactly: "
                        "use an accumulating output, or cast the value"
                    )
        writer = self.writer(database, Target.of_panes(name, shape), shape)

        def ready(connection: Any) -> None:
            record = newest(database, connection, name)
            refuse_other_shape(name, record, shape)
            writer.target = table_of(name, shape, record)
            prepare(database, connection, writer.target, (name, view_of(database, writer.target, shape)))

        writer.run(ready)
        return writer

    def open_log(self, name: str, schema: pa.Schema, identity: tuple[str, ...]) -> SqlWriter:
        """Check or create a table for late rows or dead letters."""
        database, target = self.database(), Target.of_log(self.table or name, schema, identity)
        writer = self.writer(database, target, None)
        writer.run(lambda connection: prepare(database, connection, target, None))
        return writer

    def writer(self, database: Database, target: Target, shape: PaneShape | None) -> SqlWriter:
        return SqlWriter(database, target, self.retry, shape)
