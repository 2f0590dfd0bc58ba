"""Three sensors of one sky in one pipeline: a counter, a summary of risks, alerts that late data withdraws, and every observation, as the oracle has them."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import uuid
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
from tests.sinks.places import consume

import eventide as ev
from eventide.model import aggregate, watermark, window
from eventide.model.event import Event
from eventide.model.graph import Aggregation, Graph, Reading, Rows
from eventide.model.oracle import Oracle
from eventide.model.pane import Pane
from eventide.model.plan import OutputPlan, SourcePlan
from eventide.model.policy import RETRACTING
from eventide.model.view import View
from eventide.sinks import CurrentRows
from eventide.testing.broker import KafkaBroker

SECOND = 1_000_000
START = 1_760_000_000 * SECOND - 1_760_000_000 * SECOND % (60 * SECOND)
SENSORS = {"radar": 100_000, "optical": 30 * SECOND, "beacon": 10 * SECOND}
"""How far out of order each of them is."""
COLUMNS = (("sensor", "string"), ("object", "string"), ("metres", "bigint"))


def observations(seed: int, minutes: int = 6) -> dict[str, list[Event]]:
    """Each sensor's in the order of their arrival; optical ones come in bursts, and a few after everybody has gone on."""
    rng, found = random.Random(seed), dict[str, list[Event]]()
    for source, (sensor, bound) in enumerate(SENSORS.items()):
        times = sorted(START + rng.randrange(minutes * 60 * SECOND) for _ in range(150))
        rows = []
        for time in times:
            delay = rng.randrange(bound) if rng.random() < 0.95 else bound + rng.randrange(90 * SECOND)
            seen = {"sensor": sensor, "object": f"sat-{rng.randrange(4)}", "metres": rng.randrange(400, 6_000)}
            rows.append((time + delay, time, seen))
        rows.sort(key=lambda row: row[0])
        found[sensor] = [Event(at, time, None, row, source, ".", nth) for nth, (at, time, row) in enumerate(rows)]
    return found


