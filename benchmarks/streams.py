"""Streams for benchmarks, made once: four lanes, a span of event time for each batch, 0.9% of the rows late; as Parquet files or in Kafka."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

LANES = 4
BASE = 1_700_000_000_000_000
SPAN = 600_000_000
"""Microseconds of event time from the first row to the last."""
DDL = "ts timestamp, key bigint, value bigint, id bigint"


def batches(rows: int, keys: int, number: int, span: int = SPAN) -> Iterator[list[pl.DataFrame]]:
    """Batch by batch the rows of each lane, in order of arrival; one row in fifty repeats the id of an earlier one."""
    rng = np.random.default_rng(7)
    count = rows // (LANES * number)
    for batch in range(number):
        lanes = []
        for lane in range(LANES):
            arrived = BASE + span * batch // number + np.sort(rng.integers(0, span // number, count))
            late = rng.random(count) < 0.009
            happened = arrived - np.where(late, rng.integers(30_000_000, 120_000_000, count), rng.integers(0, 2_000_000, count))
            first = (batch * LANES + lane) * count
            ids = np.arange(first, first + count)
            again = rng.random(count) < 0.02
            ids = np.where(again, rng.integers(max(0, first - count), first + 1, count), ids)
            lanes.append(
                pl.DataFrame(
                    {
                        "ts": pl.Series(happened).cast(pl.Datetime("us", "UTC")),
                        "key": rng.integers(0, keys, count),
                        "value": rng.integers(0, 1_000, count),
                        "id": ids,
                        "arrived": arrived,
                    }
                )
            )
        yield lanes


def write_files(root: Path, rows: int, keys: int, number: int, span: int = SPAN) -> None:
    """A directory for each lane, a file in it for each batch; a file's time is its arrival."""
    for batch, lanes in enumerate(batches(rows, keys, number, span)):
        for lane, frame in enumerate(lanes):
            path = root / f"lane-{lane}" / f"{batch:04}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            frame.drop("arrived").write_parquet(path, compression="lz4")
            moment = BASE // 1_000_000 + batch * LANES + lane
            os.utime(path, (moment, moment))


def placed_files(root: Path) -> pl.DataFrame:
    """All rows of such directories with the place at which each arrived."""
    frames = []
    for path in sorted(root.rglob("*.parquet")):
        moment = int(path.stat().st_mtime) * 1_000_000
        lane = pl.lit(int(path.parent.name.removeprefix("lane-")), dtype=pl.Int64)
        frames.append(
            pl.read_parquet(path).with_columns(lane.alias("lane"), pl.lit(moment).alias("arrival")).with_row_index("n")
        )
    return pl.concat(frames).sort("arrival", "lane", "n")


def produce(servers: str, topic: str, rows: int, keys: int, number: int) -> None:
    """The same as JSON records, a partition for each lane; a record's timestamp is its arrival."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "queue.buffering.max.messages": 2_000_000})
    for lanes in batches(rows, keys, number):
        for lane, frame in enumerate(lanes):
            texts = frame.select(
                pl.struct(pl.col("ts").dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ"), "key", "value", "id").struct.json_encode()
            ).to_series()
            for text, arrived in zip(texts, frame["arrived"], strict=True):
                producer.produce(topic, text, partition=lane, timestamp=arrived // 1_000)
                producer.poll(0)
        producer.flush()


def placed_records(rows: int, keys: int, number: int) -> pl.DataFrame:
    """All rows that were produced with the place at which each arrived."""
    frames = [
        frame.with_columns(pl.lit(lane).alias("lane"), (pl.col("arrived") // 1_000 * 1_000).alias("arrival"))
        for lanes in batches(rows, keys, number)
        for lane, frame in enumerate(lanes)
    ]
    return pl.concat(frames).with_columns(pl.int_range(pl.len()).over("lane").alias("n")).sort("arrival", "lane", "n")
