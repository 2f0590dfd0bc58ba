"""Stages on Spark: the oracle's answers from files that are read unevenly, after a restart, and by a backfill from the archive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from landing import LANES, events, land, lane_rows

import eventide as ev
from eventide.definition.stages import nodes_of
from eventide.model.graph import Graph, Reading
from eventide.model.oracle import Oracle
from eventide.model.plan import OutputPlan, SourcePlan

ROWS = 800


def staged(root: Path) -> ev.Pipeline:
    payments = ev.files(
        "payments",
        str(root / "in"),
        event_time="ts",
        arrival="at",
        lane="directory",
        watermark=ev.bounded("2 s"),
        files_per_batch=3,
    )
    minutes = payments.window(ev.tumbling("1 minute"), by="bank").agg(n=ev.count(), total=ev.sum("paise"))
    fives = minutes.results(late=ev.accumulate("4 minutes")).where("n > 1").window(ev.sliding("5 minutes", "1 minute"), by="n")
    most = fives.agg(most=ev.max("total"), banks=ev.distinct("bank", exact=True))
    tens = (
        most.results(late=ev.accumulate("2 minutes"))
        .window(ev.tumbling("10 minutes"))
        .agg(sum=ev.sum("most"), last=ev.last("n"))
    )
    return ev.Pipeline(
        "staged",
        most.to("most", late=ev.retract("3 minutes")),
        tens.to("tens", late=ev.accumulate("1 minute")),
        state=str(root / "state"),
        archive=str(root / "archive"),
        buckets=2,
    )  # fmt: skip


def oracle_of(pipe: ev.Pipeline) -> Oracle:
    most, tens = (pipe.output(name) for name in ("most", "tens"))
    nodes = nodes_of(tens.aggregation)
    reads = {"most": nodes[3].name, "tens": nodes[5].name}
    outputs = [Reading(reads[o.name], OutputPlan(o.name, o.late.allowed, o.accumulation, view=o.view)) for o in (most, tens)]
    engine = Oracle(Graph((SourcePlan(pipe.sources[0].watermark, LANES),), nodes, tuple(outputs)))
    for event in events(lane_rows(ROWS)):
        engine.event(event)
    engine.drain()
    return engine


def told(pipe: Any, spark: Any, name: str) -> dict[Any, Any]:
    """What stands in the table of an output, by the end of its window and its key."""
    best: dict[Any, Any] = {}
    for row in pipe.panes(spark, name).selectExpr("*", "unix_micros(window_end) AS ends").collect():
        key, values = ((row["n"],), (row["most"], row["banks"])) if name == "most" else ((), (row["sum"], row["last"]))
        rank = (row["sequence"], row["op"] == "retract")
        best[row["ends"], key] = max(best.get((row["ends"], key), (rank, values)), (rank, values), key=lambda one: one[0])
    return {at: values for at, (rank, values) in best.items() if not rank[1]}


def expected(engine: Oracle, name: str) -> dict[Any, Any]:
    best: dict[Any, Any] = {}
    for pane in (p for p in engine.panes if p.output == name):
        at, one = (pane.window[1], pane.key), (pane.rank, tuple(pane.values.values()), pane.op)
        best[at] = max(best.get(at, one), one, key=lambda held: held[0])
    return {at: values for at, (_, values, op) in best.items() if op != "retract"}


def test_stages_on_spark_and_in_a_backfill_are_the_oracles(spark: Any, tmp_path: Path) -> None:
    pipe = staged(tmp_path)
    land(tmp_path / "in", lane_rows(ROWS), [3, 2, 2, 1], "unevenly")
    pipe.run(spark)
    handle = staged(tmp_path).run(spark, drain=True)  # a restart: nothing is left to be read, and the end is declared
    again = pipe.backfill(spark=spark, state=str(tmp_path / "again"))
    engine = oracle_of(pipe)
    for name in ("most", "tens"):
        want = expected(engine, name)
        assert len(want) > 1
        assert told(pipe, spark, name) == want
        assert told(again.pipeline, spark, name) == want
        counts = engine.counts(name)
        for outputs in (handle.outputs, again.outputs):
            assert {v: outputs[name].get(v, 0) for v in ("on_time", "admitted", "refused")} == {
                v: counts[v] for v in ("on_time", "admitted", "refused")
            }
    closed = pipe.windows(spark, "tens").collect()
    assert {row["state"] for row in closed} == {"final"} and len(closed) == len(expected(engine, "tens"))
