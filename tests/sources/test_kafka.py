"""Kafka in, real systems out: records of a real broker give the answers of the oracle."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import psycopg

import eventide as ev
from eventide.testing.broker import KafkaBroker
from tests.sources.payments import BASE, SCHEMA, SECOND, payments, produce, reference_totals
from tests.support.postgres import PostgresServer


def source(broker: KafkaBroker, topic: str, **more: Any) -> Any:
    return ev.kafka(
        "payments", servers=broker.servers, topic=topic, value=ev.json(SCHEMA), event_time="event_time",
        watermark=ev.bounded("1 second"), **more,
    )  # fmt: skip


def totals(stream: Any) -> Any:
    return stream.window(ev.tumbling("10 seconds"), by="bank").agg(total=ev.sum("paise"), n=ev.count())


def table_of(pipeline: Any, spark: Any) -> dict[tuple[int, str], tuple[int, int]]:
    """The last pane of every window, from the pipeline's own table."""
    rows = pipeline.panes(spark).selectExpr("unix_micros(window_end) e", "bank", "total", "n", "sequence", "op").collect()
    last = {}
    for row in sorted(rows, key=lambda r: (r["sequence"], r["op"] == "retract")):
        last[row["e"], row["bank"]] = row
    return {key: (row["total"], row["n"]) for key, row in last.items() if row["op"] == "insert"}


def test_late_corrections_reach_postgres_as_the_oracle_has_them(
    spark: Any, broker: KafkaBroker, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    topic = f"pay-{uuid.uuid4().hex[:8]}"
    broker.create_topic(topic, partitions=3)
    events = payments(6_000, lanes=3)
    produce(broker.servers, topic, events)
    table = f"totals_{uuid.uuid4().hex[:8]}"
    output = totals(source(broker, topic, rows_per_batch=1_700)).to(
        table, ev.postgres(postgres_server.dsn), late=ev.retract("20 seconds", refused=ev.divert())
    )
    pipeline = ev.Pipeline("pay", output, state=str(tmp_path / "state"))
    handle = pipeline.run(spark)
    expected = reference_totals(events, 3, SECOND, 10 * SECOND, 20 * SECOND)
    with psycopg.connect(postgres_server.dsn) as connection:
        rows = connection.execute(
            f"select extract(epoch from window_end)::bigint, bank, total, n, sequence from {table}"
        ).fetchall()
    assert {(end * SECOND, bank): (int(total), n) for end, bank, total, n, _ in rows} == expected
    assert any(sequence > 0 for *_, sequence in rows), "nothing was corrected: the test shows nothing"
    counts = handle.outputs[table]
    assert counts["rows_on_time"] + counts["rows_admitted"] + counts["rows_refused"] == len(events)
    assert pipeline.late(spark).count() == counts["rows_refused"] > 0


def test_transforms_filter_rows_but_never_dead_letters(spark: Any, broker: KafkaBroker, tmp_path: Path) -> None:
    from dataclasses import replace

    topic = f"dead-{uuid.uuid4().hex[:8]}"
    broker.create_topic(topic, partitions=2)
    events = [replace(e, dead="oops") if n % 100 == 7 else e for n, e in enumerate(payments(1_000, lanes=2, late=0))]
    produce(broker.servers, topic, events)
    rich = source(broker, topic).transform(lambda frame: frame.where("paise > 25000"))
    pipeline = ev.Pipeline("rich", totals(rich).to("totals", late=ev.drop()), state=str(tmp_path / "state"))
    handle = pipeline.run(spark)
    wanted = [e for e in events if not e.dead and e.row["paise"] > 25_000]
    assert handle.rows["in"] == len(wanted) + 10
    assert handle.rows["dead"] == 10
    letters = pipeline.dead_letters(spark).collect()
    assert {bytes(row["raw"]) for row in letters} == {b"{oops"}
    assert sorted((row["lane"], row["offset"]) for row in letters) == sorted((e.lane, e.offset) for e in events if e.dead)


def test_a_topic_that_gains_a_partition_is_read_on(spark: Any, broker: KafkaBroker, tmp_path: Path) -> None:
    from confluent_kafka.admin import AdminClient, NewPartitions

    topic = f"grow-{uuid.uuid4().hex[:8]}"
    broker.create_topic(topic, partitions=1)
    first, second = payments(500, lanes=1, late=0), payments(500, lanes=2, seed=3, late=0)
    produce(broker.servers, topic, first)
    pipeline = ev.Pipeline("grow", totals(source(broker, topic)).to("totals", late=ev.divert()), state=str(tmp_path / "s"))
    assert pipeline.run(spark).rows["in"] == 500
    admin = AdminClient({"bootstrap.servers": broker.servers})
    for future in admin.create_partitions([NewPartitions(topic, 2)]).values():
        future.result()
    produce(broker.servers, topic, second)
    handle = pipeline.run(spark)
    assert handle.rows["in"] == 1_000
    assert {lane for _, lane in handle.run.ledger.carries} == {"0", "1"}


def test_two_pipelines_in_a_chain_give_the_answers_of_one(spark: Any, broker: KafkaBroker, tmp_path: Path) -> None:
    topic, between = f"in-{uuid.uuid4().hex[:8]}", f"between-{uuid.uuid4().hex[:8]}"
    broker.create_topic(topic, partitions=2)
    broker.create_topic(between, partitions=2)
    produce(broker.servers, topic, payments(6_000, lanes=2, late=0))
    fine = totals(source(broker, topic))
    sink = ev.kafka_topic(broker.servers, between, markers=True)
    ev.Pipeline("fine", fine.to("fine", sink, late=ev.drop()), state=str(tmp_path / "fine")).run(spark)
    passed_on = ev.kafka(
        "fine", servers=broker.servers, topic=between, event_time="window_start",
        value=ev.json("op string, window_start timestamp, bank string, total bigint, n bigint, watermark timestamp"),
        watermark=ev.punctuated(when="op = 'W'", value="watermark"),
    )  # fmt: skip
    coarse = passed_on.window(ev.tumbling("30 seconds"), by="bank").agg(total=ev.sum("total"), n=ev.sum("n"))
    second = ev.Pipeline("coarse", coarse.to("coarse", late=ev.drop()), state=str(tmp_path / "coarse"))
    handle = second.run(spark)
    assert handle.rows["markers"] > 0
    direct = source(broker, topic).window(ev.tumbling("30 seconds"), by="bank").agg(total=ev.sum("paise"), n=ev.count())
    one = ev.Pipeline("one", direct.to("one", late=ev.drop()), state=str(tmp_path / "one"))
    one.run(spark)
    expected, found = table_of(one, spark), table_of(second, spark)
    assert expected and found == expected
    assert min(end for end, _ in found) > BASE - 60 * SECOND
