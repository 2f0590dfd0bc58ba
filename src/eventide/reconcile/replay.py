"""History through the same definition once more: what was emitted, what is complete, and the rows between the two."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from eventide.definition.join import Join
from eventide.definition.output import Output
from eventide.engine.backfill import from_archive
from eventide.engine.feeds.union import united
from eventide.engine.run import Run
from eventide.errors import DefinitionError, letting_go
from eventide.model import aggregate
from eventide.model.policy import Divert, LatePolicy
from eventide.model.view import WHOLE
from eventide.model.watermark import Bounded
from eventide.model.window import Sliding
from eventide.pipeline import Pipeline
from eventide.reconcile.compare import ROWS, extremes_of
from eventide.reconcile.exact import quoted
from eventide.sinks.shape import PaneShape, named_aside
from eventide.sources.frame import FrameSource
from eventide.storage.scratch import scratch

FOREVER = 100 * 365 * 86_400_000_000
"""Longer than any lateness: nothing is refused."""
EMITTED, COMPLETE = "emitted", "complete"


@dataclass(frozen=True)
class Replay:
    """A drained run over history, in a directory of its own that goes with the process."""

    pipeline: Pipeline
    spark: Any
    rows: dict[str, int]

    def last(self, output: str) -> Any:
        """The last result of each window and key."""
        return standing(self.pipeline.panes(self.spark, output), self.pipeline.output(output))

    def late(self) -> Any:
        """The rows that were refused, with the windows that they missed."""
        return self.pipeline.late(self.spark, EMITTED)

    def archived(self) -> Any:
        """The rows themselves with their times, where they were kept."""
        return self.pipeline.archived(self.spark)


def replay_archive(pipeline: Pipeline, output: Output, spark: Any) -> Replay:
    """The archive through the definition with the output's own policy and, beside it, with nothing ever too late."""
    kept = replace(output.late, refused=Divert(None))
    readings = ((EMITTED, kept, output.accumulation), (COMPLETE, LatePolicy("accumulate", FOREVER), "accumulating"))
    return _run(pipeline, from_archive(pipeline, spark), readings, spark)


def replay_rows(pipeline: Pipeline, frame: Any, spark: Any, *, keep: bool = False) -> Replay:
    """Rows in any order through the definition, with nothing ever too late: the batch answer. The rows themselves are kept where asked."""
    sources = pipeline.sources
    if len(sources) > 1:
        raise DefinitionError(
            "an outside table of rows can be compared with a pipeline of one source only; aggregate it by window first."
        )
    source = sources[0]
    static = FrameSource(
        name=source.name, event_time=source.event_time, watermark=Bounded(FOREVER), time_unit=source.time_unit, max_ahead=None,
        time_zone=source.time_zone, time_format=source.time_format,
        frame=frame, lane=None, offset=None,
    )  # fmt: skip
    archive = scratch("reconcile") if keep else None
    return _run(pipeline, (static,), ((COMPLETE, LatePolicy("drop"), "accumulating"),), spark, archive)


def _run(pipeline: Pipeline, sources: tuple[FrameSource, ...], readings: Any, spark: Any, archive: str | None = None) -> Replay:
    old = pipeline.aggregation
    assert not isinstance(old, Join), "refused before anything is replayed"
    extremes = [
        (name, what)
        for value, summed in old.aggregates
        if summed.kind == "sum" and summed.where is None and summed.column is not None
        for name, what in zip(extremes_of(value), (aggregate.min(summed.column), aggregate.max(summed.column)), strict=True)
    ]
    more = (*old.aggregates, (ROWS, aggregate.count()), *extremes)
    over = replace(old, stream=replace(old.stream, sources=sources), aggregates=more)
    first = pipeline.outputs[0]
    outputs = tuple(
        Output(name, over, None, late, None, first.late_firing, accumulation) for name, late, accumulation in readings
    )
    state = scratch("reconcile")
    again = replace(
        pipeline,
        outputs=outputs,
        audits=(),
        state=state,
        generation=0,
        dead_letter_sink=None,
        archive=archive,
        archive_format="parquet",
        measure=None,
    )
    run = Run(again, spark, state)
    run.open()
    with letting_go(run.close):
        run.batch(united([feed.frame(spark) for feed in run.feeds]), 0, drain=True)
        return Replay(again, spark, dict(run.ledger.rows))


def refuse_view(output: Output) -> None:
    """What a view shows of a result does not say what the result was: there is nothing to set a correction beside."""
    if output.view != WHOLE:
        raise DefinitionError(
            f"output {output.name!r} shows its results under a view ({output.view}), which does not say what they were: those that it holds back "
            "would be taken for missing ones. Name an output that shows all of them, or compute them again: pipeline.backfill(deliver=True)."
        )


def standing(panes: Any, output: Output) -> Any:
    """What a reader of panes sees: the highest rank of each window, withdrawn ones left out, deltas added up."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    values = [name for name, _ in output.aggregation.aggregates]
    fixed = ["window_id", "window_start", "window_end", *(quoted(key) for key in output.aggregation.keys)]
    generation, sequence, op = (ours(output, name) for name in ("generation", "sequence", "op"))
    if output.accumulation == "discarding":
        newest = F.max(generation).over(Window.partitionBy("window_id"))
        kept = panes.dropDuplicates(["window_id", generation, sequence]).withColumn("__newest", newest)
        summed = kept.where(F.col(generation) == F.col("__newest")).groupBy(*fixed)
        return summed.agg(*[F.sum(quoted(v)).alias(v) for v in values])
    rank = [F.col(generation).desc(), F.col(sequence).desc(), (F.col(op) == "retract").desc()]
    ranked = panes.withColumn("__rank", F.row_number().over(Window.partitionBy("window_id").orderBy(*rank)))
    return ranked.where((F.col("__rank") == 1) & (F.col(op) == "insert")).select(*fixed, *map(quoted, values))


def ours(output: Output, name: str) -> str:
    """The name of one of our columns in the panes of an output: it steps aside where the user took it."""
    keys = tuple((key, pa.null()) for key in output.aggregation.keys)
    return PaneShape(keys, tuple((value, pa.null()) for value, _ in output.aggregation.aggregates)).meta(name)


def missed_windows(late: Any, pipeline: Pipeline) -> Any:
    """Refused rows, once for each window that missed them, with that window's bounds."""
    from pyspark.sql import functions as F

    window = pipeline.aggregation.window
    if not isinstance(window, Sliding):
        raise DefinitionError(
            "late rows of sessions cannot be folded in: a late row may join two sessions into one. Reconcile against the archive."
        )
    first, last = (F.unix_micros(named_aside(name, late.columns)) for name in ("_missed_first_end", "_missed_last_end"))
    ends = late.withColumn("__end", F.explode(F.sequence(first, last, F.lit(window.slide))))
    return ends.withColumns(
        {"window_end": F.timestamp_micros("__end"), "window_start": F.timestamp_micros(F.col("__end") - F.lit(window.size))}
    ).drop("__end")
