"""A session of the user's own, with its zone, its Arrow settings and its types: the answers are those of any other."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from landing import answer_of, answer_of_the_oracle, assert_same, land, lane_rows, pipeline

import eventide as ev
from eventide.engine.java import SparkUnavailable
from eventide.engine.spark_compat import PROVIDERS, SparkUnsupported, refuse_without
from eventide.engine.spark_notes import SparkNotes
from eventide.errors import OrderWarning
from eventide.state.journal import JournalError
from eventide.state.records import record_files
from eventide.testing.broker import KafkaBroker

THEIRS = {
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "7",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.useLargeVarTypes": "true",
    "spark.sql.shuffle.partitions": "5",
    "spark.sql.caseSensitive": "true",
}
LANDED = 1_762_100_000
"""The afternoon after the night that they tell of."""


@pytest.fixture
def in_new_york(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Beside that of the tests, in the same JVM; this process is in New York, too."""
    session = spark.newSession()
    for name, value in THEIRS.items():
        session.conf.set(name, value)
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield session
    monkeypatch.undo()
    time.tzset()
    spark.createDataFrame([(1,)], "one int")  # which makes it the active session again, whose settings expressions are read by


@pytest.mark.parametrize("read", ["worker", "spark"])
def test_a_session_in_new_york_gives_the_answers_of_the_oracle(in_new_york: Any, tmp_path: Path, read: str) -> None:
    rows = 3_000
    land(tmp_path / "in", lane_rows(rows), [3, 2, 2, 1], "unevenly")
    pipe = pipeline(str(tmp_path / "in"), str(tmp_path / "state"), 3, read=read)
    handle = pipe.run(in_new_york)
    assert_same(answer_of(pipe, in_new_york, handle.rows, handle.outputs), answer_of_the_oracle(rows))
    assert handle.run.ledger.batch >= 2, "files_per_batch= holds in any session"
    assert {name: in_new_york.conf.get(name) for name in THEIRS} == THEIRS, "no setting of theirs was changed"


def written(root: Path) -> None:
    """Times as texts that name no zone, over the night in which New York's clocks go back, and dates."""
    clock = pl.datetime_range(pl.datetime(2025, 11, 2, 4), pl.datetime(2025, 11, 2, 8), "1m", eager=True)
    rows = pl.DataFrame({"at": clock.dt.strftime("%Y-%m-%d %H:%M:%S"), "paise": range(len(clock))})
    rows = rows.with_columns(day=clock.dt.date(), bank=pl.lit("bank ") + (pl.col("paise") % 3).cast(pl.String))
    (root / "in").mkdir()
    rows[:200].write_parquet(root / "in" / "1.parquet")
    rows[200:].write_parquet(root / "in" / "2.parquet")
    for number in (1, 2):
        os.utime(root / "in" / f"{number}.parquet", (LANDED + number,) * 2)


def sources(root: Path, session: Any) -> dict[str, Any]:
    """The ways rows can take: read by a worker, through transforms of Spark's, and as a DataFrame of the user's."""
    from pyspark.sql import functions as F

    how: dict[str, Any] = {"event_time": "at", "watermark": ev.ascending()}
    files = ev.files("rows", str(root / "in"), files_per_batch=1, **how)
    changed = files.transform(lambda df: df.where(F.col("paise") >= 0).withColumn("paise", F.col("paise") + 0))
    stream = session.readStream.schema("at string, paise long, day date, bank string").option("maxFilesPerTrigger", "1")
    frame = ev.stream("rows", stream.parquet(str(root / "in")), offset="paise", **how)
    days = ev.files("rows", str(root / "in"), files_per_batch=1, event_time="day", watermark=ev.ascending())
    return {"worker": files, "transforms": changed, "frame": frame, "days": days}


def panes(pipe: ev.Pipeline, session: Any) -> list[tuple[Any, ...]]:
    from pyspark.sql import functions as F

    said = pipe.panes(session, "out").select(F.unix_micros("window_start"), "bank", "sequence", "n", "total")
    return sorted(map(tuple, said.collect()))


