"""PostgreSQL: binary COPY into a staging table, then one upsert by rank; parts may come from many executors at once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.types as kinds

from eventide.errors import SinkError, SinkRefused, SinkUnavailable, StagedPartsLost
from eventide.redaction import masked, without_secrets
from eventide.sinks import plain
from eventide.sinks.base import Capabilities, Delivery
from eventide.sinks.kinds import postgres_copy
from eventide.sinks.libraries import need
from eventide.sinks.retry import Retry
from eventide.sinks.shape import PaneShape
from eventide.sinks.sql import CORRECTED, Database, SqlSink, SqlWriter, drop_view
from eventide.sinks.sql_target import merge, names
from eventide.sinks.target import Target

TRANSIENT = ("08", "40", "53", "55", "57", "58", "23505")
"""SQLSTATEs that may pass: connection, rollback, resources (a full disk), locks, shutdown, system; and a duplicate key,
which MERGE meets only when another writer put the same window in at the same moment."""
PARALLEL_FROM = 200_000
TYPES = {
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.binary(): "bytea",
    pa.large_binary(): "bytea",
}


@dataclass(frozen=True)
class PostgresDatabase(Database):
    """Nested values are jsonb, decimals numeric, instants timestamptz."""

    dsn: str
    schema: str | None = None
    patience: float = Retry().give_up_after
    """Seconds after which a lock, a statement or a dead network counts as unavailable; settings of the dsn's own stay."""
    longest_name: ClassVar[int] = 63

    def connect(self) -> Any:
        """Statements commit only where we say so (`begin`, `commit`)."""
        psycopg = need("psycopg", "postgres")
        limit = {"tcp_user_timeout": self.limit, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
        given = psycopg.conninfo.conninfo_to_dict(self.dsn)
        ours = {name: value for name, value in limit.items() if name not in given}
        connection = psycopg.connect(self.dsn, autocommit=True, connect_timeout=10, application_name="eventide", **ours)
        for name in ("lock_timeout", "statement_timeout"):
            connection.execute(f"select set_config('{name}', %s, false) where {_setting(name)} = 0", (str(self.limit),))
        return connection

    @property
    def limit(self) -> int:
        """The patience in milliseconds; a second at least, so that one that never tries again can still wait for an answer."""
        return max(1000, int(self.patience * 1000))

    def allow(self, connection: Any, rows: int) -> None:
        """More time for the statements of a large delivery: a server that brings in 1,000 rows a second is slow, not gone."""
        query = f"select set_config('statement_timeout', %s, true) where {_setting('statement_timeout')} = %s"
        connection.execute(query, (str(self.limit + rows), self.limit))

    def type_of(self, kind: pa.DataType) -> str:
        """In the words of format_type()."""
        if kinds.is_timestamp(kind):
            return "timestamp with time zone" if kind.tz else "timestamp without time zone"
        if kinds.is_decimal(kind):
            return f"numeric({kind.precision},{kind.scale})"
        if kinds.is_time(kind):
            return "time without time zone"
        return "jsonb" if plain.is_nested(kind) else TYPES.get(kind, "text")

    def declared(self, target: Target, field: Any) -> str:
        """Texts of the key compare as bytes: much faster than by a language's rules, and rank needs no other order."""
        kind = self.type_of(field.type)
        return f'{kind} collate "C"' if kind == "text" and field.name in (*target.identity, *target.rank) else kind

    def located(self, table: str) -> str:
        """In the schema that was named, or where the search path leads."""
        return f"{self.quote(self.schema)}.{self.quote(table)}" if self.schema else self.quote(table)

    def columns(self, connection: Any, table: str) -> dict[str, str]:
        query = (
            "select attname, format_type(atttypid, atttypmod) from pg_attribute "
            "where attrelid = to_regclass(%s) and attnum > 0 and not attisdropped order by attnum"
        )
        return dict(connection.execute(query, (self.located(table),)).fetchall())

    def is_view(self, connection: Any, name: str) -> bool:
        found = connection.execute("select relkind = 'v' from pg_class where oid = to_regclass(%s)", (self.located(name),))
        return bool((found.fetchone() or (False,))[0])

    def table_options(self) -> str:
        """Room in each page for every corrected row, which then needs no new index entry (measured: 1.5 x faster)."""
        return " with (fillfactor = 50)"

    def staging_columns(self, target: Target) -> str:
        """The columns of a staging table: what COPY cannot encode comes as text, and is cast when it is applied."""
        staged = {f.name: "text" if self.casts(f.type) else self.declared(target, f) for f in target.columns}
        return ", ".join(f"{self.quote(name)} {kind}" for name, kind in staged.items())

    def casts(self, kind: pa.DataType) -> bool:
        """Whether values of this kind are staged as text."""
        return kinds.is_decimal(kind) or plain.is_nested(kind)

    def fill(self, connection: Any, staging: str, target: Target, rows: pa.Table) -> int:
        """COPY rows into a staging table."""
        order = target.columns.names
        statement = f"copy {staging} ({names(order, self.quote)}) from stdin (format binary)"
        with connection.cursor().copy(statement) as copy:
            copy.write(postgres_copy.HEADER)
            for encoded in postgres_copy.encode(rows, order):
                copy.write(memoryview(encoded))
            copy.write(postgres_copy.TRAILER)
        return rows.num_rows

    def apply(self, connection: Any, target: Target, source: str, distinct: str = "") -> None:
        """One MERGE from what was staged; measured against ON CONFLICT it writes less log and is a fifth faster."""
        cast = [
            f"{self.quote(f.name)}::{self.type_of(f.type)} as {self.quote(f.name)}"
            if self.casts(f.type)
            else self.quote(f.name)
            for f in target.columns
        ]
        select = f"select {distinct} {', '.join(cast)} from {source}"
        if distinct:
            order = [names(target.identity, self.quote), *(f"{self.quote(name)} desc" for name in target.rank)]
            select += f" order by {', '.join(order)}"
        connection.execute("set local work_mem = '128MB'")
        connection.execute(merge(target, self.located(target.name), select, self.quote))

    def write(self, connection: Any, target: Target, rows: pa.Table) -> None:
        """Through a temporary table that goes with the transaction."""
        self.allow(connection, rows.num_rows)
        connection.execute(f"create temporary table eventide_staged ({self.staging_columns(target)}) on commit drop")
        self.fill(connection, "eventide_staged", target, rows)
        # Panes come reduced to one per identity; rows of a log may repeat one.
        distinct = "" if target.rank else f"distinct on ({names(target.identity, self.quote)})"
        self.apply(connection, target, "eventide_staged", distinct)

    def apply_parts(self, connection: Any, target: Target, staged: list[str]) -> None:
        """The highest rank per identity over the tables of many parts."""
        union = " union all ".join(f"select * from {table}" for table in staged)
        self.apply(connection, target, f"({union}) as staged", f"distinct on ({names(target.identity, self.quote)})")

    def replace_view(self, connection: Any, name: str, select: str) -> None:
        """In place where its columns stay, so that rights and views upon it stay too; otherwise anew."""
        drop_view(self, connection, f"{name}{CORRECTED}")
        connection.execute("savepoint eventide_view")
        try:
            connection.execute(f"create or replace view {self.located(name)} as {select}")
        except need("psycopg", "postgres").errors.InvalidTableDefinition:
            connection.execute("rollback to savepoint eventide_view")
            super().replace_view(connection, name, select)

    def error(self, cause: Exception) -> SinkError:
        """By SQLSTATE; a connection that was never made has none, and says it in words."""
        said = masked(str(cause)).strip()
        state = getattr(cause, "sqlstate", None)
        where = f"PostgreSQL at {masked(self.dsn)}"
        if "password authentication failed" in said or "no password supplied" in said or state in ("28P01", "28000"):
            return SinkRefused(f"{where}: wrong user name or password ({said})")
        if state is None and type(cause).__name__ == "OperationalError":
            permanent = re.search(r'(database|role) ".*" does not exist|no pg_hba.conf entry', said)
            return SinkRefused(f"{where}: {said}") if permanent else SinkUnavailable(f"{where}: {said}")
        if state and state.startswith(TRANSIENT):
            return SinkUnavailable(f"{where}: {said} (SQLSTATE {state}); the transaction was rolled back, nothing was applied")
        if state == "22P05" or (state == "22021" and "0x00" in said):
            place = getattr(getattr(cause, "diag", None), "context", None)
            said = f"{said}{f' ({masked(place)})' if place else ''}. It keeps no zero byte in a text: take it out in a .map(…) of the source and run again"
            return SinkRefused(f"{where}: {said}; nothing of this delivery was applied")
        if state == "54000" and "index row" in said:
            said = (
                f"{said.splitlines()[0]}. The keys of a window are part of its window_id, by which rows are found. Shorten them in a .map(…) of the "
                "source, by a hash of what is long, and run again"
            )
            return SinkRefused(f"{where}: {said}; nothing of this delivery was applied")
        return SinkRefused(f"{where}: {said}" + (f" (SQLSTATE {state})" if state else ""))


class PostgresWriter(SqlWriter):
    """A writer whose parts may also be staged from executors, in parallel, and applied together."""

    database: PostgresDatabase

    def __init__(
        self, database: Database, target: Target, retry: Retry, shape: PaneShape | None, parallel_from: int = PARALLEL_FROM
    ) -> None:
        super().__init__(database, target, retry, shape)
        self.parallel_from = parallel_from

    @property
    def staged_prefix(self) -> str:
        """How the names of this target's staging tables begin."""
        return f"eventide_staged_{_digest(self.database.located(self.target.name), 8)}_"

    def clear_staged(self) -> None:
        """Drop what a run that died had staged; its batch stages it again."""

        def clear(connection: Any) -> None:
            query = "select oid::regclass::text from pg_class where relkind = 'r' and starts_with(relname, %s)"
            for (table,) in connection.execute(query, (self.staged_prefix,)).fetchall():
                connection.execute(f"drop table if exists {table}")

        self.run(clear)

    def stage(self, part: str, panes: Iterable[pa.RecordBatch], delivery: Delivery) -> str:
        """COPY one part into an unlogged table of its own; an earlier try of the same part is replaced."""
        rows = self.gathered(panes)
        name = self.staged_prefix + _digest(f"{delivery.pipeline}\0{delivery.output}\0{delivery.batch}\0{part}", 24)
        table = self.database.located(name)

        def bring(connection: Any) -> int:
            self.database.allow(connection, rows.num_rows)
            connection.execute(f"drop table if exists {table}")
            connection.execute(f"create unlogged table {table} ({self.database.staging_columns(self.target)})")
            return self.database.fill(connection, table, self.target, rows)

        try:
            return f"{name}:{self.run(bring)}"
        finally:
            self.close()

    def deliver_staged(self, tokens: list[str], delivery: Delivery) -> None:
        """Apply all parts in one transaction and drop them; called again after that, it finds the parts lost."""
        counts = {self.database.located(name): int(rows) for name, _, rows in (token.partition(":") for token in tokens)}

        def apply(connection: Any) -> list[str]:
            # An unlogged table is emptied when the server crashes; a run that begins clears what an earlier one staged.
            self.database.allow(connection, sum(counts.values()))
            lost = [table for table, rows in counts.items() if _count(connection, table) != rows]
            if not lost:
                self.database.apply_parts(connection, self.target, list(counts))
                connection.execute(f"drop table {', '.join(counts)}")
            return lost

        if counts and (lost := self.run(apply)):
            raise StagedPartsLost(f"{len(lost)} of {len(counts)} staged parts are lost: the batch must be staged again")


def _digest(text: str, length: int) -> str:
    """A short name for a long one."""
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def _setting(name: str) -> str:
    """A time-out in milliseconds, as the session has it; 0 is none."""
    return f"(select setting::bigint from pg_settings where name = '{name}')"


def _count(connection: Any, table: str) -> int:
    """The rows of a table; -1 if there is none."""
    there = connection.execute("select to_regclass(%s)", (table,)).fetchone()[0]
    return int(connection.execute(f"select count(*) from {table}").fetchone()[0]) if there else -1


@without_secrets
@dataclass(frozen=True)
class PostgresSink(SqlSink):
    """Panes into PostgreSQL."""

    dsn: str = field(repr=False)
    table: str | None = None
    schema: str | None = None
    retry: Retry = field(default=Retry(), repr=False)
    parallel_from: int = field(default=PARALLEL_FROM, repr=False)

    def __repr__(self) -> str:
        return f"postgres({masked(self.dsn)!r}, table={self.table!r}, schema={self.schema!r})"

    @property
    def capabilities(self) -> Capabilities:
        """As every SQL sink, and from many executors at once."""
        return replace(super().capabilities, parallel=True)

    def database(self) -> PostgresDatabase:
        return PostgresDatabase(self.dsn, self.schema, self.retry.give_up_after)

    def open(self, output: str, shape: PaneShape) -> SqlWriter:
        """As every SQL sink, and without what an earlier run left half done."""
        writer = super().open(output, shape)
        if isinstance(writer, PostgresWriter):
            writer.clear_staged()
        return writer

    def writer(self, database: Database, target: Target, shape: PaneShape | None) -> SqlWriter:
        """One that can be staged from executors."""
        return PostgresWriter(database, target, self.retry, shape, self.parallel_from)


def postgres(
    dsn: str,
    table: str | None = None,
    schema: str | None = None,
    *,
    retry: Retry | None = None,
    parallel_from: int = PARALLEL_FROM,
) -> PostgresSink:
    """Results into PostgreSQL; read the view named like the output (or `table`).

    A delivery of `parallel_from` panes or more is brought there by the executors, each over a connection of its own.

    >>> postgres("postgresql://me:secret@db/sales")
    postgres('postgresql://me:***@db/sales', table=None, schema=None)
    """
    return PostgresSink(dsn, table, schema, retry or Retry(), parallel_from)
