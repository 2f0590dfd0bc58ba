"""The corrections table and the view over it, in the database of the output; each day of windows is one transaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import polars as pl
import pyarrow as pa

from eventide.definition.output import Output
from eventide.errors import DefinitionError
from eventide.reconcile.compare import DAY, adds
from eventide.sinks.sql import CORRECTED, SqlSink, prepare
from eventide.sinks.target import Target

Hook = Callable[[str], None]


@dataclass(frozen=True)
class CorrectionsTable:
    """Where an output's corrections stand."""

    output: Output
    by: str = "window"

    @property
    def sink(self) -> SqlSink:
        """The output's database."""
        sink = self.output.sink
        if not isinstance(sink, SqlSink):
            raise DefinitionError(
                f"output {self.output.name!r} goes to {type(sink).__name__ if sink is not None else 'no sink'}, and corrections need a SQL "
                "database beside it (sqlite, postgres, duckdb). Read them as a DataFrame instead: reconcile(…).corrections."
            )
        return sink

    @property
    def name(self) -> str:
        """The name that readers know."""
        return str(getattr(self.sink, "table", None) or self.output.name)

    @property
    def table(self) -> str:
        """The table of corrections."""
        return f"{self.name}_corrections" + ("" if self.by == "window" else f"_by_{self.by}")

    @property
    def view(self) -> str | None:
        """The view of corrected results."""
        return f"{self.name}{CORRECTED}" if self.by == "window" else None

    def write(self, rows: pa.Table, days: tuple[int | None, int | None], hook: Hook) -> int:
        """Replace the corrections of the days in scope, day by day; gives how many stand there then."""
        database = self.sink.database()
        rows = _with_day(rows)
        schema = _required(rows.schema)
        target = Target(self.table, schema, ("window_id",), addable=frozenset(schema.names) - {"window_id", "window_day"})
        writer = self.sink.writer(database, target, None)
        day = database.quote("window_day")
        try:
            writer.run(lambda connection: self._prepare(database, connection, target))
            listed = f"select distinct {day} from {database.located(self.table)}"  # noqa: S608
            known = writer.run(lambda connection: database.execute(connection, listed).fetchall())
            standing = {int(row[0]) for row in known if _inside(int(row[0]), days)}
            found = pl.Series(rows.column("window_day").to_pylist(), dtype=pl.Int64)
            for number in sorted(standing | set(found.to_list())):
                part = rows.filter(pa.array((found == number).to_list(), pa.bool_()))
                writer.run(partial(self._replace, database, target, part, number))
                hook(f"day {number}")
        finally:
            writer.close()
        return rows.num_rows

    def _replace(self, database: Any, target: Target, rows: pa.Table, day: int, connection: Any) -> None:
        where = f"where {database.quote('window_day')} = {int(day)}"
        database.execute(connection, f"delete from {database.located(self.table)} {where}")  # noqa: S608
        if rows.num_rows:
            database.write(connection, target, rows.cast(target.columns))

    def _prepare(self, database: Any, connection: Any, target: Target) -> None:
        prepare(database, connection, target, None)
        if self.view is None:
            return
        if database.columns(connection, self.view):
            database.execute(connection, f"drop view {database.located(self.view)}")
        database.execute(connection, f"create view {database.located(self.view)} as {self.select(database, target)}")

    def select(self, database: Any, target: Target) -> str:
        """Base and correction together; a window that was corrected and never emitted is there too."""
        q = database.quote
        keys = self.output.aggregation.keys
        kinds = {f.name: f.type for f in target.columns}
        shown = ["window_start", "window_end", *keys]
        both, alone = [], []
        for name, what in self.output.aggregation.aggregates:
            kind = kinds.get(f"{name}_correction")
            # A float and its correction may add up to another float than the corrected one.
            if adds(what) and kind is not None and database.adds(kind) and not pa.types.is_floating(kind):
                # A sum of nothing but nulls is null, before and after; one that was null before its first late value counts as nothing.
                sum_of = f"coalesce(b.{q(name)}, 0) + c.{q(f'{name}_correction')}"
                known = f"c.{q('window_id')} is null then b.{q(name)} when c.{q(f'{name}_corrected')} is null then null"
                both.append(f"case when {known} else {sum_of} end as {q(name)}")
                alone.append(
                    f"case when c.{q(f'{name}_corrected')} is null then null else c.{q(f'{name}_correction')} end as {q(name)}"
                )
            else:
                corrected = q(f"{name}_corrected")
                both.append(f"case when c.{q('window_id')} is null then b.{q(name)} else c.{corrected} end as {q(name)}")
                alone.append(f"c.{corrected} as {q(name)}")
        run, wid = q("run_id"), q("window_id")
        base, table = database.read_from(self.name), database.read_from(self.table)
        left = ", ".join([*(f"b.{q(n)}" for n in shown), *both, f"c.{run}", f"b.{wid}"])
        only = ", ".join(
            [*(f"{database.shown(f'c.{q(n)}', kinds[n])} as {q(n)}" for n in shown), *alone, f"c.{run}", f"c.{wid}"]
        )
        return (
            f"select {left} from {base} b left join {table} c on b.{wid} = c.{wid} "  # noqa: S608
            f"union all select {only} from {table} c left join {base} b on b.{wid} = c.{wid} where b.{wid} is null"
        )


def _inside(day: int, days: tuple[int | None, int | None]) -> bool:
    return (days[0] is None or day >= days[0]) and (days[1] is None or day <= days[1])


def _with_day(rows: pa.Table) -> pa.Table:
    starts = pl.Series(rows.column("window_start").cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist(), dtype=pl.Int64)
    return rows.append_column(pa.field("window_day", pa.int64()), pa.array((starts // DAY).to_list(), pa.int64()))


def _required(schema: pa.Schema) -> pa.Schema:
    utc = pa.timestamp("us", "UTC")
    fields = []
    for field in schema:
        kind = utc if pa.types.is_timestamp(field.type) else field.type
        fields.append(pa.field(field.name, kind, nullable=field.name not in ("window_id", "window_day")))
    return pa.schema(fields)
