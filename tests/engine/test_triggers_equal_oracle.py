"""In step with the oracle, pane by pane, early ones and timers too: each batch reads all that has arrived by its clock, and at its end
the oracle looks at its triggers by the same clock.

Streams are small and dense, so that times meet the edges: a row at W = end, at W = end + A, a gap apart, a timer due at this very clock.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest
from agreement import alike
from inline import KINDS, Table, read_back

from eventide.engine.ledger import Ledger
from eventide.engine.microbatch import BatchInput, Engine
from eventide.engine.scanning import LaneAccount, scan_lane
from eventide.kernel.columns import ARRIVAL, END, SLICE, TIME
from eventide.kernel.scan import Arrivals, LaneCarry
from eventide.model import aggregate
from eventide.model.event import Event, LaneId
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.policy import ACCUMULATING, DISCARDING, RETRACTING
from eventide.model.reference import Reference
from eventide.model.time import MAX_TIME
from eventide.model.trigger import After, AtExpiry, Every, EveryRows, PerBatch, PerRow, When
from eventide.model.watermark import Bounded
from eventide.model.window import Session, Sliding
from eventide.testing.spark import event_chunk

MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
LANES = ("a", "b")
TABLES = (Table(), Table(()), Table(("key", "region"), {**KINDS, "region": pl.Int32()}))
EARLY = (None, Every(2), Every(3), After(1), After(2), EveryRows(2), EveryRows(3), When("n >= 2"), When("s > 40"))
LATE = (PerBatch(), PerRow(), EveryRows(2), After(1), After(2), Every(2), AtExpiry())
AGGREGATES = (("n", aggregate.count()), ("s", aggregate.sum("value")), ("c", aggregate.collect("value")))


def small_plan(rng: random.Random, window: Any) -> Plan:
    outputs = tuple(
        OutputPlan(f"out{i}", rng.choice([0, 1, 2, 4]), rng.choice([ACCUMULATING, DISCARDING, RETRACTING]), rng.choice(EARLY), rng.choice(LATE))
        for i in range(2)
    )  # fmt: skip
    idle, advance = rng.choice([None, None, 2, 4]), rng.choice(["hold", "hold", "advance"])
    source = SourcePlan(Bounded(rng.choice([0, 1, 2])), LANES, idle)
    return Plan((source,), window, AGGREGATES, outputs, rng.choice([None, None, None, 3]), advance)


def small_stream(rng: random.Random, rows: int = 24) -> list[Event]:
    """Event times and arrivals from a few instants, most of them in order."""
    events, offsets, now = [], dict.fromkeys(LANES, 0), 0
    for _ in range(rows):
        now += rng.choice([0, 0, 1, 1, 3])
        lane = rng.choice(LANES)
        time = None if rng.random() < 0.05 else now - rng.choice([0, 0, 1, 2, 3, 5, 8])
        row = {"value": rng.choice([1, 5, 20, None]), "id": str(rng.randrange(8)), "region": rng.choice([1, None])}
        event = Event(now, time, rng.choice(["k", "k", None]), row, 0, lane, offsets[lane], dedupe_key=row["id"])
        offsets[lane] += 1
        events.append(event)
    return sorted(events, key=lambda e: e.position)


Said = list[tuple[Any, ...]]


def engine_says(
    plan: Plan, events: Sequence[Event], clocks: Sequence[int], table: Table, root: str
) -> tuple[list[dict[str, Said]], Any]:
    engine = table.engine(plan, root, buckets=1 + len(events) % 2)
    ledger, batches, read = engine.first_ledger(), [], dict.fromkeys([(0, lane) for lane in LANES], 0)
    for number, clock in enumerate([*clocks, clocks[-1]]):
        accounts = []
        for lane in read:
            rows = [e for e in events if e.lane_id == lane and e.arrival <= clock][read[lane] :]
            if rows:
                carry, arrivals = ledger.carries.get(lane, LaneCarry()), Arrivals.of(lane, ledger.swept, clock)
                chunk = event_chunk(rows, dict(table.kinds))
                account = scan_lane(engine.shape, engine.store, number, lane, carry, arrivals, [chunk])
                accounts.append(LaneAccount.from_json(account.to_json()))
                read[lane] += len(rows)
        drain = number == len(clocks)
        known: frozenset[LaneId] = frozenset(read)
        result = engine.process(ledger, BatchInput(number, clock, accounts, known, known, drain))
        ledger = Ledger.from_json(result.ledger.to_json())
        engine.store.delete(result.garbage)
        nothing_outlives_its_use(engine, ledger)
        batches.append({o.name: [_mine(r, plan, table) for r in read_back(engine, result.panes[o.name])] for o in plan.outputs})
    return batches, ledger


def nothing_outlives_its_use(engine: Engine, ledger: Ledger) -> None:
    """A window's state is kept until W >= end + the largest A, rows until they are swept; no file without a part, nothing after a drain."""
    assert set(engine.store.files("data")) == {p.path for p in ledger.parts}
    plan, now = engine.shape.plan, ledger.frontier.watermark
    widest = max(o.allowed for o in plan.outputs)
    if now == MAX_TIME:
        assert ledger.parts == []
    for part in ledger.parts:
        (frame,) = engine.store.read([part])
        if part.kind in ("rows", "firsts"):
            assert ledger.swept is not None and frame[ARRIVAL].max() >= ledger.swept[0]
        elif now is not None and part.kind == "partial" and isinstance(plan.window, Sliding):
            assert plan.window.last_end(frame[SLICE].max()) + widest > now
        elif now is not None and part.kind == "book":
            assert frame[END].max() + widest > now
        elif now is not None and part.kind == "sessions":
            assert frame[END].min() + next(o.allowed for o in plan.outputs if o.name == part.output) > now
        elif now is not None and part.kind == "kept":
            assert frame[TIME].min() + plan.dedupe_within > now


