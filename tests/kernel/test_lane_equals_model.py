"""A lane read in columns, in readings and chunks of any size, is the lane that the model reads event by event."""

from __future__ import annotations

import random
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from eventide.kernel.bound_plan import BoundPlan
from eventide.kernel.columns import ARRIVAL, BEHIND, DEAD, OFFSET, ROWS, UNSEEN
from eventide.kernel.resolution import CLOCK
from eventide.kernel.scan import Arrivals, Found, LaneCarry, LaneScanner
from eventide.model import aggregate
from eventide.model.event import Event
from eventide.model.lane import LaneReading, scan
from eventide.model.lateness import crossing
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.time import MAX_TIME, MIN_TIME
from eventide.model.watermark import Adaptive, Ascending, Bounded, Custom, ProcessingTime, Punctuated, WatermarkRegression
from eventide.model.window import Session, Sliding
from eventide.testing.spark import event_chunk

LANE = (0, "a")
KINDS: dict[str, Any] = {"key": pl.String(), "value": pl.Int64()}
STRATEGIES = (
    Bounded(0), Bounded(2), Ascending(), ProcessingTime(), Punctuated("m", "v"), Custom("v"), Adaptive(0.5, 0, 20, 3, 0), Adaptive(0.9, 1, 6, 2, 4)
)  # fmt: skip
WINDOWS = (Sliding(4, 4), Sliding(4, 2), Sliding(5, 3, 1), Session(2))
AGGREGATES = (("n", aggregate.count()), ("s", aggregate.sum("value")))


def a_plan(rng: random.Random) -> Plan:
    return Plan(
        (SourcePlan(rng.choice(STRATEGIES), rng.choice([(), ("a",), ("a", "b")]), rng.choice([None, 0, 1, 2, 5])),),
        rng.choice(WINDOWS),
        AGGREGATES,
        (OutputPlan("out", rng.choice([0, 1, 3])),),
        rng.choice([None, None, 4]),
        rng.choice(["hold", "hold", "advance"]),
    )


def a_lane(rng: random.Random, plan: Plan, rows: int = 30) -> list[Event]:
    events, now = [], 0
    for offset in range(rows):
        now += rng.choice([0, 0, 1, 1, 2, 4, 6])
        time = rng.choice([None, *[now - rng.choice([0, 0, 0, 1, 2, 5, 9])] * 12])
        event = Event(now, time, rng.choice("kl"), {"value": rng.choice([1, 2, None])}, 0, "a", offset)
        if isinstance(plan.sources[0].strategy, Punctuated | Custom) and rng.random() < 0.5:
            event = replace(event, candidate=now - rng.choice([0, 1, 4]))
            if isinstance(plan.sources[0].strategy, Punctuated):
                event = replace(event, marker=True, event_time=None)
        if rng.random() < 0.05:
            event = replace(event, dead="broken")
        events.append(event)
    return events


def read(
    shape: BoundPlan, carry: LaneCarry, events: list[Event], rng: random.Random, arrivals: Arrivals | None = None
) -> Found:
    scanner = LaneScanner(shape, LANE, carry, arrivals)
    cuts = sorted(rng.randint(0, len(events)) for _ in range(rng.choice([0, 1, 3])))
    for start, end in zip([0, *cuts], [*cuts, len(events)], strict=True):
        scanner.read(event_chunk(events[start:end], KINDS))
    return scanner.finish()


def offsets(frames: list[pl.DataFrame], only: str | None = None) -> list[int]:
    return [offset for f in frames for offset in (f.filter(only) if only else f)[OFFSET].to_list()]


def each_step(before: int | None, after: int | None) -> bool:
    return before != after


def told(shape: BoundPlan) -> Callable[[int | None, int | None], bool]:
    """Which steps of a lane the sweep is told: where its clock is kept, those that close no window by themselves are not."""
    plan = shape.plan
    if not shape.keeps_clocks:
        return crossing(plan.window, plan.allowances, plan.when_all_idle, dedupes=plan.dedupe_within is not None)
    if isinstance(plan.window, Session):
        return lambda before, after: before is None and after is not None
    return crossing(plan.window, plan.allowances)


