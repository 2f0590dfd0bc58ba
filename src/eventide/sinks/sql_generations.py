"""Which generation stands in a database, of which shape and in which table; and how an older one is withdrawn or replaced there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from eventide.errors import TargetMismatch
from eventide.sinks.base import Delivery, Held, Span
from eventide.sinks.shape import PaneShape
from eventide.sinks.sql_target import reader_view
from eventide.sinks.target import Target, panes_table

if TYPE_CHECKING:
    from eventide.sinks.sql import Database, SqlWriter

Result = TypeVar("Result")
_COLUMNS = [("name", pa.string()), ("generation", pa.int64()), ("signature", pa.string()), ("target", pa.string())]
RECORDS = Target(
    "eventide_generations", pa.schema([pa.field(n, k, nullable=False) for n, k in _COLUMNS]), ("name", "generation")
)
"""One row for each generation that wrote an output's results; the newest says which table the view reads."""

EPOCH, MICRO = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
FIRST, LAST = (datetime.min.replace(tzinfo=UTC) - EPOCH) // MICRO, (datetime.max.replace(tzinfo=UTC) - EPOCH) // MICRO


@dataclass(frozen=True)
class Record(Held):
    """What stands, and the table that it stands in."""

    target: str


def newest(database: Database, connection: Any, name: str) -> Record | None:
    """The newest generation of an output that is on record."""
    if not database.columns(connection, RECORDS.name):
        return None
    columns = ", ".join(database.quote(column) for column in RECORDS.columns.names)
    rows = database.rows(connection, f"select {columns} from {database.read_from(RECORDS.name)}")
    found = [Record(int(generation), str(signature), str(target)) for of, generation, signature, target in rows if of == name]
    return max(found, key=lambda record: record.generation, default=None)


def held(database: Database, connection: Any, name: str, shape: PaneShape) -> Held | None:
    """What stands; of a table that nobody noted, the highest generation in it."""
    record = newest(database, connection, name)
    have = {} if record else database.columns(connection, panes_table(name))
    column = next((c for c in (shape.meta("generation"), "generation", "_generation") if c in have), None)
    if record or column is None:
        return Held(record.generation, record.signature) if record else None
    query = f"select max({database.quote(column)}), count(*) from {database.located(panes_table(name))}"
    (highest, count) = database.rows(connection, query)[0]
    return Held(int(highest), "") if int(count) else None


def table_of(name: str, shape: PaneShape, record: Record | None) -> Target:
    """The table that the view reads."""
    target = Target.of_panes(name, shape)
    return replace(target, name=record.target) if record else target


def view_of(database: Database, target: Target, shape: PaneShape) -> str:
    """The select behind the view."""
    return reader_view(shape, database.read_from(target.name), database.quote, database.shown, database.added)


def note(database: Database, connection: Any, name: str, shape: PaneShape, generation: int, target: str) -> None:
    """Write down a generation, unless it is there."""
    if not database.columns(connection, RECORDS.name):
        made = database.create_table(RECORDS).replace("create table", "create table if not exists", 1)
        database.execute(connection, made)
    row = {"name": [name], "generation": [generation], "signature": [shape.signature], "target": [target]}
    database.write(connection, RECORDS, pa.table(row, schema=RECORDS.columns))


def outdated(database: Database, shape: PaneShape, generation: int, span: Span) -> str | None:
    """The condition of results that a generation withdraws; None if there can be none."""
    column = {name: database.quote(shape.meta(name)) for name in ("op", "generation", "window_start", "window_end")}
    parts = [f"{column['op']} = 'insert'", f"{column['generation']} < {int(generation)}"]
    # Dates have a first and a last year; what lies beyond them bounds everything, or nothing.
    if (span.low is not None and span.low > LAST) or (span.high is not None and span.high < FIRST):
        return None
    if span.low is not None and span.low >= FIRST:
        parts.append(f"{column['window_start']} >= {database.instant(span.low)}")
    if span.high is not None and span.high <= LAST:
        parts.append(f"{column['window_end']} <= {database.instant(span.high)}")
    return " and ".join(parts)


