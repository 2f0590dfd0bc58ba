"""Hostile values from files and Kafka, through a whole pipeline on Spark, into SQLite, PostgreSQL, DuckDB, Parquet and Delta."""

from __future__ import annotations

import json
import random
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import eventide as ev
from eventide.engine.feeds.columnar import arrow_kind
from eventide.sinks.shape import PaneShape
from tests.formats.hostile import SIMPLE, json_text
from tests.formats.test_into_the_sinks import BASE, SINKS, TYPES, alike, drawn_rows, write
from tests.sinks.places import World

SCHEMA = "at timestamp, id string, " + ", ".join(f"{name} {word}" for name, word in zip(TYPES, SIMPLE, strict=True))
WINDOW = "365 days"


def source(form: str, root: Path, rows: list[dict[str, Any]], request: pytest.FixtureRequest) -> Any:
    about: dict[str, Any] = {"event_time": "at", "watermark": ev.ascending(), "max_ahead": None}
    last = {"at": datetime(2028, 1, 1, tzinfo=UTC), "id": "end", **dict.fromkeys(TYPES)}
    if form != "kafka":
        write([*rows, last], form, root / f"1.{form}")
        return ev.files("rows", str(root), format=form, schema=SCHEMA, **about)
    from confluent_kafka import Producer

    broker, topic, rng = request.getfixturevalue("broker"), f"hostile-{uuid.uuid4().hex[:8]}", random.Random(7)
    broker.create_topic(topic, partitions=1)
    producer = Producer({"bootstrap.servers": broker.servers})
    for row in [*rows, last]:
        producer.produce(topic, json_text(row, rng).encode(), partition=0)
    assert producer.flush(30) == 0
    return ev.kafka("rows", servers=broker.servers, topic=topic, value=ev.json(SCHEMA), **about)


@pytest.mark.parametrize("form", ["json", "csv", "avro", "parquet", "kafka"])
def test_values_reach_every_sink_as_they_were_written(
    spark: Any, form: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    rows = drawn_rows()
    world = World(tmp_path, postgres_server=request.getfixturevalue("postgres_server"))
    places = [kind(world) for kind in SINKS]
    read = source(form, tmp_path / "in", rows, request)
    firsts = read.window(ev.tumbling(WINDOW), by="id").agg(**{name: ev.first(name) for name in TYPES})
    outputs = [firsts.to(place.output, place.sink(), late=ev.drop()) for place in places]
    pipeline = ev.Pipeline("hostile", *outputs, state=str(tmp_path / "state"))
    handle = pipeline.run(spark)
    assert (handle.rows["in"], handle.rows.get("dead", 0)) == (len(rows) + 1, 0)
    shape = PaneShape((("id", pa.string()),), tuple((name, arrow_kind(kind.kind)) for name, kind in TYPES.items()))
    for place in places:
        found = {row["id"]: row for row in place.rows(shape)}
        assert set(found) >= {row["id"] for row in rows}
        for row in rows:
            for name in TYPES:
                assert alike(found[row["id"]][name], row[name]), (place.name, name, row[name], found[row["id"]][name])


def test_a_session_in_another_time_zone_changes_nothing(spark: Any, tmp_path: Path) -> None:
    """Rows that come through Spark carry its zone; instants are instants."""
    rows = [{"at": BASE, "id": str(n), "seen": BASE} for n in range(3)] + [
        {"at": datetime(2026, 1, 3, tzinfo=UTC), "id": "end", "seen": None}
    ]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text("".join(json_text(row, random.Random(1)) + "\n" for row in rows))
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        read = ev.files("rows", str(tmp_path / "in"), format="json", schema="at timestamp, id string, seen timestamp", event_time="at",
                        watermark=ev.ascending(), max_ahead=None).transform(lambda frame: frame.where("id is not null"))  # fmt: skip
        firsts = read.window(ev.tumbling("1 day"), by=["id", "seen"]).agg(seen_first=ev.first("seen"), n=ev.count())
        pipeline = ev.Pipeline("zone", firsts.to("o", late=ev.divert()), state=str(tmp_path / "state"))
        assert pipeline.run(spark).rows["in"] == 4
        found = pipeline.panes(spark).selectExpr("unix_micros(window_start) s", "unix_micros(seen_first) f").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    micros = int(BASE.timestamp()) * 1_000_000
    assert {(row["s"], row["f"]) for row in found} == {(micros, micros)}


def test_the_late_rows_of_a_pipeline_are_rows_for_another(spark: Any, tmp_path: Path) -> None:
    """Their columns `_offset`, `_lane`, … are the user's there, and ours step aside; so in the archive, from which a backfill is the same."""
    (tmp_path / "in").mkdir()
    body = [
        {
            "at": f"2026-01-0{day}T00:00:00Z",
            "id": "a",
            "_offset": day,
            "_lane": "mine",
            "_missed_first_end": "x",
            "_source": "s",
        }
        for day in (5, 1, 2)
    ]
    (tmp_path / "in" / "1.json").write_text("".join(json.dumps(row) + "\n" for row in body))
    read = ev.files("rows", str(tmp_path / "in"), format="json", event_time="at", watermark=ev.ascending(), max_ahead=None,
                    schema="at timestamp, id string, _offset bigint, _lane string, _missed_first_end string, _source string")  # fmt: skip
    counts = read.window(ev.tumbling("1 day"), by="_lane").agg(n=ev.count(), most=ev.max("_offset"))
    sink = ev.sqlite(str(tmp_path / "late.db"))
    pipeline = ev.Pipeline(
        "again", counts.to("o", late=ev.divert(to=sink)), state=str(tmp_path / "state"), archive=str(tmp_path / "archive")
    )
    assert pipeline.run(spark).outputs["o"]["rows_refused"] == 2
    late = pipeline.late(spark).orderBy("__offset").collect()
    assert [(r["_offset"], r["__offset"], r["_lane"], r["__lane"]) for r in late] == [(1, 1, "mine", "0"), (2, 2, "mine", "0")]
    again = pipeline.backfill(spark=spark)
    assert again.rows["in"] == 3
