"""A stream of many lanes as files on disk, cut as one likes, and what the oracle says of it."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import eventide as ev
from eventide.model.event import Event
from eventide.model.reference import Reference

SECOND = 1_000_000
START = 1_700_000_000 * SECOND
LANES = ("l0", "l1", "l2", "l3")
SHARES = (0.4, 0.3, 0.2, 0.1)
ABSURD = START + 10_000_000 * SECOND


@cache
def lane_rows(rows: int, seed: int = 5) -> dict[str, pl.DataFrame]:
    """Lanes of different pace over the same half hour; 3% of the rows are late, a few have no event time or an absurd one."""
    rng, lanes = np.random.default_rng(seed), {}
    for lane, share in zip(LANES, SHARES, strict=True):
        n = int(rows * share)
        arrival = START + np.sort(rng.integers(0, 1800 * SECOND, n))
        delay = np.where(rng.random(n) < 0.03, rng.integers(0, 400 * SECOND, n), rng.integers(0, 2 * SECOND, n))
        kind = rng.random(n)
        time = np.where(kind < 0.001, ABSURD, arrival - delay)
        key = rng.integers(0, 20, n)
        lanes[lane] = pl.DataFrame(
            {
                "ts": pl.Series(time).cast(pl.Datetime("us", "UTC")),
                "at": pl.Series(arrival).cast(pl.Datetime("us", "UTC")),
                "bank": [None if k == 0 else f"bank {k}" for k in key],
                "paise": rng.integers(0, 1000, n),
            }
        ).with_columns(pl.when(pl.Series(kind > 0.999)).then(None).otherwise(pl.col("ts")).alias("ts"))
    return lanes


@dataclass(frozen=True)
class Landing:
    """A directory of files, and how many files one batch takes of it."""

    path: str
    files: int
    per_batch: int | None


def land(root: Path, lanes: dict[str, pl.DataFrame], files: Sequence[int], order: str, seed: int = 0) -> int:
    """Write each lane as so many files. Spark reads by modification time: lanes in turn, one after the other, or at random."""
    rng, written = random.Random(seed), 0
    turns: list[tuple[Any, Path]] = []
    for index, (lane, frame) in enumerate(lanes.items()):
        (root / lane).mkdir(parents=True)
        cuts = sorted(rng.sample(range(1, len(frame)), files[index] - 1))
        for number, (low, high) in enumerate(zip([0, *cuts], [*cuts, len(frame)], strict=True)):
            path = root / lane / f"{number:05d}.parquet"
            frame[low:high].write_parquet(path)
            written += 1
            place = {"evenly": (number / files[index], index), "lane by lane": (index, number), "unevenly": None}[order]
            turns.append((place, path))
    if order == "unevenly":
        waiting = {p.parent: [q for _, q in turns if q.parent == p.parent] for _, p in turns}
        drawn = []
        while waiting:
            lane = rng.choice(sorted(waiting))
            drawn.append(waiting[lane].pop(0))
            waiting = {k: v for k, v in waiting.items() if v}
        turns = list(enumerate(drawn))
    for second, (_, path) in enumerate(sorted(turns)):
        os.utime(path, (1_700_000_000 + second, 1_700_000_000 + second))
    return written


def pipeline(source: str, state: str, per_batch: int | None = None, read: str = "auto", **more: Any) -> ev.Pipeline:
    """Three ways to treat late rows, over one aggregation."""
    payments = ev.files(
        "payments",
        source,
        event_time="ts",
        arrival="at",
        watermark=ev.bounded("2 seconds"),
        lane="directory",
        files_per_batch=per_batch,
        read=read,
    )
    minutes = payments.window(ev.tumbling("1 minute"), by="bank").agg(n=ev.count(), total=ev.sum("paise"))
    return ev.Pipeline("payments", *ways(minutes), state=state, **more)


def ways(minutes: Any) -> tuple[Any, ...]:
    return (
        minutes.to("drop", late=ev.drop()),
        minutes.to("accumulate", late=ev.accumulate("2 minutes", refused=ev.divert()), late_firing=ev.per_row()),
        minutes.to("retract", late=ev.retract("5 minutes", refused=ev.divert())),
        minutes.to("divert", late=ev.divert()),
    )


def events(lanes: dict[str, pl.DataFrame]) -> list[Event]:
    """The same rows for the oracle, in arrival order."""
    found = []
    for lane, frame in lanes.items():
        columns = frame.select(pl.col("at").dt.epoch("us"), pl.col("ts").dt.epoch("us"), "bank", "paise")
        for offset, (at, ts, bank, paise) in enumerate(columns.iter_rows()):
            dead = "absurd" if ts == ABSURD else None
            found.append(Event(at, ts, bank, {"bank": bank, "paise": paise}, 0, lane, offset, dead=dead))
    return sorted(found, key=lambda event: event.position)


@cache
def oracle_of(rows: int, drain: bool) -> Reference:
    """The oracle's answer; kept, because it takes its time."""
    plan = pipeline("/nowhere", "/nowhere").plan()
    source = plan.sources[0].__class__(plan.sources[0].strategy, LANES, None)
    engine = Reference(plan.__class__((source,), plan.window, plan.aggregates, plan.outputs))
    for event in events(lane_rows(rows)):
        engine.event(event)
    engine.look()
    if drain:
        engine.drain()
    return engine


