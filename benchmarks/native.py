"""Spark by itself, as benchmarks set it beside Eventide: RocksDB state, append mode, a Parquet sink, all that is there."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def seconds(spark: Any, results: Any, work: Path) -> float:
    """How long a streaming query takes from its start to the end of what there is to read."""
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    started = time.perf_counter()
    query = (
        results.writeStream.format("parquet")
        .outputMode("append")
        .option("path", str(work / "out"))
        .option("checkpointLocation", str(work / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return time.perf_counter() - started