@pytest.mark.parametrize("seed", range(60))
def test_progress_suspects_and_measures_are_the_models(seed: int) -> None:
    rng = random.Random(seed)
    plan = a_plan(rng)
    events, source, shape = a_lane(rng, plan), plan.sources[0], BoundPlan(plan, ("key",))
    window, seen = plan.window, told(shape)
    first_end = window.first_end if isinstance(window, Sliding) else lambda time: time + window.gap
    reading, carry, measured = LaneReading(), LaneCarry(), {"late_at_source": 0, "out_of_order": 0, "regressions": 0}
    while events:
        take = rng.choice([1, 2, 7, 30])
        now, events = events[:take], events[take:]
        before, every = replace(carry), scan(now, deepcopy(reading), source.strategy, source.idle_after, first_end, each_step)
        want, got = scan(now, reading, source.strategy, source.idle_after, first_end, seen), read(shape, carry, now, rng)
        assert got.progress == want.progress
        if shape.keeps_clocks:
            begun = (MIN_TIME, MIN_TIME, UNSEEN if before.watermark == MIN_TIME else before.watermark)
            clock = [begun, *(row for frame in got.clocks for row in frame.select(ARRIVAL, OFFSET, CLOCK).iter_rows())]
            for step in every.progress:  # what the sweep is not told, the lane's clock says
                at, mark = (step.position[0], step.position[3]), UNSEEN if step.watermark is None else step.watermark
                assert [said for *place, said in clock if tuple(place) <= at][-1] == mark
        assert offsets(got.shares[0].rows, BEHIND) == [e.offset for e in want.suspects]
        data = [event for _, event in want.ahead]
        if any(p.joins for p in want.progress):
            sure = [
                e for e in data if e.offset not in offsets(got.shares[0].rows)
            ]  # what is sure before and after a joining, laws over W decide
        else:
            sure = [e for e in data if _sure(before, first_end(e.event_time), shape)]
        assert got.counts.get("ahead", 0) == sum(int(p[ROWS].sum()) for p in got.shares[0].partials) == len(sure)
        assert sorted(offsets(got.shares[0].rows)) == sorted(e.offset for e in [*want.suspects, *data] if e not in sure)
        assert got.counts.get("kept", 0) == len(offsets(got.shares[0].rows))
        if isinstance(window, Sliding):
            assert got.counts.get("ahead_pairs", 0) == sum(len(window.assign(e.event_time or 0)) for e in sure)
        assert got.counts.get("value_1", 0) == sum(e.row["value"] or 0 for e in sure)
        assert got.counts.get("in") == len(now) and got.counts.get("dead", 0) == len(
            [e for e in map(source.strategy.timed, now) if e.broken]
        )
        assert got.counts.get("markers", 0) == len([e for e in now if e.marker and not e.broken])
        for what in measured:
            measured[what] += got.counts.get(what, 0)
        clock = reading.clock
        assert measured == {
            "late_at_source": clock.late_at_source,
            "out_of_order": clock.out_of_order,
            "regressions": clock.regressions,
        }
        assert (carry.last_arrival, carry.last_offset) == (now[-1].arrival, now[-1].offset)
        assert carry.joined == reading.joined
        assert carry.watermark == (MIN_TIME if clock.watermark is None else clock.watermark)
        if rng.random() < 0.7:  # the sweep has come by
            carry.joined_w, carry.joined_known = rng.choice([None, now[-1].arrival - 3]), True


def _sure(carry: LaneCarry, end: int, shape: BoundPlan) -> bool:
    """Whether a row ahead of its lane needs no judging: W just before the lane joined is known, and had not closed its window."""
    return not shape.keeps_rows and carry.joined_known and (carry.joined_w is None or end > carry.joined_w)


def plain(times: list[int | None], arrivals: list[int]) -> list[Event]:
    return [Event(a, t, "k", {"value": 1}, 0, "a", i) for i, (t, a) in enumerate(zip(times, arrivals, strict=True))]


