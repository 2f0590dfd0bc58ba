"""What a topic holds beside plain records: transactions that were committed, aborted or are still open, gaps; and topics that are not what they were."""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

import eventide as ev
from eventide.engine.feeds.kafka import KafkaFeed, TopicReplaced
from eventide.testing.broker import KafkaBroker
from tests.sources.payments import BASE, SCHEMA, SECOND
from tests.sources.records import new_topic


class Sender:
    """A producer of payments: a second each, numbered, inside a transaction or not."""

    def __init__(self, servers: str, topic: str, transactional: bool = False) -> None:
        from confluent_kafka import Producer

        settings: dict[str, Any] = {"bootstrap.servers": servers}
        if transactional:
            settings["transactional.id"] = uuid.uuid4().hex
        self.producer, self.topic = Producer(settings), topic
        if transactional:
            self.producer.init_transactions()

    def send(self, *seconds: int, partition: int = 0, event: int | None = None) -> None:
        for second in seconds:
            body = {"event_time": BASE + (second if event is None else event) * SECOND, "bank": "x", "paise": second}
            self.producer.produce(
                self.topic, json.dumps(body).encode(), partition=partition, timestamp=BASE // 1000 + second * 1000
            )
        self.producer.flush()


def pipeline(servers: str, topic: str, state: Path, **more: Any) -> ev.Pipeline:
    paid = ev.kafka(
        "payments", servers=servers, topic=topic, value=ev.json(SCHEMA), event_time="event_time", watermark=ev.ascending(), **more,
    )  # fmt: skip
    sums = paid.window(ev.tumbling("10 seconds")).agg(total=ev.sum("paise"), n=ev.count())
    return ev.Pipeline("paid", sums.to("totals", late=ev.divert()), state=str(state))


