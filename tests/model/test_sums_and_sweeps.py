"""Sums at the ends of what they can hold, and sweeps over lanes of which one was never heard."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from eventide.model import aggregate
from eventide.model.aggregate import AggregateOverflow, compute
from eventide.model.event import Event, end_of
from eventide.model.frontier import Frontier, SourceTiming
from eventide.model.lane import Progress
from eventide.model.sweep import BEFORE_ALL, Step, Swept, common_position, sweep
from eventide.model.time import MAX_TIME, MIN_TIME


def over(what: aggregate.Aggregate, values: list[Any]) -> Any:
    return compute(what, [Event(i, i, None, {"x": v}, offset=i) for i, v in enumerate(values)])


def test_a_sum_of_whole_numbers_reaches_the_ends_of_int64_and_never_passes_them() -> None:
    total = aggregate.sum("x")
    assert over(total, [MAX_TIME - 1, 1, None]) == MAX_TIME and over(total, [MIN_TIME + 1, -1]) == MIN_TIME
    assert over(total, [MAX_TIME, 5, -5]) == MAX_TIME
    for values in ([MAX_TIME, 1], [MIN_TIME, -1]):
        with pytest.raises(AggregateOverflow):
            over(total, values)
    assert over(total, [Decimal(2) ** 63, Decimal(1)]) == Decimal(2) ** 63 + 1
    assert over(total, []) is None is over(total, [None])


def test_a_sum_of_floats_is_exact_where_that_is_possible() -> None:
    total, mean = aggregate.sum("x"), aggregate.mean("x")
    assert over(total, [0.1] * 10) == 1.0 and over(total, [1e16, 1, 1, -1e16]) == 2.0 and over(mean, [0.1] * 10) == 0.1
    assert over(total, [1e308, 1e308, -1e308]) == 1e308 and over(mean, [1e308, 1e308]) == 1e308
    assert over(total, [1e308, 1e308]) == math.inf and over(total, [-1e308, -1e308]) == -math.inf
    assert over(total, [math.inf, 1.0]) == math.inf and math.isnan(over(total, [math.inf, -math.inf]))
    assert over(total, [1.0, 2.0]) == 3.0 and over(mean, [1.0, 2.0]) == 1.5 and over(mean, []) is None


def test_spread_extremes_and_quantiles_by_their_definitions() -> None:
    assert over(aggregate.variance("x"), [1, 3]) == 2.0 and over(aggregate.stddev("x"), [1, 3]) == math.sqrt(2)
    assert over(aggregate.variance("x"), [1]) is None is over(aggregate.stddev("x"), [])
    assert math.isnan(over(aggregate.variance("x"), [1.0, math.inf])) and over(aggregate.variance("x"), [math.inf]) is None
    assert over(aggregate.min("x"), [math.nan, 2.0, 1.0]) == 1.0 and over(aggregate.max("x"), [1.0, 2.0, math.nan]) == 2.0
    assert math.isnan(over(aggregate.min("x"), [math.nan])) and over(aggregate.max("x"), []) is None
    assert [over(aggregate.quantile("x", share), [4, 1, 3, 2]) for share in (0, 0.25, 0.26, 0.5, 0.75, 0.76, 1)] == [
        1,
        1,
        2,
        2,
        3,
        4,
        4,
    ]
    assert over(aggregate.quantile("x", 0.5), []) is None
    assert over(aggregate.distinct("x"), [math.nan, math.nan, 1.0, 1.0, None]) == 2
    assert over(aggregate.collect("x"), [3, None, 1, 2]) == [1, 2, 3]
    assert over(aggregate.count("x"), [None, 0]) == 1 and over(aggregate.count(), [None, 0]) == 2


def test_first_and_last_are_by_event_time_then_by_position() -> None:
    events = [Event(a, t, None, {"x": name}, 0, lane, 0) for name, a, t, lane in (("p", 5, 1, "a"), ("q", 4, 1, "b"), ("r", 4, 2, "a"), ("s", 9, 2, "a"))]  # fmt: skip
    assert compute(aggregate.first("x"), events) == "q" and compute(aggregate.last("x"), events) == "s"
    assert compute(aggregate.first("x"), []) is None


def test_a_lane_that_was_never_heard_is_idle_so_long_after_the_first_arrival_of_a_sweep() -> None:
    frontier = Frontier([SourceTiming(("a", "b"), idle_after=5)])
    told = [
        Progress((10, 0, "a", 0), 3, MAX_TIME, joins=True),
        Progress((15, 0, "a", 1), 7, MAX_TIME),
        Progress((16, 0, "a", 2), 8, MAX_TIME),
    ]
    swept, rest = sweep(frontier, told, (16, 0, "a", 2))
    assert rest == [] and frontier.watermark == 8
    assert [swept.watermark_at((at, 0, "a", 9)) for at in (14, 15, 16)] == [None, None, 8]
    assert swept.watermark_at((16, 0, "a", 2)) == 7 and swept.joinings == {(10, 0, "a", 0): None}


def test_a_sweep_takes_what_stands_at_its_end_and_leaves_what_lies_beyond() -> None:
    frontier = Frontier([SourceTiming(("a",))])
    told = [
        Progress((2, 0, "a", 1), 5, MAX_TIME),
        Progress((1, 0, "a", 0), 4, MAX_TIME, joins=True),
        Progress((2, 0, "a", 2), 6, MAX_TIME),
    ]
    swept, rest = sweep(frontier, told, (2, 0, "a", 1))
    assert frontier.watermark == 5 and rest == told[2:]
    assert swept.steps == [Step(BEFORE_ALL, None), Step((1, 0, "a", 0), 4), Step((2, 0, "a", 1), 5)]
    assert common_position([(2, 0, "a", 1), (1, 9, "z", 9)]) == (1, 9, "z", 9) and common_position([]) == BEFORE_ALL


def test_a_step_that_grows_grows_with_arrivals_and_never_shrinks() -> None:
    step = Step(end_of(10), 100, grows=True)
    assert [step.at(arrival) for arrival in (9, 10, 11, 15)] == [100, 100, 101, 105]
    assert Step(end_of(10), 100).at(50) == 100 and Step(end_of(10), None, grows=True).at(50) is None
    assert Swept([step]).watermark_at((5, 0, "a", 0)) == 100
