"""Every small stream, every cut, every single crash: all streams of a few rows over two lanes, compared with the oracle.

Rows have event times 0-3 and arrivals 0-2 (within a lane arrivals never go back), windows of 2, allowed lateness 0 and 1, bound 0.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator

import pytest
from agreement import assert_agreement, oracle
from inline import InlineRun, Table, read_back

from eventide.engine.batch.lane_task import LaneAccount, scan_lane
from eventide.engine.batch.microbatch import BatchInput, BatchResult, Engine
from eventide.kernel.scan import Arrivals, LaneCarry
from eventide.model import aggregate
from eventide.model.event import Event, LaneId
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.trigger import PerRow
from eventide.model.watermark import Bounded
from eventide.model.window import Session, Sliding
from eventide.state.ledger import Ledger
from eventide.testing.spark import event_chunk

TABLE = Table()
TIMES, ARRIVALS, LANES = range(4), range(3), ("a", "b")
WINDOWS = {"tumbling": Sliding(2, 2), "session": Session(1)}


def plan(window: object) -> Plan:
    outputs = (OutputPlan("none", 0, late=PerRow()), OutputPlan("one", 1, late=PerRow()))
    return Plan((SourcePlan(Bounded(0), LANES),), window, (("n", aggregate.count()), ("s", aggregate.sum("value"))), outputs)  # type: ignore[arg-type]


def lanes_of(rows: int) -> Iterator[list[tuple[int, int]]]:
    """Every lane of so many rows: (arrival, event time), arrivals in order."""
    for arrivals in itertools.combinations_with_replacement(ARRIVALS, rows):
        for times in itertools.product(TIMES, repeat=rows):
            yield list(zip(arrivals, times, strict=True))


def streams(rows: int) -> Iterator[dict[LaneId, list[Event]]]:
    """Every stream of so many rows over the two lanes."""
    for first in range(rows + 1):
        for a, b in itertools.product(lanes_of(first), lanes_of(rows - first)):
            yield {
                (0, lane): [Event(at, time, "k", {"value": 10**i}, 0, lane, i) for i, (at, time) in enumerate(facts)]
                for lane, facts in zip(LANES, (a, b), strict=True)
            }


def cuts(stream: dict[LaneId, list[Event]]) -> Iterator[list[int]]:
    """Every way to cut the arrivals into batches, by clocks; the last batch drains."""
    for number in range(len(ARRIVALS)):
        yield from (list(clocks) for clocks in itertools.combinations(ARRIVALS, number))


def a_try(
    engine: Engine, ledger: Ledger, stream: dict[LaneId, list[Event]], number: int, clock: int, drain: bool
) -> BatchResult:
    ledger = Ledger.from_json(ledger.to_json())
    accounts = []
    for lane, rows in stream.items():
        carry = ledger.carries.get(lane, LaneCarry())
        fresh = [e for e in rows[carry.last_offset + 1 :] if drain or e.arrival <= clock]
        if fresh:
            arrivals, chunk = Arrivals.of(lane, ledger.swept, clock), event_chunk(fresh, dict(TABLE.kinds))
            account = scan_lane(engine.shape, engine.store, number, lane, carry, arrivals, [chunk])
            accounts.append(LaneAccount.from_json(account.to_json()))
    return engine.process(ledger, BatchInput(number, clock, accounts, frozenset(stream), frozenset(stream), drain))


def the_engine(of: Plan, stream: dict[LaneId, list[Event]], clocks: list[int], crash: int | None, root: str) -> InlineRun:
    """In batches; the one that crashes was computed to its end, and is run again by an engine that starts from the journal."""
    engine = TABLE.engine(of, root, buckets=1)
    ledger, out = engine.first_ledger(), InlineRun({"none": [], "one": []}, {"none": [], "one": []})
    for number, clock in enumerate([*clocks, max(ARRIVALS) + 1]):
        if number == crash:
            a_try(engine, ledger, stream, number, clock, drain=number == len(clocks))
            engine = TABLE.engine(of, root, buckets=1)
        result = a_try(engine, ledger, stream, number, clock, drain=number == len(clocks))
        ledger = Ledger.from_json(result.ledger.to_json())
        for name in out.panes:
            out.panes[name] += read_back(engine, result.panes[name])
            out.late[name] += read_back(engine, result.late[name])
    out.ledger = ledger
    return out


def compared(rows: int, window: object, share: int = 1) -> tuple[int, int]:
    """How many streams and how many runs of them were compared; `share`: every so many-th stream."""
    of, found, runs = plan(window), 0, 0
    for index, stream in enumerate(streams(rows)):
        if index % share:
            continue
        events = sorted((e for lane in stream.values() for e in lane), key=lambda e: e.position)
        want = oracle(of, TABLE.as_the_oracle_sees(events))
        found += 1
        for clocks in cuts(stream):
            for crash in (None, *range(len(clocks) + 1)):
                with tempfile.TemporaryDirectory(dir=_memory()) as root:
                    assert_agreement(of, the_engine(of, stream, clocks, crash, root), want, TABLE)
                runs += 1
    return found, runs


def _memory() -> str | None:
    """Many small files: in memory, where there is such a directory."""
    return "/dev/shm" if os.path.isdir("/dev/shm") else None


@pytest.mark.parametrize("window", WINDOWS)
def test_a_share_of_all_small_streams(window: str) -> None:
    streams_compared, runs = compared(2, WINDOWS[window], share=40)
    assert streams_compared > 5 and runs > 50


@pytest.mark.soak
@pytest.mark.timeout(24 * 3600)
@pytest.mark.parametrize("window", WINDOWS)
def test_all_small_streams(window: str) -> None:
    """All of up to EVENTIDE_SMALL rows (2 by default; 5 is the whole scope, and takes days on two cores); of more, every so many-th."""
    most, share = int(os.environ.get("EVENTIDE_SMALL", "2")), int(os.environ.get("EVENTIDE_SHARE", "1"))
    for rows in range(1, most + 1):
        print(f"\n{window}, {rows} rows: %d streams, %d runs" % compared(rows, WINDOWS[window], share if rows > 2 else 1))