def totals(pipe: ev.Pipeline, spark: Any) -> dict[int, tuple[int, int]]:
    panes = pipe.panes(spark)
    if "total" not in panes.columns:
        return {}  # no output has said anything yet
    rows = panes.selectExpr("unix_micros(window_start) s", "total", "n").collect()
    return {(row["s"] - BASE) // SECOND: (row["total"], row["n"]) for row in rows}


def test_a_partition_that_no_longer_begins_with_its_first_record_has_lost_its_beginning(
    spark: Any, broker: KafkaBroker, tmp_path: Path
) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    topic = new_topic(broker, "begun", partitions=3)
    sender = Sender(broker.servers, topic)
    for partition in (0, 1):
        sender.send(1, 2, 3, partition=partition)
    admin = AdminClient({"bootstrap.servers": broker.servers})
    for answer in admin.delete_records([TopicPartition(topic, 1, 2)]).values():
        answer.result(30)
    for starting, lost in (("earliest", {"1"}), ("latest", {"0", "1", "2"})):
        source = pipeline(broker.servers, topic, tmp_path / "state", starting=starting).aggregation.stream.sources[0]
        assert KafkaFeed.open(spark, 0, source).lost([]) == lost


def test_aborted_transactions_are_no_events_and_open_ones_hold_the_lane(
    spark: Any, broker: KafkaBroker, tmp_path: Path
) -> None:
    topic = new_topic(broker, "transactions")
    plain, inside = Sender(broker.servers, topic), Sender(broker.servers, topic, transactional=True)
    plain.send(1)
    for second, end in ((2, "commit"), (3, "abort"), (4, "commit"), (5, "abort")):
        inside.producer.begin_transaction()
        inside.send(second)
        inside.producer.commit_transaction() if end == "commit" else inside.producer.abort_transaction()
    pipe, said = pipeline(broker.servers, topic, tmp_path / "state"), list[Any]()
    handle = pipe.run(spark, on_progress=said.append)
    assert handle.rows["in"] == 3, "1, 2 and 4"
    swept = handle.run.ledger.swept
    assert swept is not None and swept[0] == handle.run.last_clock, (
        "the control record behind the last one does not hide the end"
    )
    inside.producer.begin_transaction()
    inside.send(12)
    plain.send(30)
    handle = pipe.run(spark, on_progress=said.append)
    assert handle.rows["in"] == 3 and totals(pipe, spark) == {}, "30 lies behind the open transaction, and is not there yet"
    plain.send(31)
    inside.producer.commit_transaction()
    handle = pipe.run(spark)
    assert handle.rows["in"] == 6 and handle.rows.get("dead", 0) == 0
    assert totals(pipe, spark) == {0: (7, 3), 10: (12, 1)} and handle.outputs["totals"].get("rows_refused", 0) == 0
    uncommitted = pipeline(broker.servers, topic, tmp_path / "all", options={"kafka.isolation.level": "read_uncommitted"})
    assert uncommitted.run(spark).rows["in"] == 8, "who asks for them gets them"


def test_rows_of_an_open_transaction_are_judged_where_they_stand(spark: Any, broker: KafkaBroker, tmp_path: Path) -> None:
    """Partition 0 has an open transaction; partition 1 goes on. W waits for what has arrived and cannot be read yet, and says for what."""
    topic = new_topic(broker, "open", partitions=2)
    plain, inside = Sender(broker.servers, topic), Sender(broker.servers, topic, transactional=True)
    plain.send(1)
    plain.send(1, partition=1)
    inside.producer.begin_transaction()
    inside.send(5)
    pipe, said = pipeline(broker.servers, topic, tmp_path / "state", idle_after="20 seconds"), list[Any]()
    plain.send(40, 41, partition=1)
    pipe.run(spark, on_progress=said.append)
    assert said[-1].holder == (0, "0") and said[-1].sources[0].holder == "payments/0 (an open transaction from offset 1 on)"
    assert totals(pipe, spark) == {}, "partition 0 would have been idle at 21 seconds"
    inside.producer.commit_transaction()
    handle = pipe.run(spark, on_progress=said.append)
    assert totals(pipe, spark)[0] == (7, 3) and handle.rows.get("raised", 0) == 0
    assert "transaction" not in str(said[-1].sources[0].holder)


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_a_compacted_topic_is_read_with_its_gaps(spark: Any, broker: KafkaBroker, tmp_path: Path) -> None:
    """Of 200 records under five keys most are gone: what is left is read once, in order, and the end is the end."""
    from confluent_kafka import Producer

    quick = {
        "segment_ms": "100",
        "min_cleanable_dirty_ratio": "0.001",
        "max_compaction_lag_ms": "100",
        "delete_retention_ms": "0",
    }
    topic = new_topic(broker, "compacted", cleanup_policy="compact", **quick)
    producer = Producer({"bootstrap.servers": broker.servers, "linger.ms": 0})
    for second in range(200):
        body = json.dumps({"event_time": BASE + second * SECOND, "bank": "x", "paise": second})
        producer.produce(topic, body.encode(), key=str(second % 5), timestamp=BASE // 1000 + second * 1000)
        producer.flush()
    deadline = time.monotonic() + 200
    while len(left := _offsets(broker.servers, topic, 200)) > 150:
        assert time.monotonic() < deadline, "the broker has not compacted the topic"
        producer.produce(topic, b"{}", key="tick")
        producer.flush()
    pipe = pipeline(broker.servers, topic, tmp_path / "state", rows_per_batch=40)
    handle = pipe.run(spark)
    swept = handle.run.ledger.swept
    assert handle.rows["in"] >= len(left) and handle.run.ledger.carries[0, "0"].last_offset >= 199
    assert swept is not None and swept[0] == handle.run.last_clock


def _offsets(servers: str, topic: str, upto: int) -> list[int]:
    """The offsets below a number that a consumer finds."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": uuid.uuid4().hex, "enable.partition.eof": True})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = []
        while (message := consumer.poll(10)) is not None and message.error() is None:
            found.append(message.offset())
        return [offset for offset in found if offset < upto]
    finally:
        consumer.close()


def recreate(broker: KafkaBroker, topic: str) -> None:
    admin = broker._admin()
    admin.delete_topics([topic])[topic].result(30)
    while topic in admin.list_topics(timeout=10).topics:
        pass
    for _ in range(50):
        try:
            broker.create_topic(topic)
            return
        except Exception as error:
            assert "EXISTS" in str(error).upper()
    raise AssertionError("the topic is still being deleted")


def test_a_topic_that_was_deleted_and_created_again_stops_the_run_with_the_reason(
    spark: Any, broker: KafkaBroker, tmp_path: Path
) -> None:
    topic = new_topic(broker, "again")
    Sender(broker.servers, topic).send(1, 2, 3)
    pipe = pipeline(broker.servers, topic, tmp_path / "state")
    assert pipe.run(spark).rows["in"] == 3
    recreate(broker, topic)
    Sender(broker.servers, topic).send(*range(100, 110))
    with pytest.raises(
        TopicReplaced, match=r"topic 'again-.*' at .* had the id .* now the topic of that name has the id .*--start-over"
    ):
        pipe.run(spark)
    assert (tmp_path / "state/journal/commit-000000000000.json").exists() and not list(
        (tmp_path / "state/journal").glob("commit-*1.json")
    )


def test_equal_topic_names_of_two_brokers_are_two_sources(spark: Any, broker: KafkaBroker, tmp_path: Path) -> None:
    """The first cluster's partition is read to its end, the second's is not: it must not be taken for the other."""
    with KafkaBroker() as other:
        topic = new_topic(broker, "twins")
        other.create_topic(topic)
        Sender(broker.servers, topic).send(*range(1, 9))
        Sender(other.servers, topic).send(*range(1, 40))
        paid = [
            ev.kafka(
                name, servers=servers, topic=topic, value=ev.json(SCHEMA), event_time="event_time", watermark=ev.ascending(),
                rows_per_batch=10,
            )
            for name, servers in (("one", broker.servers), ("two", other.servers))
        ]  # fmt: skip
        sums = ev.merge(*paid).window(ev.tumbling("10 seconds")).agg(total=ev.sum("paise"), n=ev.count())
        pipe, ends = ev.Pipeline("twins", sums.to("totals", late=ev.divert()), state=str(tmp_path / "state")), list[Any]()
        pipe.run(spark, on_progress=lambda _: ends.append(None))
        from eventide.state.journal import Journal
        from eventide.state.records import record_files

        journal = Journal(record_files(str(tmp_path / "state")))
        begun = [journal.begun(number) for number in range(len(ends))]
        assert [sorted(map(tuple, facts["at_end"])) for facts in begun if facts] == [[(0, "0")]] * 3 + [[(0, "0"), (1, "0")]]
