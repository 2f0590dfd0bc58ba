"""The operator watermark, case by case."""

from __future__ import annotations

import pytest

from eventide.model import aggregate
from eventide.model.event import Event, end_of
from eventide.model.frontier import Frontier, SourceTiming
from eventide.model.lane import Progress
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.reference import Reference
from eventide.model.sweep import BEFORE_ALL, common_position, sweep
from eventide.model.time import MAX_TIME
from eventide.model.watermark import Bounded
from eventide.model.window import Sliding

A, B = (0, "a"), (0, "b")


def frontier(idle_after: int | None = None, when_all_idle: str = "hold") -> Frontier:
    return Frontier([SourceTiming(("a", "b"), idle_after)], when_all_idle)


def test_a_lane_that_was_never_heard_counts_until_it_has_been_silent_since_the_first_arrival() -> None:
    f = frontier(idle_after=10)
    f.pass_time(100)
    f.hear(A, 100, 50)
    f.pass_time(110)
    assert f.watermark is None and f.holder == B
    f.hear(A, 110, 60)
    f.pass_time(111)
    assert f.watermark == 60 and f.holder == A


def test_without_idle_after_a_silent_lane_holds_w_forever() -> None:
    f = frontier()
    f.pass_time(0)
    f.hear(A, 0, 50)
    f.pass_time(MAX_TIME)
    assert f.watermark is None and f.holder == B


def test_idle_instants_are_taken_in_order_not_when_the_next_event_happens_to_come() -> None:
    seen = []
    f = frontier(idle_after=10)
    f.on_timer = lambda instant: seen.append((instant, f.watermark))
    for lane, arrival, watermark in ((A, 0, 5), (B, 4, 9)):
        f.pass_time(arrival)
        f.hear(lane, arrival, watermark)
    f.pass_time(1000)
    assert seen == [(10, 9), (14, 9)], "a falls idle first, so W rises to b's 9 before b falls idle too"
    assert f.holder is None


def test_lanes_that_fall_idle_at_the_same_instant_do_so_together() -> None:
    f = frontier(idle_after=10)
    f.pass_time(0)
    f.hear(A, 0, 5)
    f.hear(B, 0, 9)
    f.pass_time(11)
    assert f.watermark == 5, "with both idle at once, neither raised W"


def test_when_all_are_idle_w_holds_or_grows_with_time_from_that_instant() -> None:
    for choice, want in (("hold", 5), ("advance", 5 + 89)):
        f = frontier(10, choice)
        f.pass_time(0)
        f.hear(A, 0, 5)
        f.hear(B, 1, 5)
        f.pass_time(100)
        assert f.watermark == want
    f.hear(A, 100, 7)
    f.pass_time(105)
    assert f.watermark == 94, "with a lane back it stops growing, and does not go back"


def test_a_lane_that_appears_later_joins_with_its_first_event() -> None:
    f = Frontier([SourceTiming(("a",))])
    f.hear(A, 0, 50)
    assert f.watermark == 50
    f.hear(B, 1, 20)
    assert f.watermark == 50 and f.holder == B
    f.hear(A, 2, 90)
    assert f.watermark == 50
    f.hear(B, 3, 70)
    assert f.watermark == 70


def test_a_lane_that_has_said_nothing_yet_holds_w_where_it_is() -> None:
    f = frontier()
    f.hear(A, 0, 50)
    f.hear(B, 0, None)
    assert f.watermark is None and f.holder == B


def test_drain_moves_w_to_the_end_of_time() -> None:
    f = frontier()
    f.drain()
    assert f.watermark == MAX_TIME


def test_a_sweep_goes_no_further_than_it_is_told_and_keeps_the_rest() -> None:
    f = Frontier([SourceTiming(("a",))])
    told = [Progress((5, 0, "a", 0), 10, MAX_TIME, True), Progress((9, 0, "a", 1), 30, 9)]
    swept, waiting = sweep(f, told, end_of(7))
    assert [item.position[0] for item in waiting] == [9] and f.watermark == 10
    assert swept.watermark_at((5, 0, "a", 0)) is None and swept.watermark_at((6, 0, "a", 9)) == 10
    assert swept.joinings == {(5, 0, "a", 0): None}
    assert told[0].lane == (0, "a")
    assert common_position([]) == BEFORE_ALL and common_position([end_of(3), end_of(2)]) == end_of(2)


def test_a_sweep_that_begins_while_w_grows_goes_on_growing() -> None:
    f = Frontier([SourceTiming(("a",), 10)], "advance")
    sweep(f, [Progress((0, 0, "a", 0), 100, 0, True)], end_of(20))
    swept, _ = sweep(f, [], end_of(30))
    assert [swept.watermark_at((arrival, 0, "a", 1)) for arrival in (10, 25, 28)] == [100, 115, 118]


def engine(**plan: object) -> Reference:
    sources = (SourcePlan(Bounded(0), ("a", "b"), idle_after=50),)
    return Reference(Plan(sources, Sliding(10, 10), (("n", aggregate.count()),), (OutputPlan("out"),), **plan))  # type: ignore[arg-type]


def test_an_arrival_behind_what_was_swept_is_raised_to_it_and_counted() -> None:
    e = engine()
    e.event(Event(100, 1, lane="a"))
    e.event(Event(40, 1, lane="b"))
    assert e.state.lanes[B].last_arrival == 100 and e.state.rows["raised"] == 1
    e.event(Event(90, 2, lane="b", offset=1))
    assert e.state.lanes[B].last_arrival == 100 and e.state.rows["raised"] == 1, "within a lane it is raised, not counted"


def test_inside_an_instant_a_lane_that_sorts_before_the_sweeps_end_is_raised_past_the_instant() -> None:
    e = engine()
    e.event(Event(100, 1, lane="b"))
    e.event(Event(100, 1, lane="a"))
    assert e.state.lanes[A].last_arrival == 101 and e.state.rows["raised"] == 1


def test_time_begins_with_the_first_arrival_not_with_a_heartbeat() -> None:
    e = engine()
    e.pass_time(1000)
    e.event(Event(5000, 1, lane="a"))
    e.pass_time(5050)
    assert e.watermark is None
    e.pass_time(5051)
    assert e.watermark is None, "both fell silent at the same instant; W was never defined"
    e.event(Event(5060, 7, lane="a", offset=1))
    assert e.watermark == 7


@pytest.mark.parametrize("late", [False, True])
def test_duplicates_are_dropped_for_a_span_of_event_time_the_first_by_position_stays(late: bool) -> None:
    e = engine(dedupe_within=20)
    e.event(Event(0, 5, lane="a", dedupe_key="x"))
    e.event(Event(0, 5, lane="b", dedupe_key="y"))
    if late:
        e.event(Event(1, 100, lane="a", offset=1, dedupe_key="z"))
        e.event(Event(1, 100, lane="b", offset=1, dedupe_key="w"))
    e.event(Event(2, 6, lane="a", offset=2, dedupe_key="x"))
    assert e.state.rows["duplicates"] == (0 if late else 1)
    assert len(e.late) == (1 if late else 0), "once W has passed the span, the copy is refused as late instead"
    e.event(Event(3, 30, lane="a", offset=3, dedupe_key="x"))
    assert e.state.rows["duplicates"] == (0 if late else 1), "beyond the span it is another event"