def oracle_says(plan: Plan, events: Sequence[Event], clocks: Sequence[int]) -> tuple[list[dict[str, Said]], Reference]:
    """The same, one event at a time; a batch has one clock, read when it begins, by which its timers are set."""
    ref, batches, read = Reference(plan), [], 0
    for number, clock in enumerate([*clocks, clocks[-1]]):
        before = len(ref.panes)
        ref.state.clock = clock
        while read < len(events) and events[read].arrival <= clock:
            ref.event(events[read])
            read += 1
        if number == len(clocks):
            ref.drain()
        else:
            ref.pass_time(clock)
            ref.look(clock)
        said: dict[str, Said] = {o.name: [] for o in plan.outputs}
        for pane in ref.panes[before:]:
            said[pane.output].append((pane.window, pane.key, pane.sequence, pane.op, pane.timing, *pane.values.values()))
        batches.append(said)
    return batches, ref


def _mine(row: dict[str, Any], plan: Plan, table: Table) -> tuple[Any, ...]:
    values = [row[name] for name, _ in plan.aggregates]
    return ((row["window_start"], row["window_end"]), table.key_of(row), row["sequence"], row["op"], row["timing"], *values)


def by_window(panes: Said, plan: Plan, *, nothing: bool) -> dict[Any, Said]:
    """Panes of each window and key in their order; in deltas a sum of nothing is nothing, whether it is called 0 or null."""
    found: dict[Any, Said] = defaultdict(list)
    for window, key, *rest in panes:
        values = [0 if v is None and nothing else v for v in rest]
        found[window, key].append(tuple(values))
    return found


def in_step(seed: int, window: Any) -> None:
    rng = random.Random(seed)
    plan, table, events = small_plan(rng, window(rng)), rng.choice(TABLES), small_stream(rng)
    clocks = sorted({rng.randint(0, events[-1].arrival) for _ in range(8)} | {events[-1].arrival})
    with tempfile.TemporaryDirectory(dir=MEMORY) as root:
        mine, ledger = engine_says(plan, events, clocks, table, root)
    theirs, ref = oracle_says(plan, table.as_the_oracle_sees(events), clocks)
    for number, (ours, oracles) in enumerate(zip(mine, theirs, strict=True)):
        for output in plan.outputs:
            nothing = output.accumulation == DISCARDING
            a, b = by_window(ours[output.name], plan, nothing=nothing), by_window(oracles[output.name], plan, nothing=nothing)
            assert a.keys() == b.keys(), (seed, number, output, a, b)
            assert all(alike(a[at], b[at]) for at in a), (seed, number, output, a, b)
    for index, output in enumerate(plan.outputs):
        counts = ledger.outputs[output.name]
        for verdict in ("on_time", "admitted", "refused"):
            assert counts[verdict] == ref.state.pairs[index][verdict]
            assert counts[f"rows_{verdict}"] == ref.state.worst[index][verdict]
    assert Counter({k: ledger.rows[k] for k in ("in", "dead", "duplicates")}) == Counter(
        {k: ref.state.rows[k] for k in ("in", "dead", "duplicates")}
    )


def a_session(rng: random.Random) -> Session:
    return Session(rng.choice([1, 2, 3]))


def a_grid(rng: random.Random) -> Sliding:
    size, slide = rng.choice([(2, 2), (4, 4), (4, 2), (6, 2), (5, 3)])
    return Sliding(size, slide, rng.choice([0, 1]))


@pytest.mark.parametrize("seed", range(30))
def test_sessions_in_step(seed: int) -> None:
    in_step(seed, a_session)


@pytest.mark.parametrize("seed", range(30))
def test_windows_in_step(seed: int) -> None:
    in_step(seed, a_grid)
