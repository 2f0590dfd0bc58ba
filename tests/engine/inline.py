"""The whole engine in this process, without Spark: lanes read unevenly in micro-batches with live clocks."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl
import pyarrow as pa

from eventide.engine.batch.lane_task import LaneAccount, scan_lane
from eventide.engine.batch.microbatch import BatchInput, Engine
from eventide.kernel.bound_plan import BoundPlan, Witnesses
from eventide.kernel.scan import Arrivals, LaneCarry
from eventide.model.event import Event
from eventide.model.plan import Plan
from eventide.state.store import Store
from eventide.testing.spark import event_chunk

KINDS: dict[str, pl.DataType] = {"key": pl.String(), "value": pl.Int64(), "id": pl.String()}


class InlineRunner:
    """Runs tasks one after the other in this process."""

    def run(self, tasks: list[Callable[[], str]]) -> list[str]:
        return [task() for task in tasks]


@dataclass
class InlineRun:
    """What a run said: panes and late rows of all batches, by output; instants are microseconds."""

    panes: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    late: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    ledger: Any = None


@dataclass(frozen=True)
class Table:
    """The columns of the rows, and which of them are the key."""

    keys: tuple[str, ...] = ("key",)
    kinds: Mapping[str, pl.DataType] = field(default_factory=lambda: KINDS)

    def engine(
        self,
        plan: Plan,
        root: str,
        buckets: int = 2,
        skew: int | None = None,
        witnesses: Witnesses | None = None,
        beside: Sequence[tuple[Plan, Table]] = (),
    ) -> Engine:
        """`beside` are other aggregations over the same stream, each with its own keys."""
        dedupe = ("id",) if plan.dedupe_within is not None else ()
        first, *others = (
            BoundPlan(
                plan, table.keys, dedupe, buckets, max_skew=(skew,) * len(plan.sources), witnesses=witnesses, tells_watermark=True,
                name=str(nth or ""),
            )
            for nth, (plan, table) in enumerate([(plan, self), *beside])
        )  # fmt: skip
        shape = replace(first, beside=tuple(others))
        return Engine(shape, dict(self.kinds), tuple(True for _ in shape.outputs), Store(root), InlineRunner())

    def as_the_oracle_sees(self, events: Sequence[Event]) -> list[Event]:
        """The model has one key for each event: of several columns it is their tuple, of none it is nothing."""
        return [replace(event, key=self.key_of({"key": event.key, **event.row})) for event in events]

    def key_of(self, row: Mapping[str, Any]) -> Any:
        return row.get(self.keys[0]) if len(self.keys) == 1 else tuple(row.get(k) for k in self.keys) or None


ONE_KEY = Table()


def run_in_batches(
    plan: Plan,
    events: list[Event],
    clocks: list[int],
    rng: random.Random,
    root: str,
    table: Table = ONE_KEY,
    beside: Sequence[tuple[Plan, Table]] = (),
) -> InlineRun:
    """Each batch takes of every lane any number of the rows that have arrived; the last one drains."""
    engine = table.engine(plan, root, rng.choice([1, 2, 3]), beside=beside)
    return run_engine(engine, events, clocks, rng)


def run_engine(
    engine: Engine,
    events: list[Event],
    clocks: list[int],
    rng: random.Random,
    after: Callable[[InlineRun], None] = lambda out: None,
    again: float = 0.0,
) -> InlineRun:
    """The same of an engine; `after` sees what was said after each batch, a share of which is run `again`, as after a crash before the commit."""
    kinds, sources = dict(engine.kinds), engine.shape.plan.sources
    lanes: dict[Any, list[Event]] = {(i, lane): [] for i, source in enumerate(sources) for lane in source.lanes}
    for event in events:
        lanes.setdefault(event.lane_id, []).append(event)
    read = dict.fromkeys(lanes, 0)
    names = [output.name for output in engine.shape.outputs]
    ledger, out = engine.first_ledger(), InlineRun({name: [] for name in names}, {name: [] for name in names})
    last = max((e.arrival for e in events), default=0) + 1
    for number, clock in enumerate([*clocks, last]):
        drain = number == len(clocks)
        accounts: list[LaneAccount] = []
        for lane, rows in lanes.items():
            ready = [e for e in rows[read[lane] :] if e.arrival <= clock]
            take = ready if drain else ready[: rng.choice([0, 1, 2, 5, 20, 100])]
            if take:
                cut = rng.randint(0, len(take))
                carry = ledger.carries.get(lane, LaneCarry())
                chunks = [event_chunk(take[:cut], kinds), event_chunk(take[cut:], kinds)]
                account = scan_lane(
                    engine.shape, engine.store, number, lane, carry, Arrivals.of(lane, ledger.swept, clock), chunks
                )
                accounts.append(LaneAccount.from_json(account.to_json()))
            read[lane] += len(take)
        at_end = frozenset(lane for lane, rows in lanes.items() if read[lane] == len(rows) or rows[read[lane]].arrival > clock)
        given = BatchInput(number, clock, accounts, at_end, frozenset(lanes), drain)
        result = engine.process(ledger, given)
        if again and rng.random() < again:
            result = engine.process(ledger, given)
        ledger = type(ledger).from_json(result.ledger.to_json())
        for name in out.panes:
            out.panes[name] += read_back(engine, result.panes[name])
            out.late[name] += read_back(engine, result.late[name])
        engine.store.delete(result.garbage)
        out.ledger = ledger
        after(out)
    return out


def read_back(engine: Engine, paths: list[str]) -> list[dict[str, Any]]:
    """What was said, from the files."""
    return [row for batch in engine.store.batches(paths) for row in micros(batch).to_pylist()]


def micros(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Instants as whole numbers, which no calendar bounds."""
    columns = [c.cast(pa.timestamp("us")).cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
