"""Running the steps of a table: each with its mark in one transaction, none before its phase."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from eventide.errors import EventideError
from eventide.migration.faults import PlanRefused
from eventide.migration.migration import Migration
from eventide.migration.phase import Phase
from eventide.migration.shape import Leaf
from eventide.migration.tableside import Step, steps

_MARKS = """CREATE TABLE IF NOT EXISTS eventide_migration_steps (
    migration TEXT NOT NULL, tablename TEXT NOT NULL, step TEXT NOT NULL, PRIMARY KEY (migration, tablename, step))"""
_MARK = "INSERT INTO eventide_migration_steps (migration, tablename, step) VALUES ({0}, {0}, {0}) ON CONFLICT DO NOTHING"


class TableRefused(EventideError):
    """A step that may not run yet, or that the database did not take."""


class Database(Protocol):
    """A connection, whichever database it goes to."""

    dialect: str
    mark: str

    def columns(self, table: str) -> list[str]:
        """The columns of a table, in order."""

    def transaction(self) -> Any:
        """All or nothing."""

    def run(self, statement: str, values: Sequence[Any] = ()) -> tuple[list[Any], int]:
        """Rows and the number of rows changed."""


class Sqlite:
    """A SQLite file."""

    dialect, mark = "sqlite", "?"

    def __init__(self, path: str) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)

    def columns(self, table: str) -> list[str]:
        """The columns of a table, in order."""
        return [str(r[0]) for r in self.connection.execute("SELECT name FROM pragma_table_info(?)", (table,))]

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

    dialect, mark = "postgresql", "%s"

    def __init__(self, url: str) -> None:
        import psycopg

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
        return Sqlite(url.removeprefix("sqlite:///"))
    if url.startswith(("postgresql://", "postgres://")):
        return Postgres(url)
    raise PlanRefused(f"{url!r} is no database; give sqlite:///FILE or postgresql://USER@HOST/DATABASE.")


def planned(database: Database, migration: Migration, table: str, leaves: Mapping[str, Leaf]) -> list[tuple[Step, bool]]:
    """The steps of a table, each with whether it has been done."""
    database.run(_MARKS)
    done = _done(database, migration, table)
    listed = steps(migration, table, database.columns(table), leaves, database.dialect)
    return [(step, step.name in done) for step in listed]


def run_next(
    database: Database, migration: Migration, table: str, leaves: Mapping[str, Leaf], *, upto: str | None = None
) -> list[str]:
    """Run what is not done yet, in order, as far as the migration's phase allows; gives the names of the steps run.

    Raises:
        TableRefused: `upto` names a step that must wait.
    """
    ran = []
    for step, done in planned(database, migration, table, leaves):
        if done:
            continue
        if migration.phase.is_before(step.earliest) or migration.phase is Phase.ABORTED:
            if upto is not None:
                raise TableRefused(
                    f"{upto!r} must wait: {step.name!r} may run from {step.earliest} on, and {migration.name} is in "
                    f"{migration.phase}. `eventide migrate status {migration.name}` shows what that waits for."
                )
            break
        _run(database, migration, table, step)
        ran.append(step.name)
        if step.name == upto:
            break
    return ran


def _run(database: Database, migration: Migration, table: str, step: Step) -> None:
    if step.repeats:
        while True:  # in small transactions, so that nobody waits long for a lock and a crash costs little
            with database.transaction():
                _, changed = database.run(step.statement)
            if changed <= 0:
                break
    with database.transaction():
        if not step.repeats and not _stands(database, table, step):
            database.run(step.statement)
        database.run(_MARK.format(database.mark), (migration.name, table, step.name))


def _stands(database: Database, table: str, step: Step) -> bool:
    """Was the same thing done by hand before?"""
    what, _, name = step.name.partition(" ")
    has = name in database.columns(table)
    return has if what == "add" else not has if what == "drop" else False


def _done(database: Database, migration: Migration, table: str) -> set[str]:
    rows, _ = database.run(
        f"SELECT step FROM eventide_migration_steps WHERE migration = {database.mark} AND tablename = {database.mark}",
        (migration.name, table),
    )
    return {str(r[0]) for r in rows}