def land(root: Path, seen: dict[str, list[Event]], files: int) -> None:
    for sensor, events in seen.items():
        (root / sensor).mkdir(parents=True)
        cut = -(-len(events) // files)
        for nth, first in enumerate(range(0, len(events), cut)):
            part = events[first : first + cut]
            at, ts = (
                [datetime.fromtimestamp(t / SECOND, UTC) for t in times]
                for times in ([e.arrival for e in part], [e.event_time or 0 for e in part])
            )
            path = root / sensor / f"{nth:03d}.parquet"
            pl.DataFrame({"at": at, "ts": ts, **{name: [e.row[name] for e in part] for name, _ in COLUMNS}}).write_parquet(path)
            os.utime(path, (START / SECOND + nth,) * 2)


def sky(root: Path, sink: Callable[[str], Any]) -> ev.Pipeline:
    """Four outputs, each to the sink that its name is given."""
    sensors = [
        ev.files(
            name, str(root / "in" / name), event_time="ts", arrival="at", files_per_batch=2, max_ahead=None, watermark=ev.bounded(f"{bound} us"),
        )
        for name, bound in SENSORS.items()
    ]  # fmt: skip
    seen = ev.merge(*sensors)
    counted = seen.window(ev.tumbling("1 minute"), by="sensor").agg(n=ev.count())
    risk = seen.window(ev.tumbling("30 seconds"), by="object").agg(closest=ev.min("metres"), n=ev.count())
    alerts = risk.where("closest < 1000 AND n < 8").select(km="closest / 1000")
    return ev.Pipeline(
        "sky",
        counted.to("counter", sink("counter"), late=ev.drop()),
        risk.to("risk", sink("risk"), late=ev.accumulate("5 seconds")),
        alerts.to("alerts", sink("alerts"), late=ev.retract("1 minute")),
        seen.to("audit", sink("audit")),
        state=str(root / "state"),
    )


def oracle(events: list[Event]) -> Oracle:
    sources = tuple(SourcePlan(watermark.Bounded(bound), (".",)) for bound in SENSORS.values())
    half, minute = window.Sliding(30 * SECOND, 30 * SECOND), window.Sliding(60 * SECOND, 60 * SECOND)
    alerts = View().where("closest < 1000 AND n < 8").select(km="closest / 1000")
    graph = Graph(
        sources,
        (
            Rows("seen", (0, 1, 2), COLUMNS),
            Aggregation("counted", "seen", minute, ("sensor",), (("n", aggregate.count()),)),
            Aggregation("risks", "seen", half, ("object",), (("closest", aggregate.min("metres")), ("n", aggregate.count()))),
        ),
        (
            Reading("counted", OutputPlan("counter")),
            Reading("risks", OutputPlan("risk", 5 * SECOND)),
            Reading("risks", OutputPlan("alerts", 60 * SECOND, RETRACTING, view=alerts)),
            Reading("seen", OutputPlan("audit")),
        ),
    )
    engine = Oracle(graph)
    for event in sorted(events, key=lambda e: e.position):
        engine.event(event)
    engine.drain()
    return engine


def table(panes: list[Pane], name: str) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for pane in panes:
        if pane.output == name:
            found.pop((*pane.window, *pane.key), None)
            if pane.op == "insert":
                found[(*pane.window, *pane.key)] = tuple(pane.values.values())
    return found


TABLES = (("counter", "sensor", ("n",)), ("risk", "object", ("closest", "n")), ("alerts", "object", ("km",)))
"""Each output with its key and its values."""


def watched(root: Path, spark: Any, sink: Callable[[str], Any]) -> tuple[Oracle, int]:
    """A sky that was watched to the end: what the oracle says of it, and how many observations were read."""
    seen = observations(seed=3)
    land(root / "in", seen, files=6)
    handle = sky(root, sink).run(spark, drain=True)
    return oracle([event for each in seen.values() for event in each]), handle.rows["in"]


def withdrawn(want: Oracle) -> set[Any]:
    """Alerts that stood and are gone."""
    said = {(*p.window, *p.key) for p in want.panes if p.output == "alerts" and p.op == "retract"}
    return said - table(want.panes, "alerts").keys()


def audited(want: Oracle) -> list[Any]:
    return sorted((e.source, e.offset, e.row["object"], e.row["metres"]) for _, e in want.audit)


def test_one_pipeline_for_a_whole_sky(spark: Any, tmp_path: Path) -> None:
    base = ev.sqlite(str(tmp_path / "sky.db"))
    want, read = watched(tmp_path, spark, lambda name: base)
    with sqlite3.connect(tmp_path / "sky.db") as there:
        for name, key, values in TABLES:
            bounds = [f"cast(strftime('%s', {b}) as integer) * {SECOND}" for b in ("window_start", "window_end")]
            rows = there.execute(f"select {', '.join([*bounds, key, *values])} from {name}").fetchall()
            assert {row[:3]: row[3:] for row in rows} == table(want.panes, name), name
        found = there.execute("select _source, _offset, object, metres from audit").fetchall()
    assert sorted(found) == audited(want)
    assert len(found) == read == 450
    assert withdrawn(want), "late observations ended an alert"


def test_the_same_sky_in_kafka_as_its_consumers_fold_it(spark: Any, broker: KafkaBroker, tmp_path: Path) -> None:
    ours = uuid.uuid4().hex[:8]
    want, read = watched(tmp_path, spark, lambda name: ev.kafka_topic(broker.servers, f"{name}-{ours}"))
    topics = {name: consume(broker.servers, f"{name}-{ours}") for name in ("counter", "risk", "alerts", "audit")}
    for name, key, values in TABLES:
        folded = CurrentRows()
        for message in topics[name]:
            folded.apply(json.loads(message.value()))
        rows = {(micros(r["window_start"]), micros(r["window_end"]), r[key]): tuple(r[v] for v in values) for r in folded}
        assert rows == table(want.panes, name), name
    kept = {message.key(): json.loads(message.value()) for message in topics["audit"]}  # copies have one key
    found = sorted((row["_source"], row["_offset"], row["object"], row["metres"]) for row in kept.values())
    assert found == audited(want) and len(found) == read
    ended_by(topics["alerts"], withdrawn(want))


def ended_by(messages: list[Any], gone: set[Any]) -> None:
    """The last that is said of an alert that was withdrawn is -D; of one that stands it is not."""
    said = defaultdict[Any, list[str]](list)
    for message in messages:
        row = json.loads(message.value())
        said[micros(row["window_start"]), micros(row["window_end"]), row["object"]].append(row["op"])
    ended = {at for at, ops in said.items() if ops[-1] == "-D"}
    assert ended and ended <= gone
    assert all(ops[0] == "+I" for ops in said.values())


def micros(instant: str) -> int:
    return round(datetime.fromisoformat(instant).timestamp()) * SECOND
