"""The curve of `tune` against known figures and against the oracle, one event at a time."""

import random
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import pytest

from eventide.model import aggregate
from eventide.model.event import Event
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.reference import Reference
from eventide.model.watermark import Bounded
from eventide.model.window import Sliding
from eventide.testing.recipes import SECOND, completeness_curve, delayed_stream, two_partitions
from eventide.testing.spark import event_chunk
from eventide.tuning.job import Answer, LaneHistory, Record, judge_share, merged, read_lane
from eventide.tuning.lane_scan import Question
from eventide.tuning.recommendation import Tuning


def history(events, chunk=3_000):
    lanes = defaultdict(list)
    for event in events:
        lanes[event.lane_id].append(event)
    return [
        LaneHistory(lane, lambda rows=rows: (event_chunk(rows[i : i + chunk], {}) for i in range(0, len(rows), chunk)))
        for lane, rows in lanes.items()
    ]


def ask_here(question: Question, history: list[LaneHistory], shares: int = 2) -> Answer:
    """As `job.ask`, in this process and without Spark."""
    records: dict[int, list[Record]] = {share: [] for share in range(shares)}
    for lane in history:
        for share, record in read_lane(question, lane.lane, lane.chunks(), shares):
            records[share].append(record)
    return merged(question, [a for share, found in records.items() for a in judge_share(question, share, found)])


def ask(events, window, resolution=SECOND, idle_after=(None,), chunk=3_000):
    return Tuning(ask_here(Question(window, resolution, idle_after), history(events, chunk)))


@pytest.fixture(scope="module")
def delayed():
    return ask(delayed_stream(), Sliding(10 * SECOND, 10 * SECOND))


@pytest.mark.parametrize(
    ("bound", "refused", "latency"),
    [(0, 6832, 0.87), (2, 4923, 2.90), (5, 2999, 5.79), (10, 1307, 10.87), (20, 105, 20.87), (40, 0, 40.87)],
)
def test_the_known_curve_comes_out_count_by_count(delayed, bound, refused, latency):
    point = delayed.point(bound * SECOND)
    assert (point.on_time, point.refused) == (20_000 - refused, refused)
    assert round(point.emit_latency / SECOND, 2) == latency


@pytest.mark.parametrize(("allowed", "admitted", "refused"), [(0, 0, 2999), (5, 1692, 1307), (15, 2894, 105), (30, 2999, 0)])
def test_allowed_lateness_recovers_what_a_larger_bound_would(delayed, allowed, admitted, refused):
    point = delayed.point(5 * SECOND, allowed * SECOND)
    assert (point.on_time, point.admitted, point.refused) == (17_001, admitted, refused)
    assert round(point.emit_latency / SECOND, 2) == 5.79
    assert point.completeness == delayed.curve.completeness((5 + allowed) * SECOND)
    assert point.state == 1 + allowed / 10


def test_a_budget_and_a_share_choose_the_known_bound(delayed):
    chosen = delayed.within(12 * SECOND, 0.9, [b * SECOND for b in (0, 2, 5, 10, 20, 40)])
    assert chosen.bound == 10 * SECOND


def test_emit_latency_is_the_reference_engines(delayed):
    for row in completeness_curve(delayed_stream(), [0, 2 * SECOND, 7 * SECOND], 10 * SECOND):
        assert delayed.point(row.bound).emit_latency == pytest.approx(row.emit_latency)


def test_under_the_minimum_a_trailing_lane_needs_no_more_than_its_own_disorder():
    near, far = (ask(two_partitions(trail=trail), Sliding(10 * SECOND, 10 * SECOND)) for trail in (1, 60))
    assert far.curve.least_bound(1.0) <= 3 * SECOND
    assert near.curve.least_bound(1.0) <= 3 * SECOND
    assert far.answer.holder == (0, "b")
    assert far.latency_without_holder(0) < 2 * SECOND < 50 * SECOND < far.point(0).emit_latency


def random_stream(seed, lanes, rows, idle):
    rng = random.Random(seed)
    events = []
    for lane in range(lanes):
        now = rng.randrange(5)
        for offset in range(rows):
            now += rng.choice([0, 0, 1, 2, 40 if idle else 3])
            late = rng.choice([0, 0, 1, 3, 30])
            events.append(
                Event(
                    now * SECOND, max(0, now - late) * SECOND + rng.randrange(SECOND), None, {}, lane=str(lane), offset=offset
                )
            )
    return sorted(events, key=lambda e: e.position)


