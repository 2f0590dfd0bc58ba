"""Records that carry a schema id: every version that ever flowed is read, and what cannot be read is named."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

import eventide as ev
from eventide.registry.client import RegistryClient
from eventide.registry.serialisers import AvroSerialiser
from eventide.registry.wire import encode_header
from eventide.testing.broker import KafkaBroker
from tests.registry.conftest import InThread

BASE = 1_760_000_000_000


def schema(*extra: dict[str, Any], paise: str = "paise", aliases: tuple[str, ...] = ()) -> str:
    fields: list[dict[str, Any]] = [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "bank", "type": "string"},
        {"name": paise, "type": "long", **({"aliases": list(aliases)} if aliases else {})},
        *extra,
    ]
    return json.dumps({"type": "record", "name": "Payment", "fields": fields})


V1 = schema()
V2 = schema({"name": "city", "type": ["null", "string"], "default": None})
V3 = schema({"name": "city", "type": ["null", "string"], "default": None}, {"name": "fee", "type": "long", "default": 0})


def send(broker: KafkaBroker, topic: str, bodies: list[bytes]) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.servers, "enable.idempotence": True})
    for number, body in enumerate(bodies):
        producer.produce(topic, body, partition=0, timestamp=BASE + number)
    producer.flush()


def pipeline_over(broker: KafkaBroker, topic: str, registry: InThread, state: Path, **form: Any) -> ev.Pipeline:
    paid = ev.kafka(
        "payments", servers=broker.servers, topic=topic, event_time="at", watermark=ev.bounded("1 second"),
        value=ev.avro(registry.url, reader=V2, **form),
    )  # fmt: skip
    sums = paid.window(ev.tumbling("1 second"), by=["bank", "city"]).agg(total=ev.sum("paise"), n=ev.count())
    return ev.Pipeline("payments", sums.to("totals", late=ev.divert()), state=str(state))


def test_three_versions_in_one_topic_are_read_one_of_them_first_seen_in_mid_stream(
    spark: Any, broker: KafkaBroker, registry: InThread, tmp_path: Path
) -> None:
    topic = f"versions-{uuid.uuid4().hex[:8]}"
    broker.create_topic(topic, partitions=1)
    with RegistryClient(registry.url) as client:
        old, new = AvroSerialiser(client, V1), AvroSerialiser(client, V2)
        first = [old({"at": BASE + n, "bank": "a", "paise": 1}, topic) for n in range(50)]
        first += [new({"at": BASE + n, "bank": "a", "paise": 10, "city": "pune"}, topic) for n in range(50)]
        send(broker, topic, first)
        pipeline = pipeline_over(broker, topic, registry, tmp_path / "state")
        assert pipeline.run(spark).rows["in"] == 100
        newest = AvroSerialiser(client, V3)
        send(
            broker,
            topic,
            [newest({"at": BASE + 5_000 + n, "bank": "a", "paise": 100, "city": "goa", "fee": 7}, topic) for n in range(50)],
        )
        send(broker, topic, [newest({"at": BASE + 60_000, "bank": "end", "paise": 0, "city": None, "fee": 0}, topic)])
    handle = pipeline.run(spark)
    assert handle.rows.get("dead", 0) == 0
    found = {
        (r["bank"], r["city"]): r["total"]
        for r in pipeline.panes(spark)
        .groupBy("bank", "city")
        .agg({"total": "sum"})
        .withColumnRenamed("sum(total)", "total")
        .collect()
    }
    assert found == {("a", None): 50, ("a", "pune"): 500, ("a", "goa"): 5_000}
    with RegistryClient(registry.url) as client:
        usage = client.call("GET", "/eventide/v1/usage")
    assert len({row["id"] for row in (usage if isinstance(usage, list) else usage["usage"])}) == 3


def test_every_way_to_be_unreadable_is_a_dead_letter_with_its_reason(
    spark: Any, broker: KafkaBroker, registry: InThread, tmp_path: Path
) -> None:
    topic = f"garbage-{uuid.uuid4().hex[:8]}"
    broker.create_topic(topic, partitions=1)
    with RegistryClient(registry.url) as client:
        write = AvroSerialiser(client, V1)
        good = write({"at": BASE, "bank": "a", "paise": 1}, topic)
        known = client.latest(f"{topic}-value").id
    bad = [
        b"",
        b"\x00\x00",
        b"\x01" + good[1:],
        encode_header(9_999) + good[5:],
        good[:-1],
        good + b"?",
        encode_header(known) + b"\xff" * 9,
    ]
    send(broker, topic, [good, *bad, good])
    pipeline = pipeline_over(broker, topic, registry, tmp_path / "state")
    handle = pipeline.run(spark)
    assert (handle.rows["in"], handle.rows["dead"]) == (9, 7)
    reasons = [row["reason"].partition(":")[0] for row in pipeline.dead_letters(spark).orderBy("offset").collect()]
    assert reasons == ["truncated", "truncated", "bad_magic", "unknown_id", "bad_payload", "bad_payload", "bad_payload"]


def test_a_source_may_stop_at_what_it_cannot_read(spark: Any, broker: KafkaBroker, registry: InThread, tmp_path: Path) -> None:
    topic = f"stop-{uuid.uuid4().hex[:8]}"
    broker.create_topic(topic, partitions=1)
    send(broker, topic, [b"\x01garbage"])
    pipeline = pipeline_over(broker, topic, registry, tmp_path / "state", on_unreadable="stop")
    with pytest.raises(Exception, match="bad_magic"):
        pipeline.run(spark)


def test_a_registry_that_is_down_stops_the_batch_and_nothing_is_lost(spark: Any, broker: KafkaBroker, tmp_path: Path) -> None:
    service = InThread(f"sqlite:///{tmp_path}/registry.db")
    topic = f"down-{uuid.uuid4().hex[:8]}"
    broker.create_topic(topic, partitions=1)
    with RegistryClient(service.url) as client:
        send(broker, topic, [AvroSerialiser(client, V1)({"at": BASE, "bank": "a", "paise": 1}, topic)])
    pipeline = pipeline_over(broker, topic, service, tmp_path / "state")
    service.stop()
    with pytest.raises(Exception, match=r"(?i)registry|connect"):
        pipeline.run(spark)
    assert not list((tmp_path / "state" / "journal").glob("commit-*"))
