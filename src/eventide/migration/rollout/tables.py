"""The tables of the migrations, in the registry's own database, inside one of its transactions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from eventide.migration.rollout.consumer import Consumer
from eventide.migration.rollout.facts import DriftFacts, RetentionFacts
from eventide.migration.rollout.migration import Migration
from eventide.registry.store import Session

KINDS = ("agree", "neither", "old_only", "new_only", "differ")
KEPT_EXAMPLES = 100
"""How many counterexamples a migration keeps; the first ones, because they are the closest to the cause."""

TABLES = (
    """CREATE TABLE IF NOT EXISTS migrations (
        name TEXT PRIMARY KEY, subject TEXT NOT NULL, phase TEXT NOT NULL, body TEXT NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS migrations_subject ON migrations (subject)",
    """CREATE TABLE IF NOT EXISTS migration_consumers (
        migration TEXT NOT NULL, name TEXT NOT NULL, environment TEXT NOT NULL, body TEXT NOT NULL,
        PRIMARY KEY (migration, name, environment))""",
    # Which columns a client was seen to select, whatever migrations there are.
    """CREATE TABLE IF NOT EXISTS selections (
        subject TEXT NOT NULL, client TEXT NOT NULL, environment TEXT NOT NULL, path TEXT NOT NULL,
        last_seen BIGINT NOT NULL, PRIMARY KEY (subject, client, environment, path))""",
    # One row per place that checks; `batch` is the last that was counted, so that a repeated report changes nothing.
    """CREATE TABLE IF NOT EXISTS migration_drift (
        migration TEXT NOT NULL, source TEXT NOT NULL, batch BIGINT NOT NULL,
        agree BIGINT NOT NULL, neither BIGINT NOT NULL, old_only BIGINT NOT NULL, new_only BIGINT NOT NULL,
        differ BIGINT NOT NULL, last_at BIGINT, last_drift_at BIGINT, last_old_at BIGINT, scanned_at BIGINT,
        PRIMARY KEY (migration, source))""",
    """CREATE TABLE IF NOT EXISTS migration_examples (
        migration TEXT NOT NULL, place BIGINT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (migration, place))""",
)


