"""Spark's own windows, as its documentation recommends them: append mode, RocksDB with changelog checkpointing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cases import LATENESS, Case
from streams import DDL, LANES

STATE = "spark.sql.streaming.stateStore"
SETTINGS = {
    f"{STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{STATE}.rocksdb.changelogCheckpointing.enabled": "true",
}


def keep_in_rocksdb(spark: Any) -> None:
    """Its state, as its documentation recommends for much of it."""
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)


def rows_of(spark: Any, case: Case, data: str, per_batch: int) -> Any:
    """The stream as Spark reads it; of Kafka with the same fetch options as Eventide."""
    from pyspark.sql import functions as F

    if not case.kafka:
        options = {"maxFilesPerTrigger": str(LANES), "recursiveFileLookup": "true"}
        return spark.readStream.schema(DDL).options(**options).parquet(data)
    from eventide.sources.kafka import TUNED

    servers, topic = data.split("/")
    options = {**TUNED, "kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
    records = spark.readStream.format("kafka").options(**options, maxOffsetsPerTrigger=str(per_batch)).load()
    return records.select(F.from_json(F.col("value").cast("string"), DDL).alias("row")).select("row.*")


def run(spark: Any, case: Case, data: str, work: Path, per_batch: int, late: str) -> None:
    """Answer a case, its results into Parquet."""
    from pyspark.sql import functions as F

    keep_in_rocksdb(spark)
    rows = rows_of(spark, case, data, per_batch).withWatermark("ts", LATENESS)
    if case.dedupe:
        rows = rows.dropDuplicatesWithinWatermark(["id"])
    if case.gap:
        window = F.session_window("ts", case.gap)
    else:
        window = F.window("ts", case.size, case.slide) if case.slide else F.window("ts", case.size)
    totals = rows.groupBy(window.alias("window"), "key").agg(F.sum("value").alias("total"), F.count("*").alias("n"))
    totals = totals.select("window.start", "window.end", "key", "total", "n")
    write(totals, work)


def write(results: Any, work: Path) -> None:
    """All that there is to read, its results into Parquet."""
    writer = results.writeStream.format("parquet").outputMode("append").trigger(availableNow=True)
    writer.option("path", str(work / "out")).option("checkpointLocation", str(work / "checkpoint")).start().awaitTermination()
