"""The registry in one SQLite file, write-ahead logged and synced at every commit."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from eventide.registry.store.base import StoreUnavailable
from eventide.registry.store.session import Session
from eventide.registry.store.tables import TABLES
from eventide.registry.store.transaction import Row, Statement, Transaction

_GUARDS = {
    "update": "BEFORE UPDATE ON audit",
    "delete": "BEFORE DELETE ON audit",
    # INSERT OR REPLACE removes a row without asking the triggers for DELETE.
    "replace": "BEFORE INSERT ON audit WHEN EXISTS (SELECT 1 FROM audit WHERE seq = NEW.seq)",
}
_GUARD = "CREATE TRIGGER IF NOT EXISTS audit_no_{what} {when} BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END"


class SqliteStore:
    """A registry in a file. Processes on the same machine may share it; only one writes at a time."""

    speaks_cheaply = True

    def __init__(self, path: Path, *, busy_seconds: float = 20.0) -> None:
        self._path = path
        self._busy_seconds = busy_seconds
        self._connections: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._mine = threading.local()
        self._revision_seen: tuple[int, int] | None = None
        path.parent.mkdir(parents=True, exist_ok=True)
        with _translated():
            connection = self._connection()
            connection.execute("PRAGMA journal_mode = WAL")
            with self.write() as session:
                for statement in TABLES:
                    session._run(statement.format(big="INTEGER"), ())
                if "hash" not in [column[1] for column in session._run("PRAGMA table_info(audit)", ())]:
                    for what in _GUARDS:
                        session._run(f"DROP TRIGGER IF EXISTS audit_no_{what}", ())
                    session._run("ALTER TABLE audit ADD COLUMN hash TEXT NOT NULL DEFAULT ''", ())
                    session.chain_older_lines()
                for what, when in _GUARDS.items():
                    session._run(_GUARD.format(what=what, when=when), ())

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._mine, "connection", None)
        if connection is None:
            connection = sqlite3.connect(self._path, timeout=self._busy_seconds, isolation_level=None, check_same_thread=False)
            # FULL, not NORMAL: what was acknowledged must outlive a power cut, not only a crash of this process.
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA cache_size = -32000")
            connection.execute("PRAGMA wal_autocheckpoint = 4000")
            self._mine.connection = connection
            with self._lock:
                self._connections.append(connection)
        return connection

    @contextmanager
    def read(self) -> Iterator[Session]:
        """One consistent view of everything, for the calling thread."""
        with _translated(), self._transaction("BEGIN") as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """The only writer; waits for another process to finish, commits at the end."""
        with _translated(), self._transaction("BEGIN IMMEDIATE") as session:
            yield session
            session.finish()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Session]:
        connection = self._connection()

        def ask(statements: Sequence[Statement]) -> list[list[Row]]:
            return [connection.execute(statement, values).fetchall() for statement, values in statements]

        connection.execute(begin)
        try:
            yield Session(Transaction(ask))
        except BaseException:
            connection.rollback()
            raise
        connection.commit()

    def revision(self) -> int:
        """A number that changes whenever something already readable by id was deleted or replaced."""
        with _translated():
            connection = self._connection()
            data_version = int(connection.execute("PRAGMA data_version").fetchone()[0])
            seen = self._revision_seen
            if seen is None or seen[0] != data_version:
                row = connection.execute("SELECT value FROM facts WHERE name = 'revision'").fetchone()
                seen = self._revision_seen = (data_version, int(row[0]))
            return seen[1]

    def close(self) -> None:
        """Close every connection; the last one folds the log into the file."""
        with self._lock:
            for connection in self._connections:
                with suppress(sqlite3.Error):
                    connection.close()
            self._connections.clear()
        self._mine = threading.local()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (sqlite3.OperationalError, sqlite3.DatabaseError) as error:
        if isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError):
            raise
        raise StoreUnavailable(str(error)) from error