@pytest.mark.filterwarnings(f"ignore::{OrderWarning.__module__}.{OrderWarning.__name__}")
@pytest.mark.parametrize("way", ["worker", "transforms", "frame", "days"])
def test_times_without_a_zone_mean_the_same_in_new_york(spark: Any, in_new_york: Any, tmp_path: Path, way: str) -> None:
    written(tmp_path)
    said = []
    for session in (spark, in_new_york):
        hours = (
            sources(tmp_path, session)[way].window(ev.tumbling("1 hour"), by="bank").agg(n=ev.count(), total=ev.sum("paise"))
        )
        pipe = ev.Pipeline("hours", hours.to("out", late=ev.drop()), state=str(tmp_path / f"state-{len(said)}"))
        done = pipe.run(session, drain=True)
        assert done.rows["in"] == 241 and not done.rows.get("dead")
        said.append(panes(pipe, session))
    assert said[0] == said[1] and sum(n for *_, n, _ in said[0]) == 241


def test_a_topic_says_the_same_in_new_york(spark: Any, in_new_york: Any, broker: KafkaBroker, tmp_path: Path) -> None:
    """The broker's time of a record comes through Spark as a timestamp."""
    from confluent_kafka import Producer
    from pyspark.sql import functions as F

    topic = f"zones-{uuid.uuid4().hex[:8]}"
    broker.create_topic(topic, partitions=1)
    producer = Producer({"bootstrap.servers": broker.servers})
    for number in range(40):
        body = {"at": f"2025-11-02T{4 + number // 10:02d}:{number % 10:02d}:00", "bank": "a", "paise": number}
        producer.produce(topic, json.dumps(body).encode(), timestamp=LANDED * 1000 + number)
    assert producer.flush(30) == 0
    said = []
    for session in (spark, in_new_york):
        paid = ev.kafka(
            "paid", servers=broker.servers, topic=topic, value=ev.json("at timestamp, bank string, paise long"), event_time="at",
            watermark=ev.ascending(), rows_per_batch=15,
        ).transform(lambda df: df.withColumn("paise", F.col("paise") + 1))  # fmt: skip
        hours = paid.window(ev.tumbling("1 hour"), by="bank").agg(n=ev.count(), total=ev.sum("paise"))
        pipe = ev.Pipeline("hours", hours.to("out", late=ev.divert()), state=str(tmp_path / f"state-{len(said)}"))
        done = pipe.run(session, drain=True)
        assert done.rows["in"] == 40
        said.append((panes(pipe, session), done.outputs))
    assert said[0] == said[1] and [(n, total) for *_, n, total in said[0][0]] == [
        (10, 55), (10, 155), (10, 255), (10, 355)
    ]  # fmt: skip


def test_notes_of_batches_in_a_newer_format_are_refused_before_there_are_any(spark: Any, tmp_path: Path) -> None:
    land(tmp_path / "in", lane_rows(100), [1, 1, 1, 1], "evenly")
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.offsetLog.formatVersion", "2")
    with pytest.raises(SparkUnsupported, match=r"offsetLog\.formatVersion=2: .* in format 1 only"):
        pipeline(str(tmp_path / "in"), str(tmp_path / "state")).run(session)
    assert not (tmp_path / "state").exists()


def test_notes_that_are_in_a_newer_format_after_all_are_refused_with_their_format(tmp_path: Path) -> None:
    (tmp_path / "checkpoint/offsets").mkdir(parents=True)
    (tmp_path / "checkpoint/offsets/0").write_text('v2\n{"batchWatermarkMs":0}\n{"0":{"logOffset":0}}')
    with pytest.raises(JournalError, match=r"offsets/0, has format 'v2'; Eventide reads v1"):
        SparkNotes(record_files(str(tmp_path))).offsets(0)


def test_a_session_without_the_connector_is_refused_with_what_brings_it(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """py4j takes any name for a package, so that a class that is not there looks like one."""
    source = ev.kafka(
        "paid", servers="here:9092", topic="t", value=ev.json("at long"), event_time="at", watermark=ev.ascending()
    )
    refuse_without(spark, [source])
    monkeypatch.setitem(PROVIDERS, "kafka", "org.apache.spark.sql.kafka010.NotHere")
    with pytest.raises(SparkUnavailable, match=r"no kafka connector.*--packages org\.apache\.spark:spark-sql-kafka-0-10_"):
        refuse_without(spark, [source])
