"""The gap to an outside table of rows, split row by row: dead letters, duplicates, what never arrived, what only we have."""

from __future__ import annotations

from typing import Any

from eventide.definition.output import Output
from eventide.engine.feeds.event_times import PER_UNIT
from eventide.errors import DefinitionError
from eventide.model.window import Sliding
from eventide.pipeline import Pipeline
from eventide.reconcile.compare import Scope, adds, quoted
from eventide.reconcile.report import DEAD, DUPLICATES, FOREIGN, MISSING, Line
from eventide.sinks.shape import named_aside


def with_ends(frame: Any, pipeline: Pipeline) -> Any:
    """Results by window with the end of each."""
    from pyspark.sql import functions as F

    window = pipeline.aggregation.window
    if "window_end" in frame.columns:
        return frame
    if not isinstance(window, Sliding):
        raise DefinitionError("an outside table of sessions needs window_end beside window_start.")
    return frame.withColumn("window_end", F.timestamp_micros(F.unix_micros("window_start") + F.lit(window.size)))


def by_identity(
    pipeline: Pipeline, output: Output, spark: Any, scope: Scope, rows: Any, identity: tuple[str, ...]
) -> list[Line]:
    """What an outside table has and the stream has not, and the other way round, each by its cause."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    window = pipeline.aggregation.window
    if not isinstance(window, Sliding) or window.slide != window.size:
        raise DefinitionError(f"a gap is split row by row over tumbling windows only; these are {window}. Leave identity out.")
    time = pipeline.sources[0].event_time
    kept = pipeline.archived(spark)
    place = {
        name: named_aside(name, kept.columns) for name in ("_dead", "_event_time", "_arrival", "_source", "_lane", "_offset")
    }
    ours = scope.of(_windowed(kept.where(F.col(place["_dead"]).isNull()), F.col(place["_event_time"]), window))
    unit = pipeline.sources[0].time_unit
    theirs = scope.of(_windowed(rows, _instant(rows, time, unit), window))
    ids = list(identity)
    first = Window.partitionBy(*ids).orderBy(*[place[n] for n in ("_arrival", "_source", "_lane", "_offset")])
    numbered = ours.withColumn("__nth", F.row_number().over(first))
    once, again = numbered.where("__nth = 1"), numbered.where("__nth > 1")
    dead = theirs.join(kept.where(F.col(place["_dead"]).isNotNull()).select(*ids).distinct(), ids, "left_semi")
    dead = dead.join(ours.select(*ids).distinct(), ids, "left_anti")
    missing = theirs.join(kept.select(*ids).distinct(), ids, "left_anti")
    foreign = once.join(theirs.select(*ids).distinct(), ids, "left_anti")
    lines = [_line(DEAD, dead, output, 1), _line(MISSING, missing, output, 1), _line(FOREIGN, foreign, output, -1)]
    if not pipeline.aggregation.stream.dedupe_keys:
        lines.append(_line(DUPLICATES, again, output, -1))
    return lines


def _instant(rows: Any, column: str, unit: str) -> Any:
    """The event time of outside rows, read as the source reads it: whole numbers by their unit."""
    from pyspark.sql import functions as F

    name = quoted(column)
    if rows.schema[column].dataType.typeName() in ("long", "integer", "short", "byte"):
        return F.timestamp_micros(F.col(name).cast("long") * F.lit(PER_UNIT[unit]))
    return F.col(name).cast("timestamp")


def _windowed(rows: Any, time: Any, window: Sliding) -> Any:
    from pyspark.sql import functions as F

    micros = F.unix_micros(time) - F.lit(window.offset)
    start = F.floor(micros / F.lit(window.size)).cast("long") * F.lit(window.size) + F.lit(window.offset)
    return rows.withColumns(
        {"window_start": F.timestamp_micros(start), "window_end": F.timestamp_micros(start + F.lit(window.size))}
    )


def _line(name: str, rows: Any, output: Output, sign: int) -> Line:
    from pyspark.sql import functions as F

    wanted = [
        (
            F.sum(quoted(str(what.column)))
            if what.kind == "sum"
            else F.count(F.col(quoted(what.column)) if what.column else F.lit(1))
        ).alias(value)
        for value, what in output.aggregation.aggregates
        if adds(what)
    ]
    row = rows.agg(F.count("*").alias("__rows"), *wanted).first()
    return Line(name, sign * row["__rows"], {k: sign * (row[k] or 0) for k in row.asDict() if k != "__rows"})
