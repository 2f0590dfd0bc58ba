"""ClickHouse: ReplacingMergeTree keeps the row of the highest rank; a server over HTTP, or chdb in this process."""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import pyarrow as pa
import pyarrow.types as kinds

from eventide.errors import DefinitionError, SinkError, SinkRefused, SinkUnavailable
from eventide.redaction import masked, without_secrets
from eventide.sinks.base import Capabilities
from eventide.sinks.libraries import need
from eventide.sinks.ranked import first_of_each
from eventide.sinks.retry import Retry
from eventide.sinks.shape import PaneShape
from eventide.sinks.sql import CORRECTED, Database, SqlSink, drop_view
from eventide.sinks.sql_target import names
from eventide.sinks.target import Target

TYPES = {
    pa.int8(): "Int8",
    pa.int16(): "Int16",
    pa.int32(): "Int32",
    pa.int64(): "Int64",
    pa.float32(): "Float32",
    pa.float64(): "Float64",
    pa.bool_(): "Bool",
    pa.date32(): "Date32",
}

TRANSIENT = {3, 159, 160, 164, 202, 203, 209, 210, 241, 242, 243, 252, 279, 319, 425, 999}
"""Codes of errors that may pass: network, time-outs, too many queries or parts, memory, no space left, read-only."""


class Server:
    """A ClickHouse server, over HTTP."""

    def __init__(self, dsn: str) -> None:
        connect = need("clickhouse_connect", "clickhouse")
        self.client = connect.get_client(dsn=dsn, autogenerate_session_id=False)

    def rows(self, statement: str) -> list[list[Any]]:
        """Run a query or a statement."""
        return [list(row) for row in self.client.query(statement).result_rows]

    def insert(self, table: str, rows: pa.Table) -> None:
        """Insert an Arrow table as one block."""
        self.client.insert_arrow(table, rows, settings={"max_insert_block_size": rows.num_rows})

    def close(self) -> None:
        """Let go of the connection."""
        self.client.close()


@functools.lru_cache(maxsize=1)
def session(path: str) -> Any:
    """The one session that chdb has in this process, shared by everyone who names its directory."""
    opened = need("chdb.session", "chdb").Session(path)
    opened.query("create database if not exists eventide")
    opened.query("use eventide")
    return opened


class Embedded:
    """chdb: ClickHouse inside this process, on a directory; one directory at a time."""

    def __init__(self, path: str) -> None:
        self.session = session(path)

    def rows(self, statement: str) -> list[list[Any]]:
        """Run a query or a statement."""
        said = str(self.session.query(statement, "JSONCompact"))
        return list(json.loads(said)["data"]) if said.strip() else []

    def insert(self, table: str, rows: pa.Table) -> None:
        """Insert an Arrow table; chdb finds it by the name of the variable."""
        staged = rows
        columns = ", ".join("`" + name.replace("`", "``") + "`" for name in staged.column_names)
        self.session.query(f"insert into {table} ({columns}) select * from Python(staged)")

    def close(self) -> None:
        """The session stays: others in this process may read through it."""