class MigrationTables:
    """Every question and every change that the migrations have for the database."""

    def __init__(self, session: Session) -> None:
        self._run = session._run

    def make(self) -> None:
        """Make the tables, if they are not there yet."""
        for statement in TABLES:
            self._run(statement, ())

    def migration(self, name: str) -> Migration | None:
        """One migration, or none of that name."""
        rows = self._run("SELECT body FROM migrations WHERE name = ?", (name,))
        return Migration.from_json(json.loads(rows[0][0])) if rows else None

    def migrations(self, subject: str | None = None) -> list[Migration]:
        """All migrations, or those of a subject, by name."""
        if subject is not None and (subject,) not in map(tuple, self._run("SELECT DISTINCT subject FROM migrations", ())):
            return []  # the same question for every subject is asked once in a transaction
        where, values = ("WHERE subject = ?", (subject,)) if subject is not None else ("", ())
        rows = self._run(f"SELECT body FROM migrations {where} ORDER BY name", values)
        return [Migration.from_json(json.loads(r[0])) for r in rows]

    def put_migration(self, migration: Migration) -> None:
        """Write a migration down, new or changed."""
        self._run(
            "INSERT INTO migrations (name, subject, phase, body) VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET "
            "subject = excluded.subject, phase = excluded.phase, body = excluded.body",
            (migration.name, migration.subject, migration.phase.value, json.dumps(migration.as_json())),
        )

    def consumers(self, migration: str) -> list[Consumer]:
        """The declared consumers, by name."""
        rows = self._run("SELECT body FROM migration_consumers WHERE migration = ? ORDER BY name, environment", (migration,))
        return [Consumer.from_json(json.loads(r[0])) for r in rows]

    def put_consumer(self, migration: str, consumer: Consumer) -> None:
        """Write a consumer down, new or changed."""
        self._run(
            "INSERT INTO migration_consumers (migration, name, environment, body) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (migration, name, environment) DO UPDATE SET body = excluded.body",
            (migration, consumer.name, consumer.environment, json.dumps(consumer.as_json())),
        )

    def selections(self, subject: str) -> list[tuple[str, str, str, int]]:
        """Client, environment, path and when last, for every column that was seen to be selected."""
        rows = self._run("SELECT client, environment, path, last_seen FROM selections WHERE subject = ?", (subject,))
        return [(str(r[0]), str(r[1]), str(r[2]), int(r[3])) for r in rows]

    def put_selection(self, subject: str, client: str, environment: str, path: str, at: int) -> None:
        """Write down that a client selected a column."""
        self._run(
            "INSERT INTO selections (subject, client, environment, path, last_seen) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (subject, client, environment, path) DO UPDATE SET last_seen = "
            "CASE WHEN excluded.last_seen > selections.last_seen THEN excluded.last_seen ELSE selections.last_seen END",
            (subject, client, environment, path, at),
        )

    def last_batch(self, migration: str, source: str) -> int | None:
        """The last batch of a source that was counted."""
        rows = self._run("SELECT batch FROM migration_drift WHERE migration = ? AND source = ?", (migration, source))
        return int(rows[0][0]) if rows else None

    def add_drift(self, migration: str, source: str, batch: int, counts: dict[str, int], at: int, scanned: bool) -> None:
        """Add a batch to what a source has found."""
        drifted = counts["old_only"] + counts["new_only"] + counts["differ"]
        marks = (at if drifted else None, at if counts["old_only"] else None, at if scanned else None)
        sums = ", ".join(f"{k} = migration_drift.{k} + excluded.{k}" for k in KINDS)
        latest = ", ".join(
            f"{k} = COALESCE(excluded.{k}, migration_drift.{k})" for k in ("last_drift_at", "last_old_at", "scanned_at")
        )
        self._run(
            f"INSERT INTO migration_drift (migration, source, batch, {', '.join(KINDS)}, last_at, last_drift_at, "
            "last_old_at, scanned_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (migration, source) DO UPDATE SET batch = excluded.batch, last_at = excluded.last_at, "
            f"{sums}, {latest}",
            (migration, source, batch, *(counts[k] for k in KINDS), at, *marks),
        )

    def forget_drift(self, migration: str) -> None:
        """Begin to count anew; which batches were counted is kept."""
        zero = ", ".join(f"{k} = 0" for k in KINDS)
        marks = "last_at = NULL, last_drift_at = NULL, last_old_at = NULL, scanned_at = NULL"
        self._run(f"UPDATE migration_drift SET {zero}, {marks} WHERE migration = ?", (migration,))
        self._run("DELETE FROM migration_examples WHERE migration = ?", (migration,))

    def drift(self, migration: str) -> tuple[DriftFacts, RetentionFacts]:
        """What all sources have found together."""
        sums = ", ".join(f"COALESCE(SUM({k}), 0)" for k in KINDS)
        rows = self._run(
            f"SELECT {sums}, MAX(last_at), MAX(last_drift_at), MAX(last_old_at), MAX(scanned_at) "
            "FROM migration_drift WHERE migration = ?",
            (migration,),
        )
        row: Sequence[Any] = rows[0]
        marks = [None if m is None else int(m) for m in row[5:]]
        counts = DriftFacts(*map(int, row[:5]), *marks[:2])
        return counts, RetentionFacts(last_old_record_at=marks[2], scanned_at=marks[3])

    def examples(self, migration: str) -> list[Any]:
        """The counterexamples that were kept, the first first."""
        rows = self._run("SELECT body FROM migration_examples WHERE migration = ? ORDER BY place", (migration,))
        return [json.loads(r[0]) for r in rows]

    def add_examples(self, migration: str, examples: Sequence[Any]) -> None:
        """Keep counterexamples, as far as there is room."""
        rows = self._run("SELECT COUNT(*) FROM migration_examples WHERE migration = ?", (migration,))
        place = int(rows[0][0])
        for example in examples[: max(KEPT_EXAMPLES - place, 0)]:
            self._run("INSERT INTO migration_examples VALUES (?, ?, ?)", (migration, place, json.dumps(example)))
            place += 1
