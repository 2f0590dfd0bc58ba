"""A definition may change between batches in what is free to change: the engine goes on as one event at a time goes on.

How lanes are timed changes where all that has arrived was read and swept, since what was read before goes by the older definition; when
results are said changes anywhere.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace

import pytest
from agreement import assert_agreement
from hypothesis import given
from hypothesis import strategies as st
from inline import InlineRun, Table, read_back
from test_engine_equals_oracle import Case, cases, grids, sessions, tried

from eventide.engine.batch.lane_task import LaneAccount, scan_lane
from eventide.engine.batch.microbatch import BatchInput, Engine
from eventide.kernel.scan import Arrivals
from eventide.model.event import Event, LaneId, Position
from eventide.model.plan import Plan, SourcePlan
from eventide.model.policy import DISCARDING
from eventide.model.reference import Reference
from eventide.model.trigger import After, AtExpiry, Every, EveryRows, PerBatch, PerRow, When
from eventide.model.watermark import Adaptive, Ascending, Bounded
from eventide.model.window import Session
from eventide.state.ledger import Ledger
from eventide.testing.spark import event_chunk

SOAK = int(os.environ.get("EVENTIDE_EXAMPLES", "400"))
EARLY = [None, None, EveryRows(3), Every(10), After(7), When("n > 2")]
LATE = [PerBatch(), PerRow(), EveryRows(2), AtExpiry(), After(5), Every(6)]
STRATEGIES = [Bounded(0), Bounded(2), Bounded(10), Ascending(), Adaptive(0.9, 0, 20, 5, 10), Adaptive(0.5, 2, 8, 20, 2)]
CHANGES: Counter[str] = Counter()


def timed_anew(plan: Plan, rng: random.Random) -> Plan:
    """Other bounds, other spans of silence, another rule for when all are silent."""
    CHANGES["timing"] += 1
    sources = tuple(_timed(source, rng) for source in plan.sources)
    return replace(plan, sources=sources, when_all_idle=rng.choice(["hold", "advance"]))


def _timed(source: SourcePlan, rng: random.Random) -> SourcePlan:
    strategy = rng.choice(STRATEGIES) if isinstance(source.strategy, Bounded | Ascending | Adaptive) else source.strategy
    return replace(source, strategy=strategy, idle_after=rng.choice([None, 5, 15, 40]))


def triggered_anew(plan: Plan, rng: random.Random) -> Plan:
    """Results are said at other moments."""
    CHANGES["triggers"] += 1
    outputs = tuple(replace(o, early=rng.choice(EARLY), late=rng.choice(LATE)) for o in plan.outputs)
    return without_early_deltas(replace(plan, outputs=outputs))


def without_early_deltas(plan: Plan) -> Plan:
    """What a session added before it merged away stands under its old bounds, wherever it was cut: early deltas are not compared."""
    if not isinstance(plan.window, Session):
        return plan
    outputs = (replace(o, early=None) if o.accumulation == DISCARDING else o for o in plan.outputs)
    return replace(plan, outputs=tuple(outputs))


def last_values_only(plan: Plan) -> Plan:
    """Which panes there are between is the triggers' business: compared are late rows, verdicts and what stands at the end."""
    return replace(plan, outputs=tuple(replace(o, early=None, late=PerBatch()) for o in plan.outputs))


