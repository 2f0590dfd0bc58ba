"""The registry in a PostgreSQL database, shared by any number of services."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import psycopg

from eventide.registry.store.base import StoreRefused, StoreUnavailable
from eventide.registry.store.session import Session
from eventide.registry.store.tables import TABLES
from eventide.registry.store.transaction import Row, Statement, Transaction

_COMMIT: Statement = ("COMMIT", ())
_ONE_WRITER = 0x45564944  # any number, as long as every service of the database takes the same
_APPEND_ONLY = (
    """CREATE OR REPLACE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'the audit log is append-only'; END $$""",
    """CREATE OR REPLACE TRIGGER audit_append_only BEFORE UPDATE OR DELETE ON audit
        FOR EACH ROW EXECUTE FUNCTION audit_is_append_only()""",
    """CREATE OR REPLACE TRIGGER audit_no_truncate BEFORE TRUNCATE ON audit
        FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only()""",
)
_HAS_CHAIN = "SELECT 1 FROM pg_attribute WHERE attrelid = 'audit'::regclass AND attname = 'hash' AND NOT attisdropped"
_ADD_CHAIN = (
    "DROP TRIGGER IF EXISTS audit_append_only ON audit",
    "ALTER TABLE audit ALTER COLUMN seq DROP IDENTITY IF EXISTS",
    """ALTER TABLE audit ADD COLUMN hash TEXT COLLATE "C" NOT NULL DEFAULT ''""",
)


class PostgresStore:
    """A registry in a database. Writers of all services take turns by an advisory lock."""

    speaks_cheaply = False

    def __init__(self, url: str, *, connect_seconds: int = 10) -> None:
        self._url = url
        self._connect_seconds = connect_seconds
        self._mine = threading.local()
        self._lock = threading.Lock()
        self._connections: list[psycopg.Connection[Any]] = []
        try:
            self._make_tables()
        except psycopg.Error as error:  # what may pass has its own name by now
            raise StoreRefused(f"PostgreSQL does not let the registry in: {str(error).strip()}") from error

    def _make_tables(self) -> None:
        with self.write() as session:
            for statement in TABLES:
                filled = statement.format(big="BIGINT")
                # The order of subjects must not depend on the database's locale.
                session._run(filled.replace(" TEXT", ' TEXT COLLATE "C"'), ())
            if not session._run(_HAS_CHAIN, ()):
                for statement in _ADD_CHAIN:
                    session._run(statement, ())
                session.chain_older_lines()
            for statement in _APPEND_ONLY:
                session._run(statement, ())

    def _connection(self) -> psycopg.Connection[Any]:
        connection: psycopg.Connection[Any] | None = getattr(self._mine, "connection", None)
        if connection is None or connection.closed or connection.broken:
            connection = psycopg.connect(self._url, autocommit=True, connect_timeout=self._connect_seconds, prepare_threshold=2)
            # Plans are made while the tables are small and then kept: every question has its index, so use it.
            connection.execute("SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off")
            self._mine.connection = connection
            with self._lock:
                self._connections = [c for c in self._connections if not c.closed]
                self._connections.append(connection)
        return connection

    @contextmanager
    def read(self) -> Iterator[Session]:
        """One consistent view of everything, for the calling thread."""
        with self._transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") as session:
            yield session
            session.finish(_COMMIT)

    @contextmanager
    def write(self) -> Iterator[Session]:
        """The only writer among all services; waits for its turn, commits at the end."""
        with self._transaction("BEGIN", f"SELECT pg_advisory_xact_lock({_ONE_WRITER})") as session:
            yield session
            session.finish(_COMMIT)

    @contextmanager
    def _transaction(self, *first: str) -> Iterator[Session]:
        try:
            connection = self._connection()

            def ask(statements: Sequence[Statement]) -> list[list[Row]]:
                with connection.pipeline() if len(statements) > 1 else nullcontext():
                    cursors = [_execute(connection, *statement) for statement in statements]
                return [cursor.fetchall() if cursor.description else [] for cursor in cursors]

            try:
                # The beginning waits for the first question, and the end goes with the last change: fewer round trips.
                yield Session(Transaction(ask, [(statement, ()) for statement in first]))
            except psycopg.Error:
                connection.close()  # what it has prepared and what it thinks it has may differ after a pipeline broke off
                raise
            except BaseException:
                with suppress(psycopg.Error):
                    connection.execute("ROLLBACK")
                raise
        except psycopg.OperationalError as error:
            raise StoreUnavailable(str(error).strip()) from error

    def revision(self) -> int:
        """As in `Store`; a round trip to the database."""
        with self.read() as session:
            return int(session.fact("revision") or 0)

    def close(self) -> None:
        """Close every connection."""
        with self._lock:
            for connection in self._connections:
                with suppress(psycopg.Error):
                    connection.close()
            self._connections.clear()


def _execute(connection: psycopg.Connection[Any], statement: str, values: Sequence[Any]) -> psycopg.Cursor[Any]:
    if not values:
        return connection.execute(statement.encode())
    return connection.execute(statement.replace("?", "%s").encode(), values)
