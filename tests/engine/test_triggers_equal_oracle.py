"""In step with the oracle, pane by pane, early ones and timers too.

Streams are small and dense, so that times meet the edges: a row at W = end, at W = end + A, a gap apart, a timer due at this very clock.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections import Counter, defaultdict
from typing import Any

import polars as pl
import pytest
from agreement import alike
from inline import KINDS, Table
from instep import Said, engine_says, oracle_says

from eventide.engine.batch import bucket_task
from eventide.model import aggregate
from eventide.model.event import Event
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.policy import ACCUMULATING, DISCARDING, RETRACTING
from eventide.model.trigger import After, AtExpiry, Every, EveryRows, PerBatch, PerRow, When
from eventide.model.watermark import Bounded
from eventide.model.window import Session, Sliding

MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
TABLES = (Table(), Table(()), Table(("key", "region"), {**KINDS, "region": pl.Int32()}))
EARLY = (None, Every(2), Every(3), After(1), After(2), EveryRows(2), EveryRows(3), When("n >= 2"), When("s > 40"))
LATE = (PerBatch(), PerRow(), EveryRows(2), After(1), After(2), Every(2), AtExpiry())
AGGREGATES = (("n", aggregate.count()), ("s", aggregate.sum("value")), ("c", aggregate.collect("value")))
ADDITIVE = (ACCUMULATING, DISCARDING, RETRACTING)


def small_plan(rng: random.Random, window: Any) -> Plan:
    outputs = tuple(
        OutputPlan(f"out{i}", rng.choice([0, 1, 2, 4]), rng.choice(ADDITIVE), rng.choice(EARLY), rng.choice(LATE))
        for i in range(2)
    )
    lanes = rng.choice([(("a", "b"),), (("a",), ("b",)), (("a",), ())])
    sources = tuple(SourcePlan(Bounded(rng.choice([0, 1, 2])), known, rng.choice([None, None, 2, 4])) for known in lanes)
    return Plan(
        sources, window, AGGREGATES, outputs, rng.choice([None, None, None, 3]), rng.choice(["hold", "hold", "advance"])
    )


def small_stream(rng: random.Random, sources: int, rows: int = 24) -> list[Event]:
    """Event times and arrivals from a few instants, most of them in order; b is a lane of the last source."""
    events, offsets, now = [], Counter[str](), 0
    for _ in range(rows):
        now += rng.choice([0, 0, 1, 1, 3])
        lane = rng.choice("ab")
        time = None if rng.random() < 0.05 else now - rng.choice([0, 0, 1, 2, 3, 5, 8])
        row = {"value": rng.choice([1, 5, 20, None]), "region": rng.choice([1, None])}
        key, copy, source = rng.choice(["k", "k", None]), str(rng.randrange(8)), sources - 1 if lane == "b" else 0
        events.append(Event(now, time, key, row, source, lane, offsets[lane], dedupe_key=copy))
        offsets[lane] += 1
    return sorted(events, key=lambda e: e.position)


def by_window(panes: Said, *, deltas: bool) -> dict[Any, Said]:
    """Panes of each window and key in their order; in deltas a sum of nothing is nothing, whether it is called 0 or null."""
    found: dict[Any, Said] = defaultdict(list)
    for window, key, *rest in panes:
        found[window, key].append(tuple(0 if v is None and deltas else v for v in rest))
    return found


def in_step(seed: int, window: Any) -> None:
    rng = random.Random(seed)
    plan, table = small_plan(rng, window(rng)), rng.choice(TABLES)
    events = small_stream(rng, len(plan.sources))
    clocks = sorted({rng.randint(0, events[-1].arrival) for _ in range(8)} | {events[-1].arrival})
    compared(plan, events, clocks, table, rng.choice([1, 2]), (True, rng.random() < 0.5))


def compared(
    plan: Plan, events: list[Event], clocks: list[int], table: Table, buckets: int = 1, diverts: Any = (True, True)
) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as root:
        mine = engine_says(plan, events, clocks, table, root, buckets, diverts)
    theirs = oracle_says(plan, table.as_the_oracle_sees(events), clocks)
    for output, keeps in zip(plan.outputs, diverts, strict=True):
        deltas = output.accumulation == DISCARDING
        for number, (ours, oracles) in enumerate(zip(mine.panes, theirs.panes, strict=True)):
            a, b = by_window(ours[output.name], deltas=deltas), by_window(oracles[output.name], deltas=deltas)
            assert a.keys() == b.keys(), (number, output, a, b)
            assert all(alike(a[at], b[at]) for at in a), (number, output, a, b)
        assert sorted(mine.late[output.name]) == (sorted(theirs.late[output.name]) if keeps else []), output
        verdicts = {
            name: n for name, n in mine.verdicts[output.name].items() if n and not name.startswith(("panes", "rows_late"))
        }
        assert verdicts == dict(theirs.verdicts[output.name]), output
        late = mine.verdicts[output.name]
        assert late["rows_late_behind_lane"] + late["rows_late_without_lane"] == late["rows_admitted"] + late["rows_refused"]
        assert late["panes"] == sum(len(batch[output.name]) for batch in mine.panes)
    assert all(mine.rows[what] == theirs.rows[what] for what in ("in", "dead", "duplicates", "markers"))
    assert mine.rows["ahead"] + mine.rows["judged"] == theirs.rows["judged"]
    assert {place: +counts for place, counts in mine.by_source.items()} == {
        p: +counts for p, counts in theirs.by_source.items()
    }


def a_session(rng: random.Random) -> Session:
    return Session(rng.choice([1, 2, 3]))


def a_grid(rng: random.Random) -> Sliding:
    size, slide = rng.choice([(2, 2), (4, 4), (4, 2), (6, 2), (5, 3)])
    return Sliding(size, slide, rng.choice([0, 1]))


@pytest.mark.parametrize("seed", range(30))
def test_sessions_in_step(seed: int) -> None:
    in_step(seed, a_session)


@pytest.mark.parametrize("seed", range(30))
def test_windows_in_step(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts are merged when more than so many are read together: always, often, or hardly ever in streams this small."""
    monkeypatch.setattr(bucket_task, "COMPACT_ABOVE", (0, 1, 8)[seed % 3])
    in_step(seed, a_grid)


