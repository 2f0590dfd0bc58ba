"""What a pipeline has said and seen, as DataFrames: panes, late rows, dead letters, windows and archive of the committed batches."""

from __future__ import annotations

from typing import Any

from eventide.definition.output import Output
from eventide.engine.batch.deliver import pane_shape
from eventide.engine.s3a import spark_address
from eventide.errors import DefinitionError, EventideError
from eventide.model.window import Sliding
from eventide.state.archive import archived_files
from eventide.state.journal import Journal
from eventide.state.ledger import Ledger
from eventide.state.records import record_files
from eventide.state.store import Store, attempt_in


class NothingYet(EventideError):
    """The pipeline has not committed a batch."""


def _ledger(pipeline: Any) -> Ledger:
    ledger = Journal(record_files(str(pipeline.state))).ledger()
    if ledger is None:
        raise NothingYet(f"pipeline {pipeline.name!r} has committed nothing in {pipeline.state} yet; run it first.")
    return ledger


def committed(store: Store, directory: str, ledger: Ledger) -> list[str]:
    """The files below a directory that belong to committed batches."""
    return [f for f in store.files(directory) if _stands(f, ledger)]


def _table(pipeline: Any, spark: Any, directory: str, empty: Any) -> Any:
    ledger, store = _ledger(pipeline), Store(str(pipeline.state))
    files = committed(store, directory, ledger)
    if not files:
        return empty()
    return spark.read.parquet(*[spark_address(spark, store.url(f)) for f in files])


def _stands(path: str, ledger: Ledger) -> bool:
    """Whether a file belongs to a committed batch, and was written by the run that committed it."""
    part = next(p for p in path.split("/") if p.startswith("batch="))
    batch = int(part.removeprefix("batch="))
    return batch <= ledger.batch and attempt_in(path) == ledger.attempt_of(batch)


def panes(pipeline: Any, spark: Any, output: Output) -> Any:
    """Every emission of an output."""

    def empty() -> Any:
        return spark.createDataFrame(
            [],
            "window_id string, window_start timestamp_ltz, window_end timestamp_ltz, sequence bigint, op string, timing string",
        )

    return _table(pipeline, spark, f"panes/{output.name}", empty)


def late(pipeline: Any, spark: Any, output: Output) -> Any:
    """The rows that an output refused and kept."""
    empty = "_source bigint, _lane string, _offset bigint, _arrival timestamp_ltz, _event_time timestamp_ltz, _watermark timestamp_ltz, _generation bigint"
    return _table(pipeline, spark, f"late/{output.name}", lambda: spark.createDataFrame([], empty))


def dead_letters(pipeline: Any, spark: Any) -> Any:
    """The records that could not be read."""
    empty = "source bigint, lane string, offset bigint, arrival timestamp_ltz, event_time timestamp_ltz, reason string, raw binary, generation bigint"
    return _table(pipeline, spark, "dead", lambda: spark.createDataFrame([], empty))


def archived(pipeline: Any, spark: Any) -> Any:
    """Every archived event as a DataFrame."""
    found = archived_files(pipeline)
    if not found:
        raise DefinitionError(f"the archive {pipeline.archive} of pipeline {pipeline.name!r} holds nothing yet; run it first.")
    return spark.read.option("mergeSchema", "true").parquet(*[spark_address(spark, file.url) for file in found])


def windows(pipeline: Any, spark: Any) -> Any:
    """Every window that the outputs spoke of, and those that are open, with what stands."""
    from pyspark.sql import functions as F

    ledger = _ledger(pipeline)
    mark = ledger.frontier.watermark
    widest = max(o.late.allowed for o in pipeline.outputs)
    said = panes(pipeline, spark, pipeline.outputs[0])
    fired = said.groupBy("window_start", "window_end").agg(
        F.min(
            F.when(F.col("timing") != "early", F.col("emitted_at"))
            if "emitted_at" in said.columns
            else F.lit(None).cast("timestamp_ltz")
        ).alias("closed_at")
    )
    still = _open_windows(pipeline, ledger)
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


def _open_windows(pipeline: Any, ledger: Ledger) -> list[tuple[int, int]]:
    window = pipeline.aggregation.window
    if not isinstance(window, Sliding):
        return sorted({(part.low, part.high) for part in ledger.parts if part.kind == "sessions"})
    found = set()
    for part in ledger.parts:
        if part.kind == "partial":
            for start in range(part.low, part.high + 1, window.slice_size):
                found |= set(window.assign(start))
    mark = ledger.frontier.watermark
    return sorted(bounds for bounds in found if mark is None or bounds[1] > mark)


__all__ = ["NothingYet", "archived", "committed", "dead_letters", "late", "pane_shape", "panes", "windows"]
