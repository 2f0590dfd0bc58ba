"""Bad input ends in a clear error or a dead letter; never in a wrong number."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventide.errors import DefinitionError
from eventide.model import aggregate, policy, trigger, watermark, window
from eventide.model.event import Event
from eventide.model.lateness import Verdict, last_threshold, verdict
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.reference import Reference
from eventide.model.time import MAX_TIME, MIN_TIME, duration, instant, plus, show_duration, show_instant
from eventide.model.view import View
from eventide.model.window import Sliding


@pytest.mark.parametrize(
    "value",
    ["0 s", "-5 s", timedelta(0), timedelta(seconds=-1), "", "  ", "soon", "5", "5 parsecs", "nan s", "inf s", "1e3 s", 30, 3.5,
     None, True, "9" * 30 + " weeks", "9" * 400 + ".5 s", timedelta.max, "0.0000001 s"],
)  # fmt: skip
def test_a_duration_that_is_not_a_positive_span_is_refused(value: object) -> None:
    with pytest.raises(DefinitionError):
        duration(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "span"),
    [("1 hour 30 minutes", 5_400_000_000), ("1h30m", 5_400_000_000), ("0.5 s", 500_000), ("10 µs", 10),
     ("2 days, 3 hrs", 183_600_000_000), (timedelta(milliseconds=1500), 1_500_000), ("+3 Seconds", 3_000_000)],
)  # fmt: skip
def test_a_duration_reads_as_people_write_it(value: str | timedelta, span: int) -> None:
    assert duration(value) == span


def test_a_zero_duration_is_taken_only_where_zero_means_something() -> None:
    assert duration("0 s", zero=True) == 0
    with pytest.raises(DefinitionError, match="zero or more"):
        duration("-1 s", zero=True)


def test_a_naive_datetime_is_refused_with_the_fix() -> None:
    with pytest.raises(DefinitionError, match="2026-11-15T19:30:00Z"):
        instant(datetime(2026, 11, 15, 19, 30))  # noqa: DTZ001
    with pytest.raises(DefinitionError, match="no time zone"):
        instant("2026-11-15T19:30:00")
    for nonsense in ("half past seven", 17, None):
        with pytest.raises(DefinitionError):
            instant(nonsense)  # type: ignore[arg-type]
    ist = timezone(timedelta(hours=5, minutes=30))
    assert instant(datetime(2026, 11, 15, 19, 30, tzinfo=ist)) == instant("2026-11-15T14:00:00Z")
    assert instant(datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)) == -1_000_000


@pytest.mark.parametrize(
    "define",
    [
        lambda: policy.accumulate("0 s"),
        lambda: policy.retract("0 s"),
        lambda: policy.accumulate("5 s", refused=policy.accumulate("9 s")),
        lambda: window.sliding("10 s", "11 s"),
        lambda: window.tumbling("0 s"),
        lambda: window.session("-1 s"),
        lambda: watermark.bounded("-1 s"),
        lambda: watermark.adaptive(math.nan),
        lambda: watermark.adaptive(1.0),
        lambda: watermark.adaptive(0.9, floor="2 minutes", ceiling="1 minute"),
        lambda: watermark.adaptive(0.9, step="0 s"),
        lambda: watermark.punctuated("m", "v", on_regression="shrug"),
        lambda: watermark.custom("v", on_regression="shrug"),
        lambda: trigger.every_rows(0),
        lambda: trigger.every_rows(True),
        lambda: trigger.every("0 s"),
        lambda: trigger.when(" "),
        lambda: aggregate.quantile("x", math.nan),
        lambda: aggregate.quantile("x", 1.5),
        lambda: aggregate.sum(""),
        lambda: aggregate.sum(7),  # type: ignore[arg-type]
        lambda: aggregate.aggregate(partial={"a": "SUM(x)"}, merge={"b": "SUM(b)"}, finish="a"),
    ],
)
def test_a_contradiction_is_an_error_where_it_is_written(define: object) -> None:
    with pytest.raises(DefinitionError) as caught:
        define()  # type: ignore[operator]
    assert len(str(caught.value)) > 30, "an error gives the value, what is allowed, and what to do next"


def over(what: aggregate.Aggregate, *values: object) -> object:
    return aggregate.compute(what, [Event(0, n, None, {"x": value}) for n, value in enumerate(values)])


def test_nan_and_infinities_give_what_ieee_says_and_never_an_order_left_to_chance() -> None:
    nan, inf = math.nan, math.inf
    assert math.isnan(over(aggregate.sum("x"), 1.0, nan))  # type: ignore[arg-type]
    assert math.isnan(over(aggregate.sum("x"), inf, -inf))  # type: ignore[arg-type]
    assert math.isnan(over(aggregate.mean("x"), inf, -inf))  # type: ignore[arg-type]
    assert over(aggregate.sum("x"), 1e308, 1e308) == inf
    assert over(aggregate.sum("x"), -1e308, -1e308) == -inf
    assert over(aggregate.mean("x"), 1e308, 1e308) == 1e308
    assert over(aggregate.sum("x"), 1e308, 1e308, -1e308) == 1e308
    assert math.isnan(over(aggregate.stddev("x"), 1.0, inf))  # type: ignore[arg-type]
    assert over(aggregate.min("x"), nan, 2.0, 1.0) == 1.0 and over(aggregate.max("x"), nan, 2.0) == 2.0
    assert math.isnan(over(aggregate.min("x"), nan))  # type: ignore[arg-type]
    for values in ([3.0, nan, 1.0], [nan, 1.0, 3.0], [1.0, 3.0, nan]):
        assert over(aggregate.quantile("x", 0.5), *values) == 3.0
        assert str(over(aggregate.collect("x"), *values)) == "[1.0, 3.0, nan]"
    assert over(aggregate.distinct("x"), nan, nan, 1.0) == 2


def test_whole_numbers_and_decimals_stay_exact_and_an_overflow_is_an_error() -> None:
    assert over(aggregate.sum("x"), 2**62, 2**62 - 1) == 2**63 - 1
    with pytest.raises(aggregate.AggregateOverflow):
        over(aggregate.sum("x"), 2**62, 2**62)
    assert over(aggregate.sum("x"), Decimal("0.1"), Decimal("0.2")) == Decimal("0.3")
    assert over(aggregate.quantile("x", 0.0), Decimal("2"), Decimal("1")) == 1.0


def test_nulls_are_no_values_and_no_values_are_null() -> None:
    for what in ("sum", "min", "max", "mean", "stddev", "variance"):
        assert over(getattr(aggregate, what)("x"), None, None) is None
    assert over(aggregate.quantile("x", 0.5), None) is None
    assert over(aggregate.count("x"), None, 1) == 1 and over(aggregate.count(), None, 1) == 2
    assert over(aggregate.collect("x"), None) == [] and over(aggregate.distinct("x"), None) == 0
    assert over(aggregate.variance("x"), 4) is None and over(aggregate.variance("x"), 4, 8) == 8.0
    assert over(aggregate.stddev("x"), 4, 8) == pytest.approx(math.sqrt(8))
    assert over(aggregate.first("x"), 7, 8) == 7 and over(aggregate.last("x"), 7, 8) == 8
    assert over(aggregate.first("x")) is None


def test_an_aggregate_of_your_own_is_parts_merged_and_finished() -> None:
    vwap = aggregate.aggregate(
        partial={"pq": "SUM(x * 2.0)", "q": "COUNT(x)"}, merge={"pq": "SUM(pq)", "q": "SUM(q)"}, finish="pq / q"
    )
    assert over(vwap, 1, 2, Decimal("3")) == 4.0
    assert vwap.columns == () and aggregate.sum("x").columns == ("x",)


times = st.one_of(
    st.integers(MIN_TIME, MAX_TIME),
    st.integers(MAX_TIME - 100, MAX_TIME),
    st.integers(MIN_TIME, MIN_TIME + 100),
    st.integers(-100, 100),
)
shapes = st.tuples(st.integers(1, 50), st.integers(1, 50), st.integers(0, 49)).map(
    lambda s: Sliding(max(s[:2]), min(s[:2]), s[2] % min(s[:2]))
)


@settings(max_examples=1000, deadline=None)
@given(times, shapes)
def test_windows_hold_their_events_up_to_both_ends_of_int64(time: int, shape: Sliding) -> None:
    assigned = shape.assign(time)
    assert assigned, "every event has a window"
    assert [end for _, end in assigned] == sorted({end for _, end in assigned})
    assert assigned[0][1] == shape.first_end(time) and assigned[-1][1] <= shape.last_end(time)
    for start, end in assigned:
        assert MIN_TIME <= start <= time and time <= end <= MAX_TIME
        assert time < end or end == MAX_TIME
        if start > MIN_TIME and end < MAX_TIME:
            assert end - start == shape.size and (start - shape.offset) % shape.slide == 0
    if MIN_TIME + 100 < time < MAX_TIME - 100:
        assert len(assigned) in (shape.size // shape.slide, -(-shape.size // shape.slide))
    assert MIN_TIME <= shape.slice_start(time) <= time < shape.slice_start(time) + shape.slice_size or time < MIN_TIME + 50


@settings(max_examples=1000, deadline=None)
@given(times, times, st.integers(0, MAX_TIME), shapes)
def test_a_verdict_does_not_change_when_w_is_taken_back_to_the_last_threshold(
    w: int, time: int, allowed: int, shape: Sliding
) -> None:
    near = max(MIN_TIME, min(MAX_TIME, w + time % 101 - 50))
    for _, end in shape.assign(near):
        if end == MAX_TIME:
            continue
        stand_in = last_threshold(w, shape, (0, allowed))
        for a in (0, allowed):
            if end + a <= MAX_TIME:
                assert verdict(stand_in, end, a) is verdict(w, end, a)


def test_sums_of_time_stop_at_the_ends() -> None:
    assert plus(MAX_TIME, 1) == MAX_TIME and plus(MIN_TIME, -1) == MIN_TIME
    assert verdict(MAX_TIME - 1, MAX_TIME - 5, MAX_TIME) is Verdict.ADMITTED
    assert show_instant(MAX_TIME) == "+∞" and show_instant(MIN_TIME) == "-∞" and show_instant(None) == "undefined"
    assert show_instant(MAX_TIME - 1).endswith("µs")
    assert show_duration(0) == "0 seconds" and show_duration(-1_500_000) == "-1 second 500 ms"


BOUNDED = watermark.Bounded(5)


def counting(strategy: watermark.Strategy = BOUNDED) -> Reference:
    return Reference(Plan((SourcePlan(strategy, ("0",)),), Sliding(10, 10), (("n", aggregate.count()),), (OutputPlan("out"),)))


def test_event_times_at_the_ends_of_int64_are_counted_once_each() -> None:
    engine = counting()
    for offset, time in enumerate([MIN_TIME, MIN_TIME + 1, 0, MAX_TIME - 1, MAX_TIME]):
        engine.event(Event(offset, time, offset=offset))
    engine.drain()
    assert sum(pane.values["n"] for pane in engine.panes) + len(engine.late) == 5


@pytest.mark.parametrize(
    "strategy", [watermark.Bounded(5), watermark.Ascending(), watermark.Custom("x"), watermark.Punctuated("m", "x")]
)
def test_dead_letters_and_rows_without_a_time_count_but_never_move_a_watermark(strategy: watermark.Strategy) -> None:
    engine = counting(strategy)
    engine.event(Event(0, 3, candidate=1))
    before = engine.watermark
    engine.event(Event(1, 10**17, candidate=10**17, dead="event time 3,170 years after its arrival", offset=1))
    engine.event(Event(2, None, candidate=10**17, offset=2))
    assert engine.watermark == before
    engine.drain()
    assert engine.state.rows["dead"] == 2 and [pane.values["n"] for pane in engine.panes] == [1]


def test_a_watermark_that_goes_back_is_counted_and_may_stop_the_pipeline() -> None:
    engine = counting(watermark.Custom("x"))
    for offset, candidate in enumerate([5, 3, 7, None, 7]):
        engine.event(Event(offset, 9, candidate=candidate, offset=offset))
    assert engine.state.lanes[0, "0"].regressions == 1 and engine.watermark == 7
    strict = counting(watermark.punctuated("m", "x", on_regression="fail"))
    strict.event(Event(0, None, candidate=5, marker=True))
    with pytest.raises(watermark.WatermarkRegression, match="offset 1"):
        strict.event(Event(1, None, candidate=4, marker=True, offset=1))


@pytest.mark.parametrize("wrong", ["n + 1", "5", "'yes'", "upper(k)", "n > 1 AND n - 1", "NOT abs(n)"])
def test_what_is_never_true_or_false_is_no_condition(wrong: str) -> None:
    for ask in (View().where, trigger.when, lambda given: aggregate.count(where=given)):
        with pytest.raises(DefinitionError, match=r"never true or false\. Write a comparison, such as .* > 0"):
            ask(wrong)


@pytest.mark.parametrize(
    "right", ["flag", "NULL", "TRUE", "n IN (1, 2)", "CASE WHEN n > 1 THEN flag ELSE FALSE END", "coalesce(flag, n > 1)"]
)
def test_what_may_be_true_or_false_is_one(right: str) -> None:
    View().where(right)
    trigger.when(right)