def example(window: Any, rows: list[tuple[int, int, str]], clocks: list[int], outputs: list[dict[str, Any]]) -> None:
    """Rows of one lane, each with its arrival, event time and key, worth 1, 2, 4, …; W is the largest event time."""
    events = [Event(at, time, key, {"value": 2**i}, 0, "a", i) for i, (at, time, key) in enumerate(rows)]
    named = tuple(OutputPlan(f"out{i}", **output) for i, output in enumerate(outputs))
    plan = Plan((SourcePlan(Bounded(0), ("a",)),), window, AGGREGATES, named)
    compared(plan, events, clocks, Table(), diverts=(True,) * len(named))


@pytest.mark.parametrize("w", [3, 4, 6, 7])
@pytest.mark.parametrize("window", [Sliding(4, 4), Session(2)], ids=str)
def test_the_edges_of_closing_and_refusing(window: Any, w: int) -> None:
    """W = end - 1, end, end + A - 1 and end + A, for a window, and for a session that is joined, touched, or there alone."""
    outputs = [
        {"allowed": allowed, "late": late, "accumulation": a}
        for late in LATE
        for allowed, a in zip((0, 3, 3), ADDITIVE, strict=True)
    ]
    rows = [(at, time, key) for key in "abcd" for at, time in ((1, 0), (2, 1), (3, 2))]
    rows += [(4, w, "z"), *((at, time, key) for at in (5, 6) for key, time in zip("abcde", (0, 1, 2, 4, 0), strict=True))]
    example(window, sorted(rows, key=lambda r: r[0]), [3, 4, 5, 6, 8], outputs)


@pytest.mark.parametrize("window", [Sliding(4, 4), Sliding(4, 2), Session(2)], ids=str)
def test_a_late_row_alone_in_its_window_and_its_batch(window: Any) -> None:
    rows = [(1, 50, "k"), (2, 1, "k"), (3, 13, "k"), (4, 2, "k"), (5, 49, "k")]
    example(window, rows, [1, 2, 3, 4, 5, 9], [{"allowed": 60, "late": late} for late in LATE])


@pytest.mark.parametrize("window", [Sliding(20, 10), Session(3), Session(9)], ids=str)
def test_timers_counts_and_conditions_while_a_window_is_open(window: Any) -> None:
    """Rows now and then, batches with none between them, and sessions that grow, touch and merge while a timer runs."""
    rows = [(1, 1, "k"), (2, 4, "k"), (3, 2, "l"), (8, 6, "k"), (9, 7, "l"), (12, 8, "k"), (13, 1, "k"), (20, 10, "k")]
    example(
        window,
        rows,
        [*range(1, 22)],
        [{"allowed": 2, "early": early, "accumulation": a} for early in EARLY[1:] for a in (DISCARDING, RETRACTING)],
    )
