"""Payments on Kafka for tests: the same rows as records of a topic and as events of the model."""

from __future__ import annotations

import json
import random

from eventide.model import aggregate
from eventide.model.event import Event
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.reference import Reference
from eventide.model.watermark import Bounded
from eventide.model.window import Sliding
from eventide.testing import PaneTable

SECOND = 1_000_000
BASE = 1_760_000_000 * SECOND
SCHEMA = "event_time bigint, bank string, paise bigint"


def payments(count: int, lanes: int, seed: int = 1, late: float = 0.03) -> list[Event]:
    """Mostly half a second late, now and then up to a minute; arrivals in whole milliseconds, as Kafka keeps them."""
    rng = random.Random(seed)
    offsets = [0] * lanes
    events = []
    for number in range(count):
        arrival = BASE + number * 20_000
        delay = rng.randint(0, 500) if rng.random() >= late else rng.randint(0, 60_000)
        lane = rng.randrange(lanes)
        row = {"bank": f"bank-{rng.randrange(5)}", "paise": rng.randint(1, 50_000)}
        time = arrival - delay * 1000
        events.append(Event(arrival, time, row["bank"], row, 0, str(lane), offsets[lane]))
        offsets[lane] += 1
    return events


def produce(servers: str, topic: str, events: list[Event]) -> None:
    """Send events in order, each to its lane's partition, under its arrival time."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for event in events:
        body = b"{oops" if event.dead else json.dumps({"event_time": event.event_time, **event.row}).encode()
        producer.produce(topic, body, partition=int(event.lane), timestamp=event.arrival // 1000)
        producer.poll(0)
    producer.flush()


def reference_totals(
    events: list[Event], lanes: int, bound: int, size: int, allowed: int
) -> dict[tuple[int, str], tuple[int, int]]:
    """What one event at a time gives: (window end, bank) → (total, payments), of the windows that W has passed."""
    plan = Plan(
        (SourcePlan(Bounded(bound), tuple(map(str, range(lanes)))),),
        Sliding(size, size),
        (("total", aggregate.sum("paise")), ("n", aggregate.count())),
        (OutputPlan("totals", allowed),),
    )
    engine = Reference(plan)
    for event in sorted(events, key=lambda e: e.position):
        engine.event(event)
    engine.look()
    standing = PaneTable("accumulating").apply(engine.panes).visible()
    return {(bounds[1], key): (values["total"], values["n"]) for (bounds, key), values in standing.items()}