@dataclass(frozen=True)
class Answer:
    """All that must not depend on the cut."""

    rows: dict[str, int]
    verdicts: dict[str, dict[str, int]]
    late: dict[str, list[tuple[Any, ...]]]
    tables: dict[str, dict[Any, Any]]
    panes: dict[str, dict[Any, Any]]
    """By window, of outputs that fire for every late row."""


VERDICTS = ("on_time", "admitted", "refused")


def answer_of(pipe: Any, spark: Any, rows: dict[str, int], outputs: dict[str, dict[str, int]]) -> Answer:
    """What a run left in its tables."""
    late, tables, panes = {}, {}, {}
    for output in pipe.outputs:
        said = _collected(pipe.panes(spark, output.name), "window_start", "window_end")
        tables[output.name] = standing(said)
        if isinstance(output.late_firing, ev.per_row().__class__):
            panes[output.name] = by_window(said)
        if output.late.refused is not None:
            gone = _collected(pipe.late(spark, output.name), "_event_time", "_arrival", "_missed_first_end", "_missed_last_end")
            late[output.name] = sorted(
                (r["_lane"], r["_offset"], r["_arrival"], r["_event_time"], r["_missed_first_end"], r["paise"]) for r in gone
            )
    return Answer(
        {"in": rows["in"], "dead": rows.get("dead", 0)},
        {name: {v: counts.get(v, 0) for v in VERDICTS} for name, counts in outputs.items()},
        late,
        tables,
        panes,
    )


def _collected(frame: Any, *instants: str) -> list[dict[str, Any]]:
    from pyspark.sql import functions as F

    for name in instants:
        if name in frame.columns:
            frame = frame.withColumn(name, F.unix_micros(name))
    return [row.asDict() for row in frame.collect()]


def standing(panes: list[dict[str, Any]]) -> dict[Any, Any]:
    best: dict[Any, tuple[tuple[int, bool], Any]] = {}
    for p in panes:
        at, rank = (p["window_start"], p["window_end"], p["bank"]), (p["sequence"], p["op"] == "retract")
        if at not in best or rank > best[at][0]:
            best[at] = (rank, (p["n"], p["total"]))
    return {at: values for at, (rank, values) in best.items() if not rank[1]}


def by_window(panes: list[dict[str, Any]]) -> dict[Any, Any]:
    found: dict[Any, list[Any]] = {}
    for p in panes:
        at = (p["window_start"], p["window_end"], p["bank"])
        found.setdefault(at, []).append((p["sequence"], p["op"], p["timing"], p["n"], p["total"]))
    return {at: sorted(said) for at, said in found.items()}


def answer_of_the_oracle(rows: int, drain: bool = False) -> Answer:
    engine = oracle_of(rows, drain)
    said: dict[str, list[dict[str, Any]]] = {o.name: [] for o in engine.plan.outputs}
    for p in engine.panes:
        facts = {"window_start": p.window[0], "window_end": p.window[1], "bank": p.key, "sequence": p.sequence}
        said[p.output].append({**facts, "op": p.op, "timing": p.timing, **p.values})
    late: dict[str, list[tuple[Any, ...]]] = {"accumulate": [], "retract": [], "divert": []}
    for r in engine.late:
        if r.output in late:
            e = r.event
            late[r.output].append((e.lane, e.offset, e.arrival, e.event_time, r.missed[0][1], e.row["paise"]))
    return Answer(
        {"in": engine.state.rows["in"], "dead": engine.state.rows["dead"]},
        {o.name: {v: engine.state.pairs[i][v] for v in VERDICTS} for i, o in enumerate(engine.plan.outputs)},
        {name: sorted(found) for name, found in late.items()},
        {name: standing(panes) for name, panes in said.items()},
        {"accumulate": by_window(said["accumulate"])},
    )


def assert_same(mine: Answer, theirs: Answer) -> None:
    """Part by part, so that a failure says which."""
    assert mine.rows == theirs.rows
    assert mine.verdicts == theirs.verdicts
    for name in theirs.late:
        assert mine.late[name] == theirs.late[name], f"late rows of {name}"
    for name, table in theirs.tables.items():
        wrong = {at: (mine.tables[name].get(at), table.get(at)) for at in {*table, *mine.tables[name]}
                 if mine.tables[name].get(at) != table.get(at)}  # fmt: skip
        assert not wrong, f"table of {name}: {len(wrong)} windows differ, such as {dict(list(wrong.items())[:3])}"
    for name, panes in theirs.panes.items():
        assert mine.panes[name] == panes, f"panes of {name}"
