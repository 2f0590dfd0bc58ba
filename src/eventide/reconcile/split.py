"""The gap to an outside table of rows, split row by row: dead letters, duplicates, what never arrived, what only we have."""

from __future__ import annotations

from typing import Any

from eventide.definition.output import Output
from eventide.errors import DefinitionError
from eventide.model.window import Sliding
from eventide.pipeline import Pipeline
from eventide.reconcile.compare import Scope, adds, every
from eventide.reconcile.exact import quoted, totals_of
from eventide.reconcile.outside import need_columns, need_kinds
from eventide.reconcile.replay import Replay
from eventide.reconcile.report import DEAD, DUPLICATES, FOREIGN, MISSING, Line
from eventide.sinks.shape import named_aside

PLACES = ("_dead", "_event_time", "_arrival", "_source", "_lane", "_offset")


def refuse_identity(pipeline: Pipeline, spark: Any, rows: Any | None, identity: tuple[str, ...]) -> None:
    """Stop where the columns that identify a row cannot be used, before anything is computed."""
    if rows is None:
        raise DefinitionError(
            f"identity={list(identity)} says which rows are the same, and only an outside table of rows has such (without window_start). Leave it out."
        )
    if not pipeline.archive:
        raise DefinitionError(
            f"identity={list(identity)} compares the rows of the outside table with those that arrived, and pipeline {pipeline.name!r} keeps no archive. "
            "Give it one (archive=…) before the next run, or leave identity out."
        )
    window = pipeline.aggregation.window
    if not isinstance(window, Sliding) or window.slide != window.size:
        raise DefinitionError(f"a gap is split row by row over tumbling windows only; these are {window}. Leave identity out.")
    kept, names = pipeline.archived(spark), list(identity)
    need_columns(rows, names, "the outside table", "identity names")
    need_columns(kept, names, f"the archive {pipeline.archive}", "identity names")
    need_kinds(rows, kept, names)


def by_identity(
    pipeline: Pipeline, output: Output, spark: Any, scope: Scope, outside: Replay, identity: tuple[str, ...]
) -> list[Line]:
    """What an outside table has and the stream has not, and the other way round, each by its cause."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    window = pipeline.aggregation.window
    assert isinstance(window, Sliding)
    kept = pipeline.archived(spark)
    place = {name: named_aside(name, kept.columns) for name in PLACES}
    ours, theirs = _judged(kept, window, scope), _judged(outside.archived(), window, scope)
    ids = list(map(quoted, identity))
    first = Window.partitionBy(*ids).orderBy(*[place[n] for n in ("_arrival", "_source", "_lane", "_offset")])
    numbered = ours.withColumn("__nth", F.row_number().over(first))
    once, again = numbered.where("__nth = 1"), numbered.where("__nth > 1")
    dead = _joined(theirs, kept.where(F.col(place["_dead"]).isNotNull()), ids, "left_semi")
    dead = _joined(dead, ours, ids, "left_anti")
    missing = _joined(theirs, kept, ids, "left_anti")
    foreign = _joined(once, theirs, ids, "left_anti")
    lines = [_line(DEAD, dead, output, 1), _line(MISSING, missing, output, 1), _line(FOREIGN, foreign, output, -1)]
    if not pipeline.aggregation.stream.dedupe_keys:
        lines.append(_line(DUPLICATES, again, output, -1))
    return lines


def _judged(archived: Any, window: Sliding, scope: Scope) -> Any:
    """The rows of an archive that are in some window, with its bounds: both sides have the times that the source reads."""
    from pyspark.sql import functions as F

    dead, time = (F.col(named_aside(name, archived.columns)) for name in ("_dead", "_event_time"))
    return scope.of(_windowed(archived.where(dead.isNull()), time, window))


def _joined(rows: Any, others: Any, ids: list[str], how: str) -> Any:
    """Rows whose identity others have, or have not; null is an identity like any other, as it is where rows are numbered."""
    from pyspark.sql import functions as F

    there = others.select(*[F.col(name).alias(f"__id{nth}") for nth, name in enumerate(ids)]).distinct()
    return rows.join(there, every([F.col(name).eqNullSafe(F.col(f"__id{nth}")) for nth, name in enumerate(ids)]), how)


def _windowed(rows: Any, time: Any, window: Sliding) -> Any:
    from pyspark.sql import functions as F

    start = F.unix_micros(time) - F.pmod(F.unix_micros(time) - F.lit(window.offset), F.lit(window.size))
    return rows.withColumns(
        {"window_start": F.timestamp_micros(start), "window_end": F.timestamp_micros(start + F.lit(window.size))}
    )


def _line(name: str, rows: Any, output: Output, sign: int) -> Line:
    from pyspark.sql import functions as F

    summed = {value: str(what.column) for value, what in output.aggregation.aggregates if adds(what) and what.kind == "sum"}
    counted = {
        value: F.count(F.col(quoted(what.column)) if what.column else F.lit(1))
        for value, what in output.aggregation.aggregates
        if adds(what) and what.kind == "count"
    }
    found = totals_of(rows, summed, {"__rows": F.count("*"), **counted})
    return Line(name, sign * found.pop("__rows"), {value: sign * number for value, number in found.items()})