@dataclass
class Changing:
    """The engine in batches and the oracle beside it; both change their definition at the same places."""

    plan: Plan
    events: list[Event]
    rng: random.Random
    root: str
    table: Table
    read: dict[LaneId, int] = field(default_factory=dict)

    def run(self, clocks: list[int]) -> tuple[InlineRun, Reference]:
        names = [o.name for o in self.plan.outputs]
        self.buckets = self.rng.choice([1, 2, 3])
        self.out, self.reference = InlineRun({n: [] for n in names}, {n: [] for n in names}), Reference(self.plan)
        self.left = list(reversed(self.table.as_the_oracle_sees(self.events)))
        known = [(i, lane) for i, source in enumerate(self.plan.sources) for lane in source.lanes]
        self.lanes: dict[LaneId, list[Event]] = {lane: [] for lane in known}
        for event in self.events:
            self.lanes.setdefault(event.lane_id, []).append(event)
        self.read = dict.fromkeys(self.lanes, 0)
        ledger = self._engine().first_ledger()
        for number, clock in enumerate(clocks):
            ledger = self._batch(ledger, number, clock, drain=False)
            self._tell(ledger.swept, clock)
            self._change(ledger, clock)
        self.out.ledger = self._batch(ledger, len(clocks), self._last, drain=True)
        self._tell((self._last + 1, 0, "", 0), None)
        self.reference.drain()
        return self.out, self.reference

    @property
    def _last(self) -> int:
        return max((e.arrival for e in self.events), default=0) + 1

    def _engine(self) -> Engine:
        return self.table.engine(self.plan, self.root, self.buckets)

    def _batch(self, ledger: Ledger, number: int, clock: int, drain: bool) -> Ledger:
        engine, whole = self._engine(), drain or self.rng.random() < 0.8
        accounts = []
        for lane, rows in self.lanes.items():
            ready = [e for e in rows[self.read[lane] :] if e.arrival <= clock]
            take = ready if whole else ready[: self.rng.choice([0, 1, 5])]
            if take:
                arrivals, chunk = Arrivals.of(lane, ledger.swept, clock), event_chunk(take, dict(self.table.kinds))
                account = scan_lane(engine.shape, engine.store, number, lane, ledger.carry(lane), arrivals, [chunk])
                accounts.append(LaneAccount.from_json(account.to_json()))
            self.read[lane] += len(take)
        at_end = frozenset(lane for lane in self.lanes if self._unread(lane) > clock)
        result = engine.process(ledger, BatchInput(number, clock, accounts, at_end, frozenset(self.lanes), drain))
        for name in self.out.panes:
            self.out.panes[name] += read_back(engine, result.panes[name])
            self.out.late[name] += read_back(engine, result.late[name])
        engine.store.delete(result.garbage)
        return Ledger.from_json(result.ledger.to_json())

    def _unread(self, lane: LaneId) -> float:
        rest = self.lanes[lane][self.read[lane] :]
        return rest[0].arrival if rest else float("inf")

    def _tell(self, swept: Position | None, clock: int | None) -> None:
        while self.left and swept is not None and self.left[-1].position <= swept:
            self.reference.event(self.left.pop())
        if swept is not None and clock is not None and swept[0] > 0:
            self.reference.pass_time(swept[0])
        self.reference.look(clock)

    def _change(self, ledger: Ledger, clock: int) -> None:
        if self.rng.random() < 0.4:
            self.plan = triggered_anew(self.plan, self.rng)
        if not ledger.progress and all(self._unread(lane) > clock for lane in self.lanes):
            self.plan = timed_anew(self.plan, self.rng)
        before = self.reference
        self.reference = Reference.restore(self.plan, before.snapshot())
        self.reference.panes, self.reference.late = before.panes, before.late


def the_engine_goes_on_as_the_oracle_does(case: Case) -> None:
    plan, events, table, seed = case
    rng = random.Random(seed)
    horizon = max((e.arrival for e in events), default=0)
    clocks = sorted(rng.randint(0, horizon) for _ in range(rng.randint(1, 12)))
    with tempfile.TemporaryDirectory() as root:
        got, reference = Changing(without_early_deltas(plan), events, rng, root, table).run(clocks)
    assert_agreement(last_values_only(plan), got, reference, table)


@tried(60)
@given(cases(grids))
def test_windows_go_on_under_a_changed_definition(case: Case) -> None:
    the_engine_goes_on_as_the_oracle_does(case)


@tried(40)
@given(cases(sessions))
def test_sessions_go_on_under_a_changed_definition(case: Case) -> None:
    the_engine_goes_on_as_the_oracle_does(case)


@tried(30)
@given(cases(st.one_of(grids, sessions), dedupe=True))
def test_duplicates_are_told_under_a_changed_definition(case: Case) -> None:
    the_engine_goes_on_as_the_oracle_does(case)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@tried(SOAK)
@given(st.one_of(cases(grids), cases(grids), cases(sessions), cases(st.one_of(grids, sessions), dedupe=True)))
def test_many_streams_go_on_under_changed_definitions(case: Case) -> None:
    the_engine_goes_on_as_the_oracle_does(case)
