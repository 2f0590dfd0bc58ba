"""The whole engine in a world that does not keep still: rows that become visible after their arrival, producers with wrong clocks, probes
that answer otherwise on the second try, batches that die and are run again, lanes that vanish from the listing, outputs in another order.

What the engine makes of the arrivals (raised or lowered) is written down by a witness, as the archive would have it; over those arrivals
its answers must be the oracle's.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl
from inline import InlineRun, Table, read_back

from eventide.engine.batch.lane_task import LaneAccount, scan_lane
from eventide.engine.batch.microbatch import BatchInput, BatchResult, Engine
from eventide.kernel.columns import ARRIVAL, OFFSET
from eventide.kernel.scan import Arrivals, LaneCarry
from eventide.model.event import Event, LaneId
from eventide.model.plan import Plan
from eventide.state.ledger import Ledger
from eventide.testing.spark import event_chunk

SKEW = 30
FAR = 100_000


@dataclass
class Recorder:
    """A witness of every lane: where each row was put."""

    found: dict[tuple[LaneId, int], int] = field(default_factory=dict)

    def __call__(self, batch: int, lane: LaneId) -> Seen:
        return Seen(self, lane)


@dataclass
class Seen:
    recorder: Recorder
    lane: LaneId

    def see(self, rows: pl.DataFrame) -> None:
        for arrival, offset in rows.select(ARRIVAL, OFFSET).iter_rows():
            self.recorder.found[self.lane, offset] = arrival

    def close(self) -> list[str]:
        return []

    def forget(self) -> None:
        raise AssertionError("no chunk of these lanes is unreadable")


@dataclass
class World:
    """When each row can be seen; a lane's rows are seen in their order."""

    lanes: dict[LaneId, list[Event]]
    visible: dict[LaneId, list[int]]

    @classmethod
    def of(cls, plan: Plan, events: Sequence[Event], rng: random.Random) -> World:
        lanes: dict[LaneId, list[Event]] = {(i, lane): [] for i, source in enumerate(plan.sources) for lane in source.lanes}
        for event in events:
            wrong = FAR + rng.randint(0, 50) if rng.random() < 0.02 else 0
            lanes.setdefault(event.lane_id, []).append(replace(event, arrival=event.arrival + wrong))
        visible: dict[LaneId, list[int]] = {}
        for lane, rows in lanes.items():
            hidden, seen, times = rng.choice([0, 0, 5, 40]), 0, []
            for row in rows:
                arrived = row.arrival if row.arrival < FAR else row.arrival - FAR
                seen = max(seen, arrived + (rng.randint(0, hidden) if rng.random() < 0.5 else 0))
                times.append(seen)
            visible[lane] = times
        return cls(lanes, visible)

    def seen(self, lane: LaneId, now: int) -> int:
        """How many rows of a lane can be seen at a time."""
        return sum(1 for time in self.visible[lane] if time <= now)

    @property
    def end(self) -> int:
        return max((time for times in self.visible.values() for time in times), default=0)


