"""What the drift check costs a pipeline: CPU seconds of driver, JVM and workers with and without it, in alternating pairs.

    python benchmarks/drift.py [--source files|kafka] [--pairs 9] [--rows 1000000] [--drift 0.001]

The whole pipeline runs each time, on a warm session, over the same rows with a fresh state. CPU seconds of all its processes, not wall
time, so that neighbours count less; pairs alternate, so that a slow spell hits both sides. What the check counted is compared with what
was put in.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import warnings
from typing import Any

# Spark keeps the consumers of earlier runs, and what they fetched, for a while.
os.environ.setdefault("PYSPARK_SUBMIT_ARGS", "--driver-memory 4g pyspark-shell")

import numpy as np
import polars as pl
from processes import cpu, in_pairs, shown

import eventide as ev
from eventide.engine.spark_compat import connector
from eventide.engine.spark_session import local_session
from eventide.migration import Change, DriftWatch, Mapping
from eventide.testing.broker import KafkaBroker

FARES = Mapping(
    Change.NEST,
    ("fare_cents",),
    ("pricing.base", "pricing.surge", "pricing.tax"),
    {"pricing.base": "fare_cents", "pricing.surge": "0", "pricing.tax": "0"},
    {"fare_cents": "pricing.base + pricing.surge + pricing.tax"},
)
DDL = "ts bigint, zone bigint, fare_cents bigint, pricing struct<base: bigint, surge: bigint, tax: bigint>"


def rides(rows: int, drift: float) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    base, surge, tax = rng.integers(300, 9_000, rows), rng.integers(0, 5, rows) * 100, rng.integers(10, 900, rows)
    wrong = np.zeros(rows, dtype=np.int64)
    wrong[rng.choice(rows, round(rows * drift), replace=False)] = 1
    return pl.DataFrame(
        {
            "ts": np.arange(rows, dtype=np.int64) * 1_000,  # microseconds: as text it would cost more than all the rest
            "zone": rng.integers(0, 200, rows),
            "fare_cents": base + surge + tax + wrong,
            "pricing": pl.DataFrame({"base": base, "surge": surge, "tax": tax}).to_struct(),
        }
    )


def once(source: Any, spark: Any, watch: DriftWatch | None, exclude: frozenset[int], rows: int) -> float:
    state = tempfile.mkdtemp(prefix="drift-")
    if watch is not None:
        source = source.map(watch)
    sums = source.window(ev.tumbling("1 minute"), by="zone").agg(total=ev.sum("fare_cents"), n=ev.count())
    pipeline = ev.Pipeline("rides", sums.to("totals", late=ev.drop()), state=state)
    start = cpu(exclude)
    read = pipeline.run(spark).rows["in"]
    spent = cpu(exclude) - start
    assert read == rows, read
    shutil.rmtree(state)
    return spent


def refuse_wrong_examples(watch: DriftWatch) -> None:
    """Every counterexample must be one of the rides whose fare was made a cent too high."""
    examples = watch.total.examples
    assert len(examples) == min(watch.most, watch.total.drifted), len(examples)
    for each in examples:
        assert (each["kind"], each["fare_cents"] - each["expected fare_cents"]) == ("differ", 1), each


def produce(frame: pl.DataFrame, broker: KafkaBroker) -> None:
    from confluent_kafka import Producer

    broker.create_topic("rides", partitions=2, retention_ms="-1")
    producer = Producer({"bootstrap.servers": broker.servers, "queue.buffering.max.messages": 10_000_000})
    lines = frame.write_ndjson().encode().splitlines()
    for i, line in enumerate(lines):
        producer.produce("rides", line, partition=i % 2)
        if i % 100_000 == 0:
            producer.flush()
    producer.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", choices=["files", "kafka"], default="kafka")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--drift", type=float, default=0.001)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    frame = rides(asked.rows, asked.drift)
    more: dict[str, Any] = {"event_time": "ts", "watermark": ev.bounded("30 seconds"), "max_ahead": None}
    with tempfile.TemporaryDirectory() as landing:
        exclude: frozenset[int] = frozenset()
        broker = None
        if asked.source == "kafka":
            broker = KafkaBroker().start()
            exclude = frozenset([broker.pid] if broker.pid else [])
            produce(frame, broker)
            source: Any = ev.kafka("rides", servers=broker.servers, topic="rides", value=ev.json(DDL), **more)
        else:
            for lane in range(2):
                os.makedirs(f"{landing}/{lane}")
                frame.gather_every(2, lane).write_parquet(f"{landing}/{lane}/rides.parquet")
            source = ev.files("rides", landing, schema=DDL, **more)
        spark = local_session(connector("kafka") if broker else (), name="drift")

        def without() -> float:
            return once(source, spark, None, exclude, asked.rows)

        def checked() -> float:
            watch = DriftWatch("pricing", (FARES,))
            spent = once(source, spark, watch, exclude, asked.rows)
            counts = watch.total.counts
            assert counts["differ"] == round(asked.rows * asked.drift), counts
            assert watch.total.checked == asked.rows, counts
            refuse_wrong_examples(watch)
            return spent

        in_pairs(without, checked, 4)  # until the JVM has compiled what there is to compile
        found = in_pairs(without, checked, asked.pairs)
        for nth, (base, spent) in enumerate(found):
            print(f"pair {nth + 1}: {base:.2f} s without, {spent:.2f} s with ({spent / base - 1:+.1%})")
        print(
            f"{asked.source}, {asked.rows:,} rows, {round(asked.rows * asked.drift):,} of them drifting, all counted: "
            f"{shown([spent / base - 1 for base, spent in found])} CPU seconds, {asked.pairs} pairs"
        )
        spark.stop()
        if broker is not None:
            broker.remove()


if __name__ == "__main__":
    main()