@pytest.mark.parametrize("seed", range(60))
def test_every_point_of_the_curve_is_the_oracles_count(seed):
    rng = random.Random(seed)
    lanes, idle = rng.choice([1, 2, 3]), rng.choice([None, 10 * SECOND])
    slide = rng.choice([5, 10])
    window = Sliding(10 * SECOND, slide * SECOND)
    events = random_stream(seed, lanes, 40, idle)
    tuning = ask(events, window, SECOND, (idle,), chunk=rng.choice([3, 7, 1000]))
    names = tuple(str(lane) for lane in range(lanes))
    for bound in (0, 1, 2, 5, 20, 60):
        outputs = (OutputPlan("now", 0), OutputPlan("later", 7 * SECOND))
        engine = Reference(
            Plan((SourcePlan(Bounded(bound * SECOND), names, idle),), window, (("n", aggregate.count()),), outputs)
        )
        for event in events:
            engine.event(event)
        pairs = engine.state.pairs
        point = tuning.point(bound * SECOND, 7 * SECOND)
        assert (point.on_time, tuning.curve.refused(bound * SECOND)) == (pairs[0]["on_time"], pairs[0]["refused"])
        assert (point.admitted, point.refused) == (pairs[1]["admitted"], pairs[1]["refused"])
        assert sum(tuning.causes(bound * SECOND).values()) == pairs[0]["refused"]


def refused_by_lane(events, window, bound, lanes):
    """What the reference engine refuses of each lane."""
    names = tuple(str(lane) for lane in range(lanes))
    plan = Plan((SourcePlan(Bounded(bound), names),), window, (("n", aggregate.count()),), (OutputPlan("now", 0),))
    engine, found = Reference(plan), dict.fromkeys(names, 0)
    for event in events:
        before = engine.state.pairs[0]["refused"]
        engine.event(event)
        found[event.lane] += engine.state.pairs[0]["refused"] - before
    return found


@pytest.mark.parametrize("seed", range(12))
def test_the_lane_that_loses_most_comes_first_and_what_its_mending_buys_is_counted(seed):
    rng, window = random.Random(seed), Sliding(10 * SECOND, 10 * SECOND)
    slow = str(rng.randrange(3))
    delays = {name: (60 if name == slow else 1) for name in "012"}
    events = [
        replace(e, event_time=max(0, e.event_time - rng.randrange(delays[e.lane]) * SECOND))
        for e in random_stream(seed, 3, 150, False)
    ]
    tuning = ask(events, window)
    refused = {bound: refused_by_lane(events, window, bound * SECOND, 3) for bound in range(100)}
    for bound in (0, 3, 20):
        reports = tuning.lanes(bound * SECOND)
        assert {r.lane[1]: r.late for r in reports} == refused[bound]
        assert reports[0].late == max(refused[bound].values())
        lost = sum(refused[bound].values())
        assert all(r.late_share == pytest.approx(r.late / lost) for r in reports if lost)
    for report in tuning.lanes():
        rest = {b: sum(n for lane, n in found.items() if lane != report.lane[1]) for b, found in refused.items()}
        least = next(b for b in range(100) if rest[b] <= 0.01 * len(events))
        assert report.bound_without == least * SECOND
    assert tuning.lanes(3 * SECOND)[0].lane == (0, slow)
    assert tuning.lanes()[0].bound_without < tuning.bound


@pytest.mark.parametrize("idle_after", [1, 5, 39, 40])
def test_silences_are_held_against_idle_after_as_the_engine_holds_them(idle_after):
    events = random_stream(7, 2, 400, True)
    arrivals = defaultdict(list)
    for event in events:
        arrivals[event.lane].append(event.arrival)
    gaps = [b - a for lane in arrivals.values() for a, b in pairwise(lane)]
    _, report = ask(events, Sliding(10 * SECOND, 10 * SECOND), idle_after=(idle_after * SECOND,), chunk=7).idle()[0]
    assert report.longest == max(gaps) and report.idle_after == idle_after * SECOND
    assert report.fallen == sum(gap > idle_after * SECOND for gap in gaps)
    assert report.p999 == pytest.approx(max(gaps), rel=1 / 16)