@dataclass
class Unruly:
    """One run through such a world."""

    plan: Plan
    world: World
    rng: random.Random
    root: str
    table: Table
    recorder: Recorder = field(default_factory=Recorder)
    read: dict[LaneId, int] = field(default_factory=dict)
    tries: int = 0

    def run(self, clocks: Sequence[int]) -> tuple[InlineRun, list[Event]]:
        """All batches; gives what was said, and the events as the engine placed them, in order."""
        self.buckets = self.rng.choice([1, 2, 3])
        names = [o.name for o in self.plan.outputs]
        out, ledger, last = InlineRun({n: [] for n in names}, {n: [] for n in names}), None, 0
        self.read = dict.fromkeys(self.world.lanes, 0)
        for number, clock in enumerate([*clocks, self.world.end + 1]):
            last = max(last, clock)  # the batch's clock never goes back, whatever the machine's does
            engine = self._engine()
            ledger = ledger or engine.first_ledger()
            result = self._batch(engine, ledger, number, last, drain=number == len(clocks))
            ledger = Ledger.from_json(result.ledger.to_json())
            for name in out.panes:
                out.panes[name] += read_back(engine, result.panes[name])
                out.late[name] += read_back(engine, result.late[name])
            engine.store.delete(result.garbage)
        out.ledger = ledger
        return out, self._placed()

    def _engine(self) -> Engine:
        """Each batch may be another run's, whose definition has the outputs in another order."""
        outputs = self.rng.sample(self.plan.outputs, len(self.plan.outputs))
        shuffled = replace(self.plan, outputs=tuple(outputs))
        return self.table.engine(shuffled, self.root, self.buckets, skew=SKEW, witnesses=self.recorder)

    def _batch(self, engine: Engine, ledger: Ledger, number: int, clock: int, drain: bool) -> BatchResult:
        """The batch, after any number of tries that nobody has seen; once it is begun, run again it says the same."""
        while not drain and self.rng.random() < 0.2:
            self._try(engine, ledger, number, clock, drain, self._takes(clock, drain))
            self.tries += 1
        takes = self._takes(clock, drain)
        given, result = self._try(engine, ledger, number, clock, drain, takes)
        if self.rng.random() < 0.2:
            again = self._try(engine, ledger, number, clock, drain, takes, (given.at_end or frozenset(), given.lanes))[1]
            for name in result.panes:
                assert _as_set(engine, again.panes[name]) == _as_set(engine, result.panes[name]), "the same batch, run again"
            result = again
            self.tries += 1
        for lane, take in takes.items():
            self.read[lane] += take
        return result

    def _takes(self, clock: int, drain: bool) -> dict[LaneId, int]:
        """How many rows of each lane the batch has, of those that can be seen."""
        ready = {
            lane: len(rows) - self.read[lane] if drain else max(0, self.world.seen(lane, clock) - self.read[lane])
            for lane, rows in self.world.lanes.items()
        }
        return {lane: n if drain else min(n, self.rng.choice([0, 1, 2, 5, 20, 100])) for lane, n in ready.items()}

    def _try(
        self, engine: Engine, ledger: Ledger, number: int, clock: int, drain: bool, takes: dict[LaneId, int], ends: Any = None
    ) -> tuple[BatchInput, BatchResult]:
        ledger = Ledger.from_json(ledger.to_json())
        accounts = []
        for lane, take in takes.items():
            rows = self.world.lanes[lane][self.read[lane] : self.read[lane] + take]
            if rows:
                cut = self.rng.randint(0, len(rows))
                chunks = [event_chunk(part, dict(self.table.kinds)) for part in (rows[:cut], rows[cut:])]
                carry, arrivals = ledger.carries.get(lane, LaneCarry()), Arrivals.of(lane, ledger.swept, clock)
                account = scan_lane(engine.shape, engine.store, number, lane, carry, arrivals, chunks)
                accounts.append(LaneAccount.from_json(account.to_json()))
        at_end, known = ends or self._probed(clock, takes)
        given = BatchInput(number, clock, accounts, at_end, known, drain)
        return given, engine.process(ledger, given)

    def _probed(self, clock: int, takes: dict[LaneId, int]) -> tuple[frozenset[LaneId], frozenset[LaneId]]:
        """Asked after the clock was read: meanwhile rows may have become visible. Some lanes are not listed at all."""
        later = clock + self.rng.choice([0, 0, 1, 10])
        listed = frozenset(lane for lane in self.world.lanes if self.rng.random() < 0.95)
        at_end = {lane for lane in listed if self.read[lane] + takes[lane] >= self.world.seen(lane, later)}
        return frozenset(at_end), listed

    def _placed(self) -> list[Event]:
        events = [
            replace(event, arrival=self.recorder.found[lane, event.offset])
            for lane, rows in self.world.lanes.items()
            for event in rows
        ]
        return sorted(events, key=lambda event: event.position)


def _as_set(engine: Engine, paths: list[str]) -> list[str]:
    return sorted(map(repr, read_back(engine, paths)))
