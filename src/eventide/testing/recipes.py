"""Two small streams with known answers, for tests, the demo and benchmarks; times are microseconds, money is paise."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from eventide.model import aggregate
from eventide.model.event import Event
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.policy import LatePolicy
from eventide.model.reference import Closing, Reference
from eventide.model.trigger import PerRow
from eventide.model.watermark import Bounded
from eventide.model.window import Sliding

SECOND = 1_000_000


def upi_payments(rows: int = 600, seed: int = 11) -> list[Event]:
    """Payments, one a second; 92% come at once, 7% up to a minute late, 1% a quarter of an hour late."""
    rng = random.Random(seed)  # noqa: S311
    arrived = []
    for second in range(rows):
        roll = rng.random()
        if roll < 0.92:
            delay = rng.randint(0, 1)
        elif roll < 0.99:
            delay = rng.randint(20, 60)
        else:
            delay = rng.randint(900, 1200)
        arrived.append((second + delay, second, {"paise": rng.randint(100, 50_000), "txn_id": f"upi_{second:04d}"}))
    arrived.sort(key=lambda payment: payment[0])
    return [
        Event(arrival * SECOND, second * SECOND, None, row, offset=offset)
        for offset, (arrival, second, row) in enumerate(arrived)
    ]


def delayed_stream(rows: int = 20_000, seed: int = 7) -> list[Event]:
    """Two events a second, each delayed by an exponential with a mean of 6 seconds, at most 25."""
    rng = random.Random(seed)  # noqa: S311
    arrived = []
    for number in range(rows):
        time = 0.5 * number
        arrived.append((time, time + min(rng.expovariate(1 / 6), 25)))
    arrived.sort(key=lambda event: event[1])
    return [
        Event(round(arrival * SECOND), round(time * SECOND), None, {"value": 1}, offset=offset)
        for offset, (time, arrival) in enumerate(arrived)
    ]


def two_partitions(trail: int = 20, disorder: int = 3, rows: int = 2_400, seed: int = 21) -> list[Event]:
    """Two lanes with four events a second each, up to `disorder` seconds out of order; lane b trails by `trail` seconds."""
    rng = random.Random(seed)  # noqa: S311
    events = []
    for lane, behind in (("a", 0), ("b", trail)):
        times = [(0.25 * n + behind + rng.uniform(0, disorder), 0.25 * n) for n in range(rows)]
        for offset, (arrival, time) in enumerate(sorted(times)):
            events.append(Event(round(arrival * SECOND), round(time * SECOND), None, {"value": 1}, lane=lane, offset=offset))
    return sorted(events, key=lambda event: event.position)


@dataclass(frozen=True)
class PolicyRow:
    """What one late policy made of the payments; all sums in paise."""

    policy: str
    main: int
    side: int
    dropped: int
    dropped_value: int
    diverted: int
    merged: int
    """Late rows that were admitted; each corrected a result."""

    @property
    def total(self) -> int:
        """Where every paisa went; by the law, what arrived."""
        return self.main + self.side + self.dropped_value


def compare_policies(events: Sequence[Event], policies: Sequence[LatePolicy], bound: int, size: int) -> list[PolicyRow]:
    """The same rows under each policy, as outputs of one aggregation, through the reference engine."""
    outputs = tuple(OutputPlan(str(policy), policy.allowed, late=PerRow()) for policy in policies)
    plan = Plan((SourcePlan(Bounded(bound), ("0",)),), Sliding(size, size), (("total", aggregate.sum("paise")),), outputs)
    engine = Reference(plan)
    for event in events:
        engine.event(event)
    engine.drain()
    return [_policy_row(engine, index, policy) for index, policy in enumerate(policies)]


def _policy_row(engine: Reference, index: int, policy: LatePolicy) -> PolicyRow:
    last = {pane.window_id: pane.values["total"] for pane in engine.panes if pane.output == str(policy)}
    refused = [row.event.row["paise"] for row in engine.late if row.output == str(policy)]
    kept = policy.refused is not None
    return PolicyRow(
        policy=str(policy),
        main=sum(last.values()),
        side=sum(refused) if kept else 0,
        dropped=0 if kept else len(refused),
        dropped_value=0 if kept else sum(refused),
        diverted=len(refused) if kept else 0,
        merged=engine.state.pairs[index]["admitted"],
    )


@dataclass(frozen=True)
class CurveRow:
    """One point of the latency/completeness curve."""

    bound: int
    allowed: int
    rows: int
    on_time: int
    admitted: int
    refused: int
    emit_latency: float
    """How far the largest event time had passed a window's end when it closed, on average, in microseconds."""

    @property
    def completeness(self) -> float:
        """The share of rows that are in a result in the end."""
        return (self.on_time + self.admitted) / self.rows


def completeness_curve(
    events: Sequence[Event], bounds: Sequence[int], size: int, allowances: Sequence[int] = (0,)
) -> list[CurveRow]:
    """One row for each watermark bound and allowed lateness, through the reference engine."""
    rows = []
    for bound in bounds:
        outputs = tuple(OutputPlan(str(allowed), allowed) for allowed in allowances)
        engine = Reference(
            Plan((SourcePlan(Bounded(bound), ("0",)),), Sliding(size, size), (("n", aggregate.count()),), outputs)
        )
        for event in events:
            engine.event(event)
            engine.panes.clear()
        first = [closing for closing in engine.closings if closing.output == str(allowances[0])]
        latency = _emit_latency(first, bound)
        for index, allowed in enumerate(allowances):
            pairs = engine.state.pairs[index]
            rows.append(CurveRow(bound, allowed, len(events), pairs["on_time"], pairs["admitted"], pairs["refused"], latency))
    return rows


def _emit_latency(closings: Sequence[Closing], bound: int) -> float:
    lags = [closing.closed_at + bound - closing.window[1] for closing in closings]
    return sum(lags) / len(lags) if lags else 0.0
