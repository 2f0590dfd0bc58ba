"""Topics of a real broker with all that producers do: transactions committed, aborted, left open across batches, and runs that are killed.

Each committed record is read once, and the answers are the oracle's.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from killing import Killed, catch_up, killed_at
from landing import START
from told import archived_events, standing, told

import eventide as ev
from eventide.engine.run import Run
from eventide.model.event import end_of
from eventide.testing.broker import KafkaBroker

SECOND = 1_000_000
SOAK = int(os.environ.get("EVENTIDE_EXAMPLES", "100"))
POINTS = ("begin", "scan", "store", "begun", "deliver", "commit")
TOTALS: Counter[str] = Counter()


class Topic:
    """One topic, two producers of which one writes transactions, and a pipeline."""

    def __init__(self, root: Path, seed: int, spark: Any, broker: KafkaBroker) -> None:
        self.rng, self.root, self.spark, self.broker = random.Random(seed), root, spark, broker
        self.topic, self.partitions = f"unruly-{uuid.uuid4().hex[:10]}", self.rng.choice([1, 2, 3])
        broker.create_topic(self.topic, partitions=self.partitions)
        self.plain, self.inside = self.producer(), self.producer(transactional=True)
        self.now, self.rows = START, 0
        self.sent: set[int] = set()
        self.pending: set[int] | None = None
        self.most, self.idle = self.rng.choice([None, 3, 10]), self.rng.choice([None, "15 s"])
        self.open()

    def producer(self, transactional: bool = False) -> Any:
        from confluent_kafka import Producer

        more = {"transactional.id": uuid.uuid4().hex} if transactional else {}
        made = Producer({"bootstrap.servers": self.broker.servers, "linger.ms": 0, **more})
        if transactional:
            made.init_transactions()
        return made

    def send(self, producer: Any, seen: set[int]) -> None:
        for _ in range(self.rng.randint(1, 4)):
            self.rows += 1
            self.now += self.rng.choice([0, 1, 4]) * SECOND
            happened = self.now - self.rng.choice([0, 1, 5, 20, 60]) * SECOND
            body = {"ts": happened, "bank": self.rng.choice("xy"), "paise": self.rows}
            partition = self.rng.randrange(self.partitions)
            wrong = 300 * 86_400_000 if self.rng.random() < 0.04 else 0  # a producer whose clock is far ahead
            producer.produce(self.topic, json.dumps(body).encode(), partition=partition, timestamp=self.now // 1000 + wrong)
            seen.add(self.rows)
        producer.flush()

    def happen(self) -> None:
        for _ in range(self.rng.randint(1, 4)):
            if self.rng.random() < 0.4:
                self.send(self.plain, self.sent)
            elif self.pending is None:
                self.inside.begin_transaction()
                self.pending = set()
                self.send(self.inside, self.pending)
            elif self.rng.random() < 0.5:
                self.send(self.inside, self.pending)
            else:
                self.end(abort=self.rng.random() < 0.4)

    def end(self, abort: bool = False) -> None:
        if self.pending is not None:
            self.inside.abort_transaction() if abort else self.inside.commit_transaction()
            self.sent |= set() if abort else self.pending
            TOTALS["aborted" if abort else "committed"] += 1
            self.pending = None

    def open(self) -> None:
        source = ev.kafka(
            "payments", servers=self.broker.servers, topic=self.topic, value=ev.json("ts bigint, bank string, paise bigint"),
            event_time="ts", watermark=ev.bounded("5 s"), idle_after=self.idle, rows_per_batch=self.most, max_ahead=None,
        )  # fmt: skip
        made = source.window(ev.tumbling("10 s"), by="bank").agg(n=ev.count(), total=ev.sum("paise"))
        base = ev.sqlite(str(self.root / "out.db"))
        pipeline = ev.Pipeline(
            "unruly", made.to("some", base, late=ev.accumulate("20 s", refused=ev.divert(base))), made.to("drop", base, late=ev.drop()),
            state=str(self.root / "state"), archive=str(self.root / "archive"), buckets=2,
        )  # fmt: skip
        self.run = Run(pipeline, self.spark, str(self.root / "state"), clock=lambda: self.now)
        self.run.open()

    def read(self) -> None:
        """Until caught up; now and then killed on the way, while the producers go on."""
        while self.rng.random() < 0.35:
            self.run.hook = killed_at(self.rng.choice(POINTS))
            try:
                catch_up(self.run)
            except Killed:
                TOTALS["kills"] += 1
            self.run.deliverer.close()
            self.run.lease.release()
            self.happen()
            self.open()
        catch_up(self.run)

    def check(self) -> None:
        import sqlite3

        run = self.run
        events = archived_events(run.pipeline)
        read = Counter(event.row["paise"] for event in events)
        assert not [row for row, times in read.items() if times > 1], "rows read twice"
        assert set(read) == self.sent
        reference = told(run.shape.plan, events, run.ledger, [(run.ledger.swept, run.last_clock)])
        for output in ("some", "drop"):
            with sqlite3.connect(self.root / "out.db") as base:
                found = base.execute(f'select window_id, bank, n, total from "{output}"').fetchall()
            table = {(*map(int, window.split(":")[:2]), bank): (n, total) for window, bank, n, total in found}
            assert table == standing(reference, output), output
        assert run.ledger.swept == end_of(run.last_clock), "the topic was read to its end, and W does not know"
        TOTALS.update(streams=1, rows=len(read), batches=run.ledger.batch + 1, lowered=run.ledger.rows["lowered"])
        run.close()


def through(spark: Any, broker: KafkaBroker, seed: int, steps: int) -> None:
    with tempfile.TemporaryDirectory(prefix="eventide-topic-") as root:
        topic = Topic(Path(root), seed, spark, broker)
        for _ in range(steps):
            topic.happen()
            topic.now += topic.rng.choice([0, 10, 30]) * SECOND
            topic.read()
        topic.end()
        topic.send(topic.plain, topic.sent)
        topic.now += 100 * SECOND
        catch_up(topic.run)
        topic.check()


def test_an_unruly_topic(spark: Any, broker: KafkaBroker) -> None:
    for seed in (1, 2):
        through(spark, broker, seed, 3)
    assert TOTALS["committed"] and TOTALS["streams"]


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_many_unruly_topics(spark: Any, broker: KafkaBroker) -> None:
    for seed in range(1_000, 1_000 + SOAK):
        through(spark, broker, seed, 5)
    print(f"\n{dict(TOTALS)}")
