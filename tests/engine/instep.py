"""The engine and the oracle in step: each batch reads all that has arrived by its clock, and the oracle looks at its triggers by it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl
from inline import Table, read_back

from eventide.engine.batch import bucket_task
from eventide.engine.batch.lane_task import LaneAccount, scan_lane
from eventide.engine.batch.microbatch import BatchInput, Engine
from eventide.kernel.columns import ARRIVAL, END, SLICE, TIME
from eventide.kernel.scan import Arrivals, LaneCarry
from eventide.kernel.session_layers import standing
from eventide.model.event import Event, LaneId
from eventide.model.plan import Plan
from eventide.model.reference import Reference
from eventide.model.time import MAX_TIME
from eventide.model.window import Sliding
from eventide.state.ledger import Ledger
from eventide.testing.spark import event_chunk

Said = list[tuple[Any, ...]]


@dataclass
class Told:
    """What one of the two said: panes for each batch and output, late rows for each output, and its counts."""

    panes: list[dict[str, Said]] = field(default_factory=list)
    late: dict[str, Said] = field(default_factory=dict)
    verdicts: dict[str, Counter[str]] = field(default_factory=dict)
    rows: Counter[str] = field(default_factory=Counter)
    by_source: dict[str, Counter[str]] = field(default_factory=dict)


def engine_says(
    plan: Plan,
    events: Sequence[Event],
    clocks: Sequence[int],
    table: Table,
    root: str,
    buckets: int = 1,
    diverts: Sequence[bool] = (),
) -> Told:
    engine = table.engine(plan, root, buckets)
    engine = replace(engine, diverts=tuple(diverts) or engine.diverts)
    ledger, told = engine.first_ledger(), Told(late={o.name: [] for o in plan.outputs})
    read: dict[LaneId, int] = dict.fromkeys(sorted({e.lane_id for e in events}), 0)
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
        result = engine.process(ledger, BatchInput(number, clock, accounts, frozenset(read), frozenset(read), drain))
        ledger = Ledger.from_json(result.ledger.to_json())
        engine.store.delete(result.garbage)
        nothing_outlives_its_use(engine, ledger)
        assert all(
            map(engine.store.count, [path for files in (result.panes, result.late) for name in files for path in files[name]])
        )
        told.panes.append(
            {o.name: [_pane(r, plan, table) for r in read_back(engine, result.panes[o.name])] for o in plan.outputs}
        )
        for name in told.late:
            told.late[name] += [_late(r) for r in read_back(engine, result.late[name])]
    told.verdicts, told.rows, told.by_source = ledger.outputs, ledger.rows, ledger.by_source
    return told


def _pane(row: dict[str, Any], plan: Plan, table: Table) -> tuple[Any, ...]:
    values = [row[name] for name, _ in plan.aggregates]
    return ((row["window_start"], row["window_end"]), table.key_of(row), row["sequence"], row["op"], row["timing"], *values)


def _late(row: dict[str, Any]) -> tuple[Any, ...]:
    names = (
        "source",
        "lane",
        "offset",
        "arrival",
        "event_time",
        "watermark",
        "missed_first_end",
        "missed_last_end",
        "lateness_us",
    )
    return tuple(row[f"_{name}"] for name in names)


def nothing_outlives_its_use(engine: Engine, ledger: Ledger) -> None:
    """A window's state is kept until W >= end + the largest A, rows until they are swept; no file without a part, nothing after a drain."""
    assert set(engine.store.files("data")) == {p.path for p in ledger.parts}
    plan, now = engine.shape.plan, ledger.frontier.watermark
    widest = max(o.allowed for o in plan.outputs)
    if now == MAX_TIME:
        assert ledger.parts == []
    books = Counter((p.bucket, p.output) for p in ledger.parts if p.kind == "book")
    assert all(number <= max(bucket_task.COMPACT_ABOVE, 1) + 1 for number in books.values()), "so many are merged into one"
    for part in ledger.parts:
        (frame,) = engine.store.read([part])
        if part.kind in ("rows", "firsts"):
            assert ledger.swept is not None and frame[ARRIVAL].max() > ledger.swept[0]
        elif now is not None and part.kind == "partial" and isinstance(plan.window, Sliding):
            assert plan.window.last_end(frame[SLICE].max()) + widest > now
        elif now is not None and part.kind == "book":
            assert frame[END].max() + widest > now
        elif now is not None and part.kind == "sessions":
            own = [p for p in ledger.parts if (p.kind, p.output, p.bucket) == (part.kind, part.output, part.bucket)]
            lives = standing(engine.store.read(sorted(own, key=lambda p: p.batch)))
            allowed = next(o.allowed for o in plan.outputs if o.name == part.output)
            assert lives is not None and lives.filter(pl.col(END) + allowed <= now).is_empty()
        elif now is not None and part.kind == "kept":
            assert frame[TIME].min() + (plan.dedupe_within or 0) > now


def oracle_says(plan: Plan, events: Sequence[Event], clocks: Sequence[int]) -> Told:
    """One event at a time; a batch has one clock, read when it begins, by which its timers are set."""
    ref, told, read = Reference(plan), Told(), 0
    for number, clock in enumerate([*clocks, clocks[-1]]):
        before = len(ref.panes)
        ref.state.clock = clock
        while read < len(events) and events[read].arrival <= clock:
            _count(told, ref, events[read])
            read += 1
        if number == len(clocks):
            ref.drain()
        else:
            ref.pass_time(clock)
            ref.look(clock)
        said: dict[str, Said] = {o.name: [] for o in plan.outputs}
        for pane in ref.panes[before:]:
            said[pane.output].append((pane.window, pane.key, pane.sequence, pane.op, pane.timing, *pane.values.values()))
        told.panes.append(said)
    for index, output in enumerate(plan.outputs):
        told.late[output.name] = [_refused(r) for r in ref.late if r.output == output.name]
        pairs, worst = ref.state.pairs[index], ref.state.worst[index]
        told.verdicts[output.name] = Counter({**pairs, **{f"rows_{verdict}": number for verdict, number in worst.items()}})
    told.rows = ref.state.rows
    return told


def _count(told: Told, ref: Reference, event: Event) -> None:
    """Hand an event over; it is late for its source if W has passed the end of the first window that it can be in."""
    ref.pass_time(event.arrival)
    watermark, judged, window = ref.watermark, ref.state.rows["judged"], ref.plan.window
    ref.event(event)
    counts = told.by_source.setdefault(str(event.source), Counter())
    counts["rows"] += 1
    if ref.state.rows["judged"] > judged and watermark is not None and event.event_time is not None:
        end = window.first_end(event.event_time) if isinstance(window, Sliding) else event.event_time + window.gap
        counts["late"] += end <= watermark


def _refused(row: Any) -> tuple[Any, ...]:
    seen, first, last, event = row.watermark, row.missed[0][1], row.missed[-1][1], row.event
    return (event.source, event.lane, event.offset, event.arrival, event.event_time, seen, first, last, seen - last)
