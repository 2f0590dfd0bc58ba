"""All sources of a pipeline as one streaming DataFrame, so that one query, with one checkpoint, reads them together."""

from __future__ import annotations

from typing import Any

from eventide.engine.decode import quoted
from eventide.engine.feed import MODIFIED, PATH, Feed
from eventide.engine.filefeed import FileFeed
from eventide.engine.kafkafeed import KafkaFeed
from eventide.kernel.columns import ARRIVAL, DEAD, LANE, OFFSET, RAW, SOURCE

PLACES = {
    SOURCE: "long",
    LANE: "string",
    OFFSET: "long",
    ARRIVAL: "long",
    RAW: "binary",
    DEAD: "string",
    PATH: "string",
    MODIFIED: "long",
}


def union_of(spark: Any, feeds: list[Feed], *, heartbeat: bool) -> Any:
    """Every source in the same columns. The heartbeat makes batches when no row comes, so that quiet streams still close windows."""
    from pyspark.sql import functions as F

    frames = [feed.frame(spark) for feed in feeds]
    if heartbeat:
        beat = spark.readStream.format("rate").option("rowsPerSecond", "1").load()
        frames.append(beat.select(F.lit(-1).cast("long").alias(SOURCE)))
    wanted = {**PLACES, **_users_columns(spark, feeds)}
    union = _as(wanted, frames[0])
    for frame in frames[1:]:
        union = union.unionByName(_as(wanted, frame))
    return union


def _as(wanted: dict[str, Any], frame: Any) -> Any:
    from pyspark.sql import functions as F

    have = set(frame.columns)
    columns = [(F.col(quoted(n)) if n in have else F.lit(None)).cast(kind).alias(n) for n, kind in wanted.items()]
    return frame.select(*columns)


def _users_columns(spark: Any, feeds: list[Feed]) -> dict[str, Any]:
    """The columns that come as such; files come as paths, and Kafka's records without transforms as bytes."""
    found: dict[str, Any] = {}
    for feed in feeds:
        if not isinstance(feed, FileFeed) and (feed.source.transforms or not isinstance(feed, KafkaFeed)):
            found.update({f.name: f.dataType for f in feed.frame(spark).schema if not f.name.startswith("__")})
    return found