@dataclass(frozen=True)
class ClickHouseDatabase(Database):
    """Arrays, tuples and maps cannot be null here: a null one is stored empty."""

    dsn: str

    def connect(self) -> Server | Embedded:
        """`chdb:///path` runs inside this process; everything else is a server's address."""
        return Embedded(self.dsn.removeprefix("chdb://")) if self.dsn.startswith("chdb://") else Server(self.dsn)

    def quote(self, name: str) -> str:
        """Backslashes are escapes here, inside quotes too."""
        return super().quote(name.replace("\\", "\\\\"))

    def type_of(self, kind: pa.DataType) -> str:
        """In the words of system.columns."""
        if kinds.is_map(kind):
            return f"Map({self.inner(kind.key_type)}, {self.type_of(kind.item_type)})"
        if kinds.is_struct(kind):
            return f"Tuple({', '.join(f'{_field_name(part.name)} {self.type_of(part.type)}' for part in kind)})"
        if kinds.is_nested(kind):
            return f"Array({self.type_of(cast(Any, kind).value_type)})"
        return f"Nullable({self.inner(kind)})"

    def inner(self, kind: pa.DataType) -> str:
        """A type that cannot be null."""
        if kinds.is_timestamp(kind):
            return f"DateTime64(6, '{kind.tz or 'UTC'}')"
        if kinds.is_decimal(kind):
            return f"Decimal({kind.precision}, {kind.scale})"
        if kinds.is_duration(kind):  # it would be stored as a number of nobody knows what
            raise DefinitionError(f"ClickHouse has no spans of time such as {kind}. Make it whole microseconds in a .map(…).")
        return TYPES.get(kind, "String")

    def columns(self, connection: Any, table: str) -> dict[str, str]:
        """From the catalogue, without the rank that is computed; whether a column can be null is not compared."""
        found = connection.rows(
            "select name, type from system.columns where database = currentDatabase() "
            f"and table = {_literal(table)} and default_kind != 'MATERIALIZED' order by position"
        )
        return dict(found)

    def same_type(self, reported: str, wanted: str) -> bool:
        """Columns of ours are never null, and say so."""
        return reported == wanted or f"Nullable({reported})" == wanted

    def is_view(self, connection: Any, name: str) -> bool:
        where = f"database = currentDatabase() and name = {_literal(name)}"
        return bool(connection.rows(f"select 1 from system.tables where {where} and engine = 'View'"))

    def create_table(self, target: Target) -> str:
        """The rank as one number, which decides the row that stays; of equal ranks the one that came first, as everywhere."""
        columns = [f"{self.quote(f.name)} {self.type_of(f.type) if f.nullable else self.inner(f.type)}" for f in target.columns]
        rank = "toUInt256(0)"
        if target.rank:
            *counted, op = (self.quote(name) for name in target.rank)
            rank = f"toUInt256({op} = 'retract')"
            if counted:
                generation, sequence = counted
                rank = f"bitShiftLeft(toUInt256({generation}), 64) + toUInt256({sequence}) * 2 + {rank}"
        age = "toUInt256(9223372036854775807 - toUnixTimestamp64Nano(now64(9)))"
        columns.append(f"eventide_rank UInt256 materialized bitShiftLeft({rank}, 64) + {age}")
        key = names(target.identity, self.quote)
        engine = f"engine = ReplacingMergeTree(eventide_rank) order by ({key})"
        return f"create table {self.located(target.name)} ({', '.join(columns)}) {engine}"

    def execute(self, connection: Any, statement: str) -> Any:
        """A view reads through FINAL (see `read_from`), and its columns mean the stored ones, not each other."""
        if statement.startswith(("create view", "create or replace view")):
            statement += " settings prefer_column_name_to_alias = 1"
        return connection.rows(statement)

    def distinct(self, table: str, column: str, texts: Iterable[str]) -> str:
        """There are no collations here: keys are bytes."""
        return ""

    def read_from(self, table: str) -> str:
        """Rows that were outranked may still be there until parts are merged; FINAL leaves them out."""
        return f"{self.located(table)} final"

    def rows(self, connection: Any, statement: str) -> list[Any]:
        return list(connection.rows(statement))

    def instant(self, micros: int) -> str:
        """By its number, which needs no parsing."""
        return f"fromUnixTimestamp64Micro(toInt64({int(micros)}), 'UTC')"

    def added(self, function: str, column: str, kind: pa.DataType) -> str:
        """Not a number equals nothing here, itself included, and what it does to a least or greatest value hangs on the order."""
        if function == "sum" or not kinds.is_floating(kind):
            return super().added(function, column, kind)
        number = f"not isNaN({column})"
        return f"if(countIf({number}) > 0, {function}If({column}, {number}), {function}({column}))"

    def withdraw(self, connection: Any, target: Target, shape: PaneShape, condition: str) -> None:
        """Rows are never changed here: the withdrawals go in as rows of a higher rank."""
        op = shape.meta("op")
        columns = names(target.columns.names, self.quote)
        changed = ", ".join("'retract'" if name == op else self.quote(name) for name in target.columns.names)
        chosen = f"select {changed} from {self.read_from(target.name)} where {condition}"
        connection.rows(f"insert into {self.located(target.name)} ({columns}) {chosen}")

    def replace_view(self, connection: Any, name: str, select: str) -> None:
        """In one step: there are no transactions."""
        drop_view(self, connection, f"{name}{CORRECTED}")
        self.execute(connection, f"create or replace view {self.located(name)} as {select}")

    @contextlib.contextmanager
    def transaction(self, connection: Any) -> Iterator[None]:
        """There are none: one insert is one block, and doing it again changes nothing."""
        yield

    def write(self, connection: Any, target: Target, rows: pa.Table) -> None:
        """One insert; the table itself keeps the highest rank. Rows of one insert are of one age, so that an identity comes once."""
        rows = rows if target.rank else first_of_each(rows, target.identity)
        connection.insert(self.located(target.name), rows)

    def error(self, cause: Exception) -> SinkError:
        """Wrong credentials and wrong statements will not pass; the rest may."""
        said = masked(str(cause)).strip()
        where = f"ClickHouse at {masked(self.dsn)}"
        if re.search(r"AUTHENTICATION_FAILED|REQUIRED_PASSWORD|code: (516|194)\b", said):
            return SinkRefused(f"{where}: wrong user name or password")
        code = re.search(r"[Cc]ode:? (\d+)", said)
        passing = code is None or int(code[1]) in TRANSIENT
        return (SinkUnavailable if passing else SinkRefused)(f"{where}: {said[:500]}")


def _literal(value: str) -> str:
    """A text in a statement."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _field_name(name: str) -> str:
    """A tuple's field, quoted only where system.columns would."""
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else "`" + name.replace("`", "\\`") + "`"


@without_secrets
@dataclass(frozen=True)
class ClickHouseSink(SqlSink):
    """Panes into ClickHouse."""

    dsn: str = field(repr=False)
    table: str | None = None
    retry: Retry = field(default=Retry(), repr=False)

    def __repr__(self) -> str:
        return f"clickhouse({masked(self.dsn)!r}, table={self.table!r})"

    @property
    def capabilities(self) -> Capabilities:
        """As the SQL sinks, but ClickHouse has no transactions: a reader may see part of a large delivery."""
        return Capabilities(upsert=True, retract=True, append=True, generations=True)

    def database(self) -> ClickHouseDatabase:
        return ClickHouseDatabase(self.dsn)


def clickhouse(dsn: str, table: str | None = None, *, retry: Retry | None = None) -> ClickHouseSink:
    """Results into ClickHouse; read the view named like the output (or `table`).

    `http://user:password@host:8123/database` is a server; `chdb:///path` is a directory, in this process.

    >>> clickhouse("http://me:secret@ch:8123/sales")
    clickhouse('http://me:***@ch:8123/sales', table=None)
    """
    return ClickHouseSink(dsn, table, retry or Retry())
