"""The payments pipeline on whatever master is named; its answers are left as a pickle."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

from landing import answer_of, pipeline
from pyspark.sql import SparkSession


def main(master: str, root: str, out: str) -> None:
    spark = (
        SparkSession.builder.master(master)
        .appName("eventide on a cluster")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.executor.memory", "512m")
        .config("spark.executorEnv.POLARS_MAX_THREADS", "1")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
    for read in ("worker", "spark"):
        pipe = pipeline(f"{root}/in", f"{root}/state-{read}", 3, read=read)
        handle = pipe.run(spark)
        answer = answer_of(pipe, spark, handle.rows, handle.outputs)
        hosts = set(spark.sparkContext.parallelize(range(8), 8).map(_where).collect())
        Path(f"{out}-{read}").write_bytes(pickle.dumps((executors, hosts, answer)))
    spark.stop()


def _where(_: int) -> str:
    import os
    import time

    time.sleep(0.2)  # so that no worker takes all the tasks
    return os.getcwd()


if __name__ == "__main__":
    main(*sys.argv[1:])
