"""Which partitions a generation does not read from their first record on, by how its source starts."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.engine.feeds import kafka
from eventide.engine.feeds.feed import reading_of
from eventide.engine.feeds.kafka import KafkaFeed

EVERY = {"0", "1", "2"}
CASES: list[tuple[dict[str, Any], set[str]]] = [
    ({}, {"1"}),
    ({"starting": "earliest"}, {"1"}),
    ({"starting": "Earliest"}, {"1"}),
    ({"starting": "latest"}, EVERY),
    ({"starting": '{"paid": {"0": 0, "1": 0, "2": -2}}'}, {"1"}),
    ({"starting": '{"paid": {"0": -2, "1": -2, "2": 7}}'}, {"1", "2"}),
    ({"starting": '{"paid": {"0": -1, "1": -1, "2": -1}}'}, EVERY),
    ({"starting": '{"paid": {"0": 0}}'}, {"1", "2"}),
    ({"starting": '{"other": {"0": 0, "1": 0, "2": 0}}'}, EVERY),
    ({"starting": "no offsets at all"}, EVERY),
    ({"options": {"startingTimestamp": "1000"}}, EVERY),
    ({"options": {"startingoffsetsbytimestamp": '{"paid": {"0": 1, "1": 1, "2": 1}}'}}, EVERY),
    ({"options": {"kafka.group.id": "g"}}, {"1"}),
]


@pytest.mark.parametrize(("how", "lost"), CASES, ids=[str(how) for how, _ in CASES])
def test_a_partition_that_is_not_read_from_its_first_record_has_lost_its_beginning(
    how: dict[str, Any], lost: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker has removed the first records of partition 1."""
    begins = {("paid", 0): 0, ("paid", 1): 5, ("paid", 2): 0}
    monkeypatch.setattr(kafka, "topic_begins", lambda spark, source: begins)
    source = ev.kafka("paid", servers="k:9092", topic="paid", value=ev.raw(), event_time="at", watermark=ev.ascending(), **how)
    feed = KafkaFeed(0, source, reading_of(0, source, {"at": pl.Int64()}, None), spark=None)  # type: ignore[arg-type]
    assert feed.lost([]) == lost