CORRECTIONS = ("_corrections", *(f"_corrections_by_{by}" for by in ("minute", "hour", "day")))
"""The endings of the tables in which a reconciliation keeps what to add to an output's windows."""


def switch(database: Database, connection: Any, name: str, shape: PaneShape, generation: int, target: str, select: str) -> None:
    """Let the view read another table, and write down that it does."""
    if database.columns(connection, name) and not database.is_view(connection, name):
        raise TargetMismatch(f"{name!r} is a table; the output needs that name for its view. Rename that table.")
    database.replace_view(connection, name, select)
    for table in (f"{name}{ending}" for ending in CORRECTIONS):
        if database.columns(connection, table):  # they correct windows that are gone
            database.execute(connection, f"delete from {database.located(table)}")
    note(database, connection, name, shape, generation, target)


class KeepsGenerations:
    """What a sink into a SQL database does about generations."""

    table: str | None

    def database(self) -> Database:
        """The database behind this sink."""
        raise NotImplementedError

    def writer(self, database: Database, target: Target, shape: PaneShape | None) -> SqlWriter:
        """The writer for this kind of database."""
        raise NotImplementedError

    def _once(self, shape: PaneShape, name: str, action: Callable[[Database, Any], Result]) -> Result:
        """Do one thing in a transaction of its own."""
        database = self.database()
        writer = self.writer(database, Target.of_panes(name, shape), shape)
        try:
            return writer.run(lambda connection: action(database, connection))
        finally:
            writer.close()

    def held(self, output: str, shape: PaneShape) -> Held | None:
        """From the table `eventide_generations`, or from the panes themselves where nobody noted them."""
        name = self.table or output
        return self._once(shape, name, lambda database, connection: held(database, connection, name, shape))

    def claim(self, output: str, shape: PaneShape, generation: int) -> None:
        """Note the generation beside the table that it writes to."""
        name = self.table or output

        def claimed(database: Database, connection: Any) -> None:
            target = table_of(name, shape, newest(database, connection, name))
            note(database, connection, name, shape, generation, target.name)

        self._once(shape, name, claimed)

    def withdraw(self, output: str, shape: PaneShape, generation: int, span: Span) -> bool:
        """Older results inside the span become tombstones, in one transaction."""
        name = self.table or output

        def withdrawn(database: Database, connection: Any) -> bool:
            target = table_of(name, shape, newest(database, connection, name))
            condition = outdated(database, shape, generation, span)
            if condition is not None:
                database.withdraw(connection, target, shape, condition)
            later = outdated(database, shape, generation, Span(span.low))
            count = f"select count(*) from {database.read_from(target.name)} where {later}"
            return later is not None and int(database.rows(connection, count)[0][0]) > 0

        return self._once(shape, name, withdrawn)

    def replace(
        self, output: str, shape: PaneShape, generation: int, panes: Iterable[pa.RecordBatch], delivery: Delivery
    ) -> None:
        """Fill a table of its own, then let the view read that one; the older table stays, for whoever wants it, until it is dropped."""
        database, name = self.database(), self.table or output
        target = replace(Target.of_panes(name, shape), name=panes_table(name, generation))
        writer = self.writer(database, target, shape)

        def begun(connection: Any) -> bool:
            record = newest(database, connection, name)
            if record and record.target == target.name:
                return False
            database.execute(connection, f"drop table if exists {database.located(target.name)}")
            database.execute(connection, database.create_table(target))
            return True

        try:
            if writer.run(begun):
                for batch in panes:
                    writer.deliver([batch], delivery)
                select = view_of(database, target, shape)
                writer.run(lambda connection: switch(database, connection, name, shape, generation, target.name, select))
        finally:
            writer.close()
