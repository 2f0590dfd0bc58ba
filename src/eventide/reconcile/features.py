"""Training against serving: the value that was there in time, the value that is complete, and the difference, window by window."""

from __future__ import annotations

from typing import Any

from eventide.definition.output import Output
from eventide.pipeline import Pipeline
from eventide.reconcile.exact import combined, is_exact, quoted
from eventide.reconcile.reconcile import closed_upto
from eventide.reconcile.replay import COMPLETE, ours, refuse_view, replay_archive, standing

ARCHIVE = "archive"


def features(pipeline: Pipeline, spark: Any, *, served: str | None = None, trained: str | None = None) -> Any:
    """One row for each window and key: what a model was served, what it should be trained on, and how far apart they are.

    `served` is an output, of which the first result counts: what stood there when a request came. `trained` is an output, of which
    the last result counts (by default the same one), or "archive": everything that ever arrived. A difference that no number of its
    type can say is null.
    """
    from pyspark.sql import functions as F

    fast = pipeline.output(served)
    pipeline = pipeline.around(fast)
    refuse_view(fast)
    mark = closed_upto(pipeline)
    values = [name for name, _ in fast.aggregation.aggregates]
    on = ["window_start", "window_end", *fast.aggregation.keys]
    first = _first(pipeline.panes(spark, fast.name), fast, on, values, mark).alias("s")
    if trained == ARCHIVE:
        last = replay_archive(pipeline, fast, spark).last(COMPLETE).alias("t")
    else:
        slow = pipeline.output(trained) if trained else fast
        refuse_view(slow)
        last = standing(pipeline.panes(spark, slow.name), slow).alias("t")
    same = F.lit(True)
    for name in on:
        same = same & F.col(f"s.{quoted(name)}").eqNullSafe(F.col(f"t.{quoted(name)}"))
    columns = [F.coalesce(F.col(f"s.{quoted(n)}"), F.col(f"t.{quoted(n)}")).alias(n) for n in on]
    for name in values:
        was, now = F.col(f"s.{quoted(name)}"), F.col(f"t.{quoted(name)}")
        columns += [was.alias(f"{name}_served"), now.alias(f"{name}_trained")]
        if first.schema[name].dataType.typeName() in ("long", "integer", "double", "float", "decimal", "short", "byte"):
            kinds = (last.schema[name].dataType, first.schema[name].dataType)
            if all(map(is_exact, kinds)):
                apart = F.when(now.isNotNull(), combined(now, was, kinds, -1))
            else:
                apart = F.when(now == was, F.lit(0)).otherwise(now - F.coalesce(was, F.lit(0)))  # two infinities too
            columns.append(apart.alias(f"{name}_difference"))
    return first.join(last, same, "full_outer").select(*columns)


def _first(panes: Any, output: Output, on: list[str], values: list[str], mark: int) -> Any:
    """What stood when W passed each window's end: the result on time, or the last early one if the rows had not changed since."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    generation, sequence, op, timing = (F.col(ours(output, n)) for n in ("generation", "sequence", "op", "timing"))
    kept = panes.where((op == "insert") & (timing != "late") & (F.unix_micros("window_end") <= F.lit(mark)))
    order = [generation.desc(), (timing == "on_time").desc(), sequence.desc()]
    ranked = kept.withColumn("__rank", F.row_number().over(Window.partitionBy("window_id").orderBy(*order)))
    return ranked.where("__rank = 1").select(*map(quoted, [*on, *values]))
