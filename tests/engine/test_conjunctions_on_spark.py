"""Three sensors of one sky in one pipeline: a counter, a summary of risks, alerts that late data withdraws, and every observation, as the oracle has them."""

from __future__ import annotations

import os
import random
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

import eventide as ev
from eventide.model import aggregate, watermark, window
from eventide.model.event import Event
from eventide.model.graph import Aggregation, Graph, Reading, Rows
from eventide.model.oracle import Oracle
from eventide.model.pane import Pane
from eventide.model.plan import OutputPlan, SourcePlan
from eventide.model.policy import RETRACTING
from eventide.model.view import View

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


def sky(root: Path) -> ev.Pipeline:
    sensors = [
        ev.files(
            name, str(root / "in" / name), event_time="ts", arrival="at", files_per_batch=2, max_ahead=None, watermark=ev.bounded(f"{bound} us"),
        )
        for name, bound in SENSORS.items()
    ]  # fmt: skip
    seen, sink = ev.merge(*sensors), ev.sqlite(str(root / "sky.db"))
    counted = seen.window(ev.tumbling("1 minute"), by="sensor").agg(n=ev.count())
    risk = seen.window(ev.tumbling("30 seconds"), by="object").agg(closest=ev.min("metres"), n=ev.count())
    return ev.Pipeline(
        "sky",
        counted.to("counter", sink, late=ev.drop()),
        risk.to("risk", sink, late=ev.accumulate("5 seconds")),
        risk.where("closest < 1000 AND n < 8").select(km="closest / 1000").to("alerts", sink, late=ev.retract("1 minute")),
        seen.to("audit", sink),
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


def test_one_pipeline_for_a_whole_sky(spark: Any, tmp_path: Path) -> None:
    seen = observations(seed=3)
    land(tmp_path / "in", seen, files=6)
    handle = sky(tmp_path).run(spark, drain=True)
    events = [event for each in seen.values() for event in each]
    want = oracle(events)
    with sqlite3.connect(tmp_path / "sky.db") as base:
        for name, key, values in (("counter", "sensor", "n"), ("risk", "object", "closest, n"), ("alerts", "object", "km")):
            bounds = [f"cast(strftime('%s', {b}) as integer) * {SECOND}" for b in ("window_start", "window_end")]
            rows = base.execute(f"select {', '.join(bounds)}, {key}, {values} from {name}").fetchall()
            assert {row[:3]: row[3:] for row in rows} == table(want.panes, name), name
        audited = base.execute("select _source, _offset, object, metres from audit").fetchall()
    assert sorted(audited) == sorted((e.source, e.offset, e.row["object"], e.row["metres"]) for _, e in want.audit)
    assert len(audited) == handle.rows["in"] == 450
    phantoms = [p for p in want.panes if p.output == "alerts" and p.op == "retract"]
    gone = {(p.window, p.key) for p in phantoms} - {(at[:2], at[2:]) for at in table(want.panes, "alerts")}
    assert gone, "late observations ended an alert, which was withdrawn"
