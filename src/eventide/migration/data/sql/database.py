"""A database with a table to be changed: what SQLite and PostgreSQL are asked, each in its own words."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from eventide.errors import EventideError
from eventide.migration.data.sql.steps import quoted
from eventide.migration.faults import PlanRefused


class TableRefused(EventideError):
    """A step that may not run yet, or that the database did not take."""


class Database(Protocol):
    """A connection, whichever database it goes to."""

    dialect: str
    mark: str
    trouble: type[Exception]
    differs: str
    """The operator that tells two values apart, null being one of them."""

    def columns(self, table: str) -> list[str]:
        """The columns of a table, in order."""

    def key(self, table: str) -> dict[str, str]:
        """What tells one row from another: each name and how it is selected."""

    def as_column(self, table: str, column: str, expression: str) -> str:
        """An expression in the type of a column: a date that the table keeps as text is compared as text."""

    def exactly(self, table: str, column: str, expression: str) -> str:
        """A value of a column, compared to the last character: a collation may take `ABC` and `abc` for the same."""

    def lock(self, table: str) -> None:
        """Let nobody change the table until the end of this transaction."""

    def transaction(self) -> Any:
        """All or nothing."""

    def run(self, statement: str, values: Sequence[Any] = ()) -> tuple[list[Any], int]:
        """Rows and the number of rows changed."""


class Sqlite:
    """A SQLite file."""

    dialect, mark, differs = "sqlite", "?", "IS NOT"
    trouble: type[Exception] = sqlite3.Error

    def __init__(self, path: str) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)

    def columns(self, table: str) -> list[str]:
        """The columns of a table, in order."""
        return [str(r[0]) for r in self.connection.execute("SELECT name FROM pragma_table_info(?)", (table,))]

    def key(self, table: str) -> dict[str, str]:
        """What tells one row from another: each name and how it is selected."""
        rows = self.connection.execute("SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", (table,)).fetchall()
        return {str(r[0]): quoted(str(r[0])) for r in rows} or {"rowid": "rowid"}

    def as_column(self, table: str, column: str, expression: str) -> str:
        """The expression itself: a comparison takes the column's affinity."""
        return f"({expression})"

    def exactly(self, table: str, column: str, expression: str) -> str:
        """The value by its bytes, whatever collation the column was declared with."""
        return f"{expression} COLLATE BINARY"

    def lock(self, table: str) -> None:
        """Nothing to do: BEGIN IMMEDIATE has locked the whole file."""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, definitions included."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")

    def run(self, statement: str, values: Sequence[Any] = ()) -> tuple[list[Any], int]:
        """Rows and the number of rows changed."""
        cursor = self.connection.execute(statement, values)
        return cursor.fetchall(), cursor.rowcount


class Postgres:
    """A PostgreSQL database."""

    dialect, mark, differs = "postgresql", "%s", "IS DISTINCT FROM"
    trouble: type[Exception]

    def __init__(self, url: str) -> None:
        import psycopg

        self.trouble = psycopg.Error
        self.connection = psycopg.connect(url, autocommit=True)

    def columns(self, table: str) -> list[str]:
        """The columns of a table, in order."""
        schema, _, name = table.rpartition(".")
        rows = self.connection.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_name = %s "
            "AND table_schema = COALESCE(NULLIF(%s, ''), current_schema()) ORDER BY ordinal_position",
            (name, schema),
        ).fetchall()
        return [str(r[0]) for r in rows]

    def key(self, table: str) -> dict[str, str]:
        """What tells one row from another: each name and how it is selected."""
        rows = self.connection.execute(
            "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey) "
            "WHERE i.indisprimary AND i.indrelid = %s::regclass ORDER BY array_position(i.indkey::int2[], a.attnum)",
            (quoted(table),),
        ).fetchall()
        return {str(r[0]): quoted(str(r[0])) for r in rows} or {"ctid": "ctid"}

    def as_column(self, table: str, column: str, expression: str) -> str:
        """The expression cast to the column's type, without its length: a cast would cut values to it."""
        rows = self.connection.execute(
            "SELECT format_type(atttypid, -1) FROM pg_attribute WHERE attrelid = %s::regclass AND attname = %s",
            (quoted(table), column),
        ).fetchall()
        return f"CAST(({expression}) AS {rows[0][0]})"

    def exactly(self, table: str, column: str, expression: str) -> str:
        """A text by its bytes, be it of a case-insensitive type or collation; anything else as it is."""
        rows = self.connection.execute(
            "SELECT t.typcategory FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid "
            "WHERE a.attrelid = %s::regclass AND a.attname = %s",
            (quoted(table), column),
        ).fetchall()
        return f'CAST({expression} AS text) COLLATE "C"' if rows[0][0] == "S" else expression

    def lock(self, table: str) -> None:
        """Let nobody change or read the table until the end of this transaction."""
        self.run(f"LOCK TABLE {quoted(table)} IN ACCESS EXCLUSIVE MODE")

    def transaction(self) -> Any:
        """All or nothing, definitions included."""
        return self.connection.transaction()

    def run(self, statement: str, values: Sequence[Any] = ()) -> tuple[list[Any], int]:
        """Rows and the number of rows changed."""
        cursor = self.connection.execute(statement.encode(), values or None)
        return (cursor.fetchall() if cursor.description else []), cursor.rowcount


def connect(url: str) -> Database:
    """The database behind a URL: `sqlite:///FILE` or `postgresql://…`."""
    if url.startswith("sqlite:///"):
        path = url.removeprefix("sqlite:///")
        if not Path(path).is_file():  # SQLite would make an empty one
            raise TableRefused(
                f"There is no SQLite file {path!r}; sqlite:///FILE is below this directory, sqlite:////FILE is not."
            )
        return Sqlite(path)
    if url.startswith(("postgresql://", "postgres://")):
        import psycopg

        try:
            return Postgres(url)
        except psycopg.Error as error:
            raise TableRefused(f"The database does not let us in: {error}") from error
    raise PlanRefused(f"{url!r} is no database; give sqlite:///FILE or postgresql://USER@HOST/DATABASE.")
