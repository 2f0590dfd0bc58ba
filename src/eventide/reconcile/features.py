"""Training against serving: the value that was there in time, the value that is complete, and the difference, window by window."""

from __future__ import annotations

from typing import Any

from eventide.pipeline import Pipeline
from eventide.reconcile.replay import COMPLETE, replay_archive, standing

ARCHIVE = "archive"


def features(pipeline: Pipeline, spark: Any, *, served: str | None = None, trained: str | None = None) -> Any:
    """One row for each window and key: what a model was served, what it should be trained on, and how far apart they are.

    `served` is an output, of which the first result counts: what stood there when a request came. `trained` is an output, of which
    the last result counts (by default the same one), or "archive": everything that ever arrived.
    """
    from pyspark.sql import functions as F

    fast = pipeline._output(served)
    values = [name for name, _ in fast.aggregation.aggregates]
    on = ["window_start", "window_end", *fast.aggregation.keys]
    first = _first(pipeline.panes(spark, fast.name), on, values).alias("s")
    if trained == ARCHIVE:
        last = replay_archive(pipeline, fast, spark).last(COMPLETE).alias("t")
    else:
        slow = pipeline._output(trained) if trained else fast
        last = standing(pipeline.panes(spark, slow.name), slow).alias("t")
    same = F.lit(True)
    for name in on:
        same = same & F.col(f"s.`{name}`").eqNullSafe(F.col(f"t.`{name}`"))
    columns = [F.coalesce(F.col(f"s.`{n}`"), F.col(f"t.`{n}`")).alias(n) for n in on]
    for name in values:
        was, now = F.col(f"s.`{name}`"), F.col(f"t.`{name}`")
        columns += [was.alias(f"{name}_served"), now.alias(f"{name}_trained")]
        if first.schema[name].dataType.typeName() in ("long", "integer", "double", "float", "decimal", "short", "byte"):
            columns.append((now - F.coalesce(was, F.lit(0))).alias(f"{name}_difference"))
    return first.join(last, same, "full_outer").select(*columns)


def _first(panes: Any, on: list[str], values: list[str]) -> Any:
    """The first result of each window that was no early guess."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    kept = panes.where("op = 'insert' AND timing != 'early'")
    rank = F.row_number().over(Window.partitionBy("window_id").orderBy(F.col("generation").desc(), "sequence"))
    return kept.withColumn("__rank", rank).where("__rank = 1").where("timing = 'on_time'").select(*on, *values)