SIMPLE = Plan((SourcePlan(Bounded(0), ("a",)),), Sliding(4, 4), AGGREGATES, (OutputPlan("out"),))


def arrivals_of(found: Found) -> list[int]:
    return [a for f in found.shares[0].rows for a in f[ARRIVAL].to_list()]


def test_arrivals_are_lowered_to_the_clock_then_never_go_back_then_stand_after_what_was_swept() -> None:
    """Section 1, in that order; what is more than max_skew after the clock is lowered, what is exactly that is not."""
    shape = BoundPlan(replace(SIMPLE, window=Session(2)), ("key",), max_skew=(5,))
    found = read(
        shape, LaneCarry(), plain([1] * 6, [3, 105, 106, 90, 500, 101]), random.Random(0), Arrivals(least=50, clock=100)
    )
    assert arrivals_of(found) == [50, 105, 105, 105, 105, 105]
    assert found.counts["lowered"] == 2 and found.counts["raised"] == 1


def test_arrivals_as_far_after_the_clock_as_they_like_where_no_skew_is_said() -> None:
    shape = BoundPlan(replace(SIMPLE, window=Session(2)), ("key",))
    found = read(shape, LaneCarry(), plain([1, 1], [3, 10**15]), random.Random(0), Arrivals(least=3, clock=100))
    assert arrivals_of(found) == [3, 10**15] and "lowered" not in found.counts and "raised" not in found.counts


def test_a_lane_goes_on_from_its_last_arrival() -> None:
    shape, carry = BoundPlan(replace(SIMPLE, window=Session(2)), ("key",)), LaneCarry(last_arrival=7, last_offset=0)
    assert arrivals_of(read(shape, carry, plain([1, 1, 1], [5, 7, 8]), random.Random(0))) == [7, 7, 8]


def test_an_event_time_too_far_after_its_arrival_is_absurd() -> None:
    """Measured against arrival: exactly as far as allowed is let in; one that lies before its arrival never is too far after it."""
    shape = BoundPlan(SIMPLE, ("key",), max_ahead=(10,))
    found = read(shape, LaneCarry(), plain([110, 111, 5, None], [100, 100, 100, 100]), random.Random(0))
    assert [(o, r) for f in found.dead for o, r in f.select(OFFSET, DEAD).iter_rows()] == [
        (1, "the event time lies too far after the arrival"),
        (3, "the event time is null"),
    ]


def test_a_regression_under_fail_stops_and_names_the_place() -> None:
    strategy = Custom("v", on_regression="fail")
    shape = BoundPlan(replace(SIMPLE, sources=(SourcePlan(strategy, ("a",)),)), ("key",))
    said = [replace(e, candidate=c) for e, c in zip(plain([1] * 4, [1] * 4), [5, 5, 4, 3], strict=True)]
    with pytest.raises(WatermarkRegression, match=r"lane 'a'.* at offset 2"):
        read(shape, LaneCarry(), said, random.Random(0))
    assert read(shape, LaneCarry(), said[:2], random.Random(0)).counts.get("regressions", 0) == 0


def test_many_partials_are_merged_before_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory follows the keys, not the rows; what was merged counts once."""
    from eventide.kernel import share as module

    monkeypatch.setattr(module, "MERGE_ABOVE", 2)
    scanner = LaneScanner(BoundPlan(SIMPLE, ("key",)), LANE, LaneCarry())
    held = []
    for number in range(6):
        scanner.read(event_chunk([replace(e, offset=number) for e in plain([1 + number % 2], [number])], KINDS))
        held.append(len(scanner.found.shares[0].partials))
    assert held == [1, 2, 1, 2, 1, 2]
    assert int(sum(p[ROWS].sum() for p in scanner.finish().shares[0].partials)) == 6


def test_the_ends_of_time_stand_for_undefined() -> None:
    carry = LaneCarry()
    assert (carry.watermark, carry.max_time, carry.last_offset) == (MIN_TIME, MIN_TIME, -1)
    assert Arrivals() == Arrivals(MIN_TIME, MAX_TIME)
