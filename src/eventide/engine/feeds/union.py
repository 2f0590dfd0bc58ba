"""All sources of a pipeline as one streaming DataFrame, so that one query, with one checkpoint, reads them together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventide.engine.feeds.decode import quoted
from eventide.engine.feeds.feed import MODIFIED, PATH, SIZE, Feed
from eventide.kernel.columns import ARRIVAL, DEAD, LANE, OFFSET, RAW, SOURCE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

PLACES = {
    SOURCE: "long",
    LANE: "string",
    OFFSET: "long",
    ARRIVAL: "long",
    RAW: "binary",
    DEAD: "string",
    PATH: "string",
    MODIFIED: "long",
    SIZE: "long",
}


def union_of(spark: SparkSession, feeds: list[Feed]) -> DataFrame:
    """Every source in the same columns, and last the heartbeat: a row in each batch, so that quiet streams still close windows.

    It beats in every run, live or until caught up: a checkpoint belongs to the sources that wrote it, and both go on from the same one.
    It counts batches and knows no time, so that a clock that is set back does not stop it.
    """
    feeds = sorted(feeds, key=lambda feed: places(feeds).get(feed.index, len(feeds)))
    frames = [feed.frame(spark) for feed in feeds]
    wanted = _users_columns(feeds, frames)
    beat = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "1").option("numPartitions", "1").load()
    return united([*(_as(wanted, frame) for frame in frames), beat.selectExpr(f"-1L AS {SOURCE}")])


def places(feeds: list[Feed]) -> dict[int, int]:
    """Where each source stands among those of Spark's query, by its place among ours.

    A user's DataFrame may consist of several of Spark's sources, or none: such come last, and nobody asks for their place.
    """
    single = [feed for feed in feeds if feed.is_one]
    return {feed.index: place for place, feed in enumerate(single)}


def united(frames: list[DataFrame]) -> DataFrame:
    """DataFrames one after the other, by the names of their columns; one that lacks a column has nulls there."""
    union, *rest = frames
    for frame in rest:
        union = union.unionByName(frame, allowMissingColumns=True)
    return union


def _as(wanted: dict[str, DataType], frame: DataFrame) -> DataFrame:
    """Our columns and those of the user that it has, each as the union has it; as text, since every Column is a dozen calls into the JVM."""
    from pyspark.sql import functions as F

    have = {field.name: field.dataType for field in frame.schema}
    other = {name: F.col(quoted(name)).cast(kind) for name, kind in wanted.items() if have.get(name, kind) != kind}
    frame = frame.withColumns(other) if other else frame
    ours = [f"CAST({name if name in have else 'NULL'} AS {kind}) AS {name}" for name, kind in PLACES.items()]
    return frame.selectExpr(*ours, *(quoted(name) for name in wanted if name in have))


def _users_columns(feeds: list[Feed], frames: list[DataFrame]) -> dict[str, DataType]:
    """The columns that come as such; files come as paths, and Kafka's records without transforms as bytes."""
    found: dict[str, DataType] = {}
    for feed, frame in zip(feeds, frames, strict=True):
        if feed.is_decoded:
            found.update({f.name: f.dataType for f in frame.schema if not f.name.startswith("__")})
    return found
