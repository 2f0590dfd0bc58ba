"""What a pipeline has said and seen, as DataFrames: panes, late rows, dead letters, windows and archive of the committed batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from eventide.definition.join import Join
from eventide.definition.output import Output
from eventide.definition.pipeline import Pipeline
from eventide.engine.batch.rows import AUDIT
from eventide.engine.s3a import spark_address
from eventide.errors import DefinitionError
from eventide.kernel.place import AUDITED, DEAD_LETTERS, LATE, ddl
from eventide.model.window import Session, Sliding
from eventide.state.archive import archived_files
from eventide.state.ledger import Ledger
from eventide.state.state import State
from eventide.state.windows import open_windows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def _table(pipeline: Pipeline, spark: SparkSession, directory: str, empty: Callable[[], DataFrame]) -> DataFrame:
    state = State.of(pipeline)
    files = state.tables(directory)
    return spark.read.parquet(*[spark_address(spark, state.store.url(f)) for f in files]) if files else empty()


def panes(pipeline: Pipeline, spark: SparkSession, output: Output) -> DataFrame:
    """Every emission of an output."""

    def empty() -> DataFrame:
        return spark.createDataFrame(
            [],
            "window_id string, window_start timestamp_ltz, window_end timestamp_ltz, sequence bigint, op string, timing string",
        )

    return _table(pipeline, spark, f"panes/{output.name}", empty)


def late(pipeline: Pipeline, spark: SparkSession, output: Output) -> DataFrame:
    """The rows that an output refused and kept."""
    return _table(pipeline, spark, f"late/{output.name}", lambda: spark.createDataFrame([], ddl(LATE)))


def dead_letters(pipeline: Pipeline, spark: SparkSession) -> DataFrame:
    """The records that could not be read."""
    return _table(pipeline, spark, "dead", lambda: spark.createDataFrame([], ddl(DEAD_LETTERS)))


def audited(pipeline: Pipeline, spark: SparkSession) -> DataFrame:
    """The events that went on to be judged."""
    if not pipeline.audits:
        raise DefinitionError(
            f'pipeline {pipeline.name!r} has no output of its events themselves; give it one: source.to("audit", sink).'
        )
    return _table(pipeline, spark, AUDIT, lambda: spark.createDataFrame([], ddl(AUDITED)))


def archived(pipeline: Pipeline, spark: SparkSession, upto: Ledger | None = None) -> DataFrame:
    """Every archived event as a DataFrame, or those up to a commit: a run that is at work goes on meanwhile."""
    found = archived_files(pipeline, upto)
    if not found:
        raise DefinitionError(f"the archive {pipeline.archive} of pipeline {pipeline.name!r} holds nothing yet; run it first.")
    return spark.read.option("mergeSchema", "true").parquet(*[spark_address(spark, file.url) for file in found])


def windows(pipeline: Pipeline, spark: SparkSession, output: Output) -> DataFrame:
    """Every window of the aggregation that an output reads: those that it spoke of, and those that are open.

    Of a window that a view has never shown nothing was said, so that it is not among them once it has closed.
    """
    from pyspark.sql import functions as F

    if isinstance(output.aggregation, Join):
        pipeline.refuse_join("this table")
    state_of, window = State.of(pipeline), output.aggregation.window
    assert isinstance(window, Sliding | Session), "pairs of a join have been refused"
    mark = state_of.ledger.frontier.watermark
    widest = max(o.late.allowed for o in pipeline.around(output).outputs)
    said = panes(pipeline, spark, output)
    fired = said.groupBy("window_start", "window_end").agg(
        F.min(
            F.when(F.col("timing") != "early", F.col("emitted_at"))
            if "emitted_at" in said.columns
            else F.lit(None).cast("timestamp_ltz")
        ).alias("closed_at")
    )
    still = open_windows(state_of, output.name, window)
    opened = spark.createDataFrame(still, "window_start bigint, window_end bigint").select(
        F.timestamp_micros("window_start").alias("window_start"), F.timestamp_micros("window_end").alias("window_end")
    )
    both = fired.unionByName(
        opened.join(fired, ["window_start", "window_end"], "left_anti").withColumn(
            "closed_at", F.lit(None).cast("timestamp_ltz")
        )
    )
    end = F.unix_micros("window_end")
    closed = F.lit(False) if mark is None else end <= F.lit(mark)
    final = F.lit(False) if mark is None else end <= F.lit(max(-(2**63), mark - widest))
    state = F.when(final, "final").when(closed, "closed").otherwise("open")
    return both.select("window_start", "window_end", state.alias("state"), "closed_at", final.alias("final"))
