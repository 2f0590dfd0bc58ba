"""A stream out of nothing, for demonstrations and load tests: a steady rate, lanes, keys, and delays with a tail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eventide.definition.source import idle
from eventide.errors import DefinitionError
from eventide.model.time import Duration, duration
from eventide.model.watermark import Strategy
from eventide.sources.frame import FrameSource


@dataclass(frozen=True)
class GeneratedRows:
    """Rows from Spark's own rate source; what a row says follows from its number, so that a replay gives the same rows."""

    rate: int
    lanes: int
    keys: int
    usual_delay: int
    late_share: float
    longest_delay: int

    def __call__(self, spark: Any) -> Any:
        """A streaming DataFrame with lane, number, event_time, arrived_at, key and amount."""
        from pyspark.sql import functions as F

        rows = spark.readStream.format("rate").option("rowsPerSecond", str(self.rate)).load()
        chance = (F.abs(F.xxhash64("value")) % 1_000_000) / 1_000_000
        reach = F.when(chance < self.late_share, F.lit(self.longest_delay)).otherwise(F.lit(self.usual_delay))
        delay = (F.abs(F.xxhash64("value", F.lit(1))) % F.greatest(reach, F.lit(1))).cast("long")
        return rows.select(
            (F.col("value") % self.lanes).cast("string").alias("lane"),
            F.col("value").alias("number"),
            F.timestamp_micros(F.unix_micros("timestamp") - delay).alias("event_time"),
            F.col("timestamp").alias("arrived_at"),
            F.concat(F.lit("key-"), F.abs(F.xxhash64("value", F.lit(2))) % self.keys).alias("key"),
            (F.abs(F.xxhash64("value", F.lit(3))) % 50_000).alias("amount"),
        )


def generated(
    name: str,
    *,
    watermark: Strategy,
    rows_per_second: int = 1_000,
    lanes: int = 4,
    keys: int = 100,
    delay: Duration = "500 ms",
    late: float = 0.01,
    longest_delay: Duration = "1 minute",
    idle_after: Duration | None = None,
) -> FrameSource:
    """A generated stream: columns `event_time`, `key` and `amount`; a share of its rows is late, up to the longest delay."""
    if rows_per_second < 1 or lanes < 1 or keys < 1 or not 0 <= late <= 1:
        raise DefinitionError(
            f"generated: {rows_per_second} rows per second, {lanes} lanes, {keys} keys, late={late}; the numbers must be 1 or more and the "
            "share between 0 and 1."
        )
    rows = GeneratedRows(
        rows_per_second,
        lanes,
        keys,
        duration(delay, what="delay", zero=True),
        late,
        duration(longest_delay, what="longest_delay"),
    )
    return FrameSource(
        name=name, frame=rows, event_time="event_time", watermark=watermark, lane="lane", offset="number", arrival="arrived_at",
        idle_after=idle(name, idle_after),
    )  # fmt: skip
