"""When a record arrived: as its producer says, as the broker says, or as a column says."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import eventide as ev
from eventide.testing.broker import KafkaBroker
from tests.sources.records import BASE, Paid, new_topic, send

PAYMENTS = [
    Paid(BASE, "a", 1, BASE + 10),
    Paid(BASE + 60_000, "a", 2, BASE + 60_010),
    Paid(BASE + 500, "a", 4, BASE + 60_020),  # late
]


def arrivals(spark: Any, broker: KafkaBroker, topic: str, state: Path, **more: Any) -> list[int]:
    """The arrivals of the late rows of a run, in microseconds."""
    bodies = [(json.dumps({"at": p.at * 1000, "seen": (p.made + 7) * 1000, "paise": p.paise}).encode(), p) for p in PAYMENTS]
    send(broker.servers, topic, bodies)
    paid = ev.kafka(
        "paid", servers=broker.servers, topic=topic, value=ev.json("at bigint, seen bigint, paise bigint"), event_time="at",
        watermark=ev.bounded("1 second"), **more,
    )  # fmt: skip
    sums = paid.window(ev.tumbling("10 seconds")).agg(total=ev.sum("paise"))
    pipeline = ev.Pipeline("paid", sums.to("totals", late=ev.divert()), state=str(state))
    pipeline.run(spark)
    late = pipeline.late(spark).selectExpr("unix_micros(_arrival) arrival", "paise").collect()
    assert [row["paise"] for row in late] == [4]
    return [row["arrival"] for row in late]


def test_create_time_is_what_the_producer_said(spark: Any, broker: KafkaBroker, tmp_path: Path) -> None:
    topic = new_topic(broker, "created", message_timestamp_type="CreateTime")
    assert arrivals(spark, broker, topic, tmp_path) == [(BASE + 60_020) * 1000]


def test_log_append_time_is_when_the_broker_took_it(spark: Any, broker: KafkaBroker, tmp_path: Path) -> None:
    topic = new_topic(broker, "appended", message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000) * 1000
    (arrival,) = arrivals(spark, broker, topic, tmp_path)
    assert before <= arrival <= time.time() * 1_000_000


def test_a_column_may_say_the_arrival(spark: Any, broker: KafkaBroker, tmp_path: Path) -> None:
    topic = new_topic(broker, "seen", message_timestamp_type="LogAppendTime")
    assert arrivals(spark, broker, topic, tmp_path, arrival="seen") == [(BASE + 60_027) * 1000]
