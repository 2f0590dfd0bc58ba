"""Figures that are known from elsewhere and must come out exactly."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace

import pytest

from eventide.model import aggregate
from eventide.model.event import Event
from eventide.model.pane import Pane
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.policy import accumulate, divert, drop
from eventide.model.reference import Reference
from eventide.model.time import instant
from eventide.model.trigger import PerRow
from eventide.model.watermark import Ascending, Bounded, Custom, ProcessingTime
from eventide.model.window import Sliding
from eventide.testing import PaneTable
from eventide.testing.recipes import (
    SECOND,
    compare_policies,
    completeness_curve,
    delayed_stream,
    two_partitions,
    upi_payments,
)

MINUTE = 60 * SECOND


def test_the_latency_completeness_curve_has_its_six_rows() -> None:
    rows = completeness_curve(delayed_stream(), [bound * SECOND for bound in (0, 2, 5, 10, 20, 40)], 10 * SECOND)
    assert [(row.bound // SECOND, row.refused, round(row.emit_latency / SECOND, 2)) for row in rows] == [
        (0, 6832, 0.87),
        (2, 4923, 2.90),
        (5, 2999, 5.79),
        (10, 1307, 10.87),
        (20, 105, 20.87),
        (40, 0, 40.87),
    ]
    assert all(row.on_time + row.refused == row.rows == 20_000 for row in rows)
    fits = [row for row in rows if row.emit_latency <= 12 * SECOND and row.completeness >= 0.9]
    assert [row.bound // SECOND for row in fits] == [10]


def test_bound_and_allowed_lateness_together_recover_what_one_large_bound_would() -> None:
    rows = completeness_curve(delayed_stream(), [5 * SECOND], 10 * SECOND, [g * SECOND for g in (0, 5, 15, 30)])
    assert [(row.allowed // SECOND, row.on_time, row.admitted, row.refused) for row in rows] == [
        (0, 17_001, 0, 2999),
        (5, 17_001, 1692, 1307),
        (15, 17_001, 2894, 105),
        (30, 17_001, 2999, 0),
    ]
    assert all(round(row.emit_latency / SECOND, 2) == 5.79 for row in rows)
    wide = completeness_curve(delayed_stream(), [bound * SECOND for bound in (5, 10, 20, 35)], 10 * SECOND)
    assert [row.refused for row in wide] == [row.refused for row in rows]


def refused(events: list[Event], strategy: object, lanes: tuple[str, ...]) -> int:
    plan = Plan((SourcePlan(strategy, lanes),), Sliding(MINUTE, MINUTE), (), (OutputPlan("drop"),))  # type: ignore[arg-type]
    engine = Reference(plan)
    for event in events:
        engine.event(event)
    return len(engine.late)


def under_min(events: list[Event], bound: int) -> int:
    return refused(events, Bounded(bound), ("a", "b"))


def in_one_lane(events: list[Event]) -> list[Event]:
    return [replace(event, lane="all", offset=offset) for offset, event in enumerate(events)]


def under_max(events: list[Event], bound: int) -> int:
    return refused(in_one_lane(events), Bounded(bound), ("all",))


def under_average(events: list[Event], bound: int) -> int:
    largest: dict[str, int] = {}
    averaged = []
    for event, moved in zip(events, in_one_lane(events), strict=True):
        largest[event.lane] = max(largest.get(event.lane, event.event_time or 0), event.event_time or 0)
        mean = sum(largest.values()) // 2 - bound if len(largest) == 2 else None
        averaged.append(replace(moved, candidate=mean))
    return refused(averaged, Custom("average"), ("all",))


def least_bound(rule: object, events: list[Event], upto: int = 30) -> int:
    """The least whole number of seconds with which no row is refused; a larger bound never refuses more."""
    return bisect_left(range(upto), 0, key=lambda bound: -rule(events, bound * SECOND))  # type: ignore[operator]


def test_two_partitions_need_only_their_own_disorder_under_min() -> None:
    events = two_partitions(trail=20, disorder=3)
    assert [least_bound(rule, events) for rule in (under_min, under_max, under_average)] == [2, 23, 13]
    safe_with_min = 2 * SECOND
    assert under_min(events, safe_with_min) == 0
    assert under_max(events, safe_with_min) > 0 and under_average(events, safe_with_min) > 0


@pytest.mark.parametrize("trail", [0, 7, 20, 45])
def test_under_min_the_trail_of_a_partition_does_not_matter(trail: int) -> None:
    for seed in range(2):
        events = two_partitions(trail=trail, disorder=3, rows=600, seed=seed)
        assert least_bound(under_min, events) <= 3
        assert trail - 1 <= least_bound(under_max, events, 60) <= trail + 3
        assert trail / 2 - 1 <= least_bound(under_average, events, 60) <= trail / 2 + 3


def test_three_policies_and_the_law_that_every_paisa_is_somewhere() -> None:
    payments = upi_payments()
    assert len(payments) == 600
    rows = compare_policies(payments, [drop(), accumulate("300 s"), divert()], 30 * SECOND, MINUTE)
    assert [(row.main, row.side, row.dropped, row.diverted) for row in rows] == [
        (142_420_67, 0, 13, 0),
        (145_035_72, 0, 2, 0),
        (142_420_67, 3_127_15, 0, 13),
    ]
    arrived = sum(event.row["paise"] for event in payments)
    assert arrived == 145_547_82
    assert all(row.total == arrived for row in rows)


def at(clock: str) -> int:
    return instant(f"2026-04-25T{clock}Z")


def minutes(panes: list[Pane], what: str = "total") -> dict[str, int]:
    table = PaneTable("accumulating").apply(panes).visible()
    shown = {}
    for (window, _), values in table.items():
        seconds = (window[0] - at("00:00:00")) // SECOND
        shown[f"{seconds // 3600:02}:{seconds // 60 % 60:02}"] = values[what]
    return shown


def test_the_same_events_by_event_time_and_by_processing_time() -> None:
    seen = [("a", "09:00:02", "09:00:03", 100), ("b", "09:00:14", "09:00:15", 200), ("c", "08:59:58", "09:01:05", 50)]
    plan = Plan(
        (SourcePlan(Bounded(2 * MINUTE), ("0",)),),
        Sliding(MINUTE, MINUTE),
        (("total", aggregate.sum("amount")),),
        (OutputPlan("out"),),
    )
    by_event, by_arrival = Reference(plan), Reference(replace(plan, sources=(SourcePlan(Ascending(), ("0",)),)))
    declared = Reference(replace(plan, sources=(SourcePlan(ProcessingTime(), ("0",)),)))
    for offset, (_, event_time, arrival, amount) in enumerate(seen):
        event = Event(at(arrival), at(event_time), None, {"amount": amount}, offset=offset)
        by_event.event(event)
        by_arrival.event(replace(event, event_time=event.arrival))
        declared.event(event)
    by_event.drain()
    by_arrival.drain()
    declared.drain()
    assert minutes(by_event.panes) == {"08:59": 50, "09:00": 300}
    assert minutes(by_arrival.panes) == minutes(declared.panes) == {"09:00": 300, "09:01": 50}


def test_an_ascending_watermark_closes_the_window_with_what_came_before() -> None:
    plan = Plan(
        (SourcePlan(Ascending(), ("0",)),), Sliding(MINUTE, MINUTE), (("who", aggregate.collect("id")),), (OutputPlan("out"),)
    )
    engine = Reference(plan)
    for offset, (name, time) in enumerate([("A", "09:00:25"), ("B", "09:00:48"), ("C", "09:00:55"), ("D", "09:01:10")]):
        engine.event(Event(at(time), at(time), None, {"id": name}, offset=offset))
    assert [(pane.window, pane.values) for pane in engine.panes] == [
        ((at("09:00:00"), at("09:01:00")), {"who": ["A", "B", "C"]})
    ]


def test_an_hour_of_allowed_lateness_admits_the_slightly_late_and_diverts_the_very_late() -> None:
    plan = Plan(
        (SourcePlan(Bounded(MINUTE), ("0",)),),
        Sliding(5 * MINUTE, 5 * MINUTE),
        (("total", aggregate.sum("amount")),),
        (OutputPlan("out", 60 * MINUTE, late=PerRow()),),
    )
    engine = Reference(plan)
    rows = [
        ("09:02:18", "09:02:14", "E1", 100),
        ("09:04:30", "09:03:55", "E2", 200),
        ("09:06:02", "09:06:01", "carries the watermark", 0),
        ("09:34:00", "09:02:14", "E3", 50),
        ("11:14:00", "11:13:59", "carries the watermark", 0),
        ("11:15:00", "09:02:14", "E4", 75),
    ]
    for offset, (arrival, time, name, amount) in enumerate(rows):
        engine.event(Event(at(arrival), at(time), None, {"id": name, "amount": amount}, offset=offset))
    window = (at("09:00:00"), at("09:05:00"))
    said = [(pane.timing, pane.sequence, pane.values["total"]) for pane in engine.panes if pane.window == window]
    assert said == [("on_time", 0, 300), ("late", 1, 350)]
    assert [(row.event.row["id"], row.missed) for row in engine.late] == [("E4", (window,))]


def test_three_sensors_w_is_undefined_until_all_are_heard_and_then_the_least() -> None:
    sensors = (("radar", 100_000), ("optical", 30 * SECOND), ("beacon", 10 * SECOND))
    plan = Plan(
        tuple(SourcePlan(Bounded(bound), (name,)) for name, bound in sensors),
        Sliding(30 * SECOND, 30 * SECOND),
        (("n", aggregate.count()),),
        (OutputPlan("events_per_minute"), OutputPlan("conjunction_risk_summary", 5 * SECOND)),
    )
    engine = Reference(plan)
    time = 100 * SECOND
    for source, (name, _) in enumerate(sensors):
        assert engine.watermark is None
        engine.event(Event(time + source, time, None, {}, source, name))
    assert engine.watermark == time - 30 * SECOND
    assert engine.frontier.holder == (1, "optical")


def test_a_correction_of_window_17_withdraws_its_last_sequence_and_inserts_the_next() -> None:
    plan = Plan(
        (SourcePlan(Ascending(), ("0",)),),
        Sliding(1, 1),
        (("risk", aggregate.max("risk")),),
        (OutputPlan("conjunction_alert", 30, "accumulating_and_retracting", late=PerRow()),),
    )
    engine = Reference(plan)
    for offset, (time, risk) in enumerate([(17, 1), (20, 0), (17, 2), (17, 5)]):
        engine.event(Event(offset, time, "sat", {"risk": risk}, offset=offset))
    said = [(pane.op, pane.sequence, pane.values["risk"]) for pane in engine.panes if pane.window == (17, 18)]
    assert said == [("insert", 0, 1), ("retract", 0, 1), ("insert", 1, 2), ("retract", 1, 2), ("insert", 2, 5)]


@pytest.mark.parametrize(
    ("size", "allowed", "factor"),
    [(30 * SECOND, 5 * SECOND, 1.17), (30 * SECOND, 30 * SECOND, 2.0), (5 * MINUTE, 60 * MINUTE, 13.0)],
)
def test_retained_state_grows_by_allowed_lateness_over_window_size(size: int, allowed: int, factor: float) -> None:
    plan = Plan((SourcePlan(Ascending(), ("0",)),), Sliding(size, size), (), (OutputPlan("o", allowed),))
    engine, held = Reference(plan), []
    step, warm = size // 30, (allowed // size + 2) * 30
    for offset in range(warm + 300):
        engine.event(Event(offset * step, offset * step, None, {}, offset=offset))
        held.append(sum(len(windows) for windows in engine.state.windows[0].values()))
    assert sum(held[warm:]) / len(held[warm:]) == pytest.approx(1 + allowed / size, abs=0.04)
    assert round(1 + allowed / size, 2) == factor
