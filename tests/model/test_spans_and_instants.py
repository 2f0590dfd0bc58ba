"""Spans and instants as people write them, positions and their edges, and the small facts that everything else is built on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from eventide.errors import DefinitionError
from eventide.model import aggregate, plan, policy, sql, trigger, watermark, window
from eventide.model.event import LAST_LANE, Event, end_of, least_arrival, start_of
from eventide.model.pane import INSERT, LATE, LateRow, Pane
from eventide.model.time import (
    LATEST,
    LONGEST,
    MAX_TIME,
    MIN_TIME,
    duration,
    instant,
    plus,
    saturate,
    show_duration,
    show_instant,
)

SECOND = 1_000_000
UNITS = {
    "us": 1, "µs": 1, "microsecond": 1, "microseconds": 1, "ms": 1_000, "millisecond": 1_000, "milliseconds": 1_000,
    "s": SECOND, "sec": SECOND, "secs": SECOND, "second": SECOND, "seconds": SECOND, "m": 60 * SECOND, "min": 60 * SECOND, "mins": 60 * SECOND,
    "minute": 60 * SECOND, "h": 3600 * SECOND, "hr": 3600 * SECOND, "hour": 3600 * SECOND, "hours": 3600 * SECOND, "d": 86400 * SECOND,
    "day": 86400 * SECOND, "days": 86400 * SECOND, "w": 7 * 86400 * SECOND, "week": 7 * 86400 * SECOND, "weeks": 7 * 86400 * SECOND,
}  # fmt: skip


@pytest.mark.parametrize("unit", UNITS)
def test_every_unit_by_each_of_its_names(unit: str) -> None:
    assert duration(f"3 {unit}") == 3 * UNITS[unit] == duration(f"3{unit.upper() if unit.isascii() else unit}")


def test_spans_add_up_and_fractions_round_to_the_nearest_microsecond() -> None:
    assert duration("1 hour 2 min, 3.5 s") == (3600 + 120) * SECOND + 3_500_000
    assert duration("1.4 us") == 1 and duration("1.5 us") == 2 and duration("0.25 ms 0.25 us") == 250
    assert duration("+5 s") == 5 * SECOND == duration(timedelta(seconds=5))
    assert duration(timedelta(days=1, hours=1, microseconds=7)) == 90_000 * SECOND + 7


@pytest.mark.parametrize(
    "bad", ["", "   ", "5", "s", "5 parsecs", "5 s x", "-5 s", "0 s", 5, None, timedelta(0), timedelta(seconds=-1)]
)
def test_what_is_no_span_is_refused(bad: object) -> None:
    with pytest.raises(DefinitionError):
        duration(bad)  # type: ignore[arg-type]


def test_zero_only_where_it_is_allowed_and_never_less() -> None:
    assert duration("0 s", zero=True) == 0 == duration(timedelta(0), zero=True)
    for bad in ("-1 us", timedelta(microseconds=-1)):
        with pytest.raises(DefinitionError, match="zero or more"):
            duration(bad, zero=True)


def test_the_longest_span_keeps_every_bound_of_a_window_within_int64() -> None:
    assert duration(f"{LONGEST} us") == LONGEST and LATEST + 3 * LONGEST < MAX_TIME
    for bad in (f"{LONGEST + 1} us", "1" + "0" * 309 + ".5 weeks", "9" * 400 + ".0 s"):
        with pytest.raises(DefinitionError, match="longest span"):
            duration(bad)


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (0, "0 seconds"), (1, "1 µs"), (2, "2 µs"), (1_000, "1 ms"), (SECOND, "1 second"), (2 * SECOND, "2 seconds"),
        (90 * SECOND, "1 minute 30 seconds"), (-90 * SECOND, "-1 minute 30 seconds"), (3600 * SECOND, "1 hour"),
        (2 * 86400 * SECOND, "2 days"), (86400 * SECOND + 1, "1 day 1 µs"), (90_061_001_001, "1 day 1 hour 1 minute"),
        (61_001_001, "1 minute 1 second 1 ms"), (59 * SECOND + 999_999, "59 seconds 999 ms 999 µs"),
    ],
)  # fmt: skip
def test_a_span_as_people_write_it(span: int, text: str) -> None:
    assert show_duration(span) == text


def test_instants_from_text_and_datetimes_and_back() -> None:
    assert instant("1970-01-02T00:00:01.000007Z") == 86_401_000_007 == instant(datetime(1970, 1, 2, 0, 0, 1, 7, UTC))
    assert instant("1970-01-01T05:30:00+05:30") == 0 == instant(datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))))
    assert instant("1969-12-31T23:59:59Z") == -SECOND
    assert show_instant(86_401_000_007) == "1970-01-02T00:00:01.000007Z" and show_instant(-SECOND) == "1969-12-31T23:59:59Z"
    assert (show_instant(None), show_instant(MIN_TIME), show_instant(MAX_TIME)) == ("undefined", "-∞", "+∞")
    assert show_instant(MAX_TIME - 1) == f"{MAX_TIME - 1} µs"
    for bad in ("yesterday", 5, datetime(2026, 1, 1), "2026-01-01T00:00:00"):  # noqa: DTZ001
        with pytest.raises(DefinitionError):
            instant(bad)  # type: ignore[arg-type]


def test_sums_stop_at_the_ends() -> None:
    assert (MIN_TIME, MAX_TIME) == (-(2**63), 2**63 - 1)
    assert [saturate(t) for t in (MIN_TIME - 1, MIN_TIME, 0, MAX_TIME, MAX_TIME + 1)] == [
        MIN_TIME,
        MIN_TIME,
        0,
        MAX_TIME,
        MAX_TIME,
    ]
    assert plus(MAX_TIME, 1) == MAX_TIME and plus(MIN_TIME, -1) == MIN_TIME and plus(3, -5) == -2


def test_positions_around_an_instant() -> None:
    places = [(7, source, lane, offset) for source in (0, 1) for lane in ("", "a", LAST_LANE) for offset in (0, MAX_TIME - 1)]
    assert all(start_of(7) < place < end_of(7) for place in places)
    assert end_of(6) < start_of(7) and end_of(7) < start_of(8)
    assert start_of(7) < (7, 0, "", 0)


def test_the_least_arrival_after_a_sweep() -> None:
    assert least_arrival(None, (0, "a")) == MIN_TIME
    assert least_arrival(end_of(MIN_TIME), (0, "a")) == MIN_TIME == least_arrival(end_of(MAX_TIME), (0, "a"))
    swept = (7, 1, "b", 3)
    assert [least_arrival(swept, lane) for lane in ((0, "z"), (1, "a"), (1, "b"), (1, "c"), (2, "a"))] == [8, 8, 7, 7, 7]


def test_why_a_row_is_a_dead_letter() -> None:
    assert Event(0, None).broken == "no event time" and Event(0, 5).broken is None
    assert Event(0, None, marker=True).broken is None and Event(0, 5, dead="no JSON").broken == "no JSON"
    assert Event(0, None, marker=True, dead="x").broken == "x"
    assert Event(3, 5, source=2, lane="b", offset=4).position == (3, 2, "b", 4) and Event(3, 5, lane="b").lane_id == (0, "b")


def test_the_newer_of_two_panes() -> None:
    def pane(generation: int, sequence: int, op: str) -> Pane:
        return Pane("o", (0, 10), "k", sequence, op, LATE, {}, generation)

    order = [pane(0, 0, INSERT), pane(0, 0, "retract"), pane(0, 1, INSERT), pane(0, 1, "retract"), pane(1, 0, INSERT)]
    assert sorted(order, key=lambda p: p.rank) == order and len({p.rank for p in order}) == 5
    assert LateRow("o", Event(0, 1), 25, ((0, 10), (5, 15))).lateness == 10


def test_allowances_hold_zero_which_tells_on_time_from_late() -> None:
    outputs = (plan.OutputPlan("a", 5), plan.OutputPlan("b", 5), plan.OutputPlan("c", 2))
    assert plan.Plan((), window.Sliding(1, 1), (), outputs).allowances == (0, 2, 5)
    assert plan.OutputPlan("x").allowed == 0 and plan.Plan((), window.Sliding(1, 1), (), ()).generation == 0


def test_policies_in_words_and_what_they_lose() -> None:
    assert [str(p) for p in (policy.drop(), policy.divert(), policy.retract("1 s"), policy.accumulate("1 s", refused=policy.divert()))] == [
        "drop()", "divert()", "retract(1 second)", "accumulate(1 second), refused rows diverted"
    ]  # fmt: skip
    assert policy.retract("1 s").retracts and not policy.accumulate("1 s").retracts and not policy.drop().retracts
    assert policy.drop().may_lose_rows and policy.accumulate("1 s").may_lose_rows and not policy.divert().may_lose_rows
    assert policy.accumulate("1 s", refused=policy.drop()).may_lose_rows
    side = policy.Divert("side")
    assert (
        policy.accumulate("1 s", refused=policy.divert("side")).refused == side == policy.retract("1 s", refused=side).refused
    )
    assert (policy.drop().allowed, policy.divert().allowed, policy.accumulate("2 us").allowed) == (0, 0, 2)
    for bad in (lambda: policy.accumulate("0 s"), lambda: policy.retract("0 s"), lambda: policy.accumulate("1 s", refused=policy.retract("1 s"))):  # fmt: skip
        with pytest.raises(DefinitionError):
            bad()


def test_triggers_that_can_never_fire_are_refused() -> None:
    assert trigger.every_rows(1).rows == 1 and trigger.after("2 us").delay == 2
    for bad in (0, -1, True, 1.5, "3", None):
        with pytest.raises(DefinitionError):
            trigger.every_rows(bad)  # type: ignore[arg-type]
    for condition in ("", "  ", None, 5):
        with pytest.raises(DefinitionError):
            trigger.when(condition)  # type: ignore[arg-type]
    for period in ("0 s", "-1 s"):
        with pytest.raises(DefinitionError):
            trigger.every(period)
        with pytest.raises(DefinitionError):
            trigger.after(period)


def test_windows_in_words_with_their_offsets() -> None:
    assert window.tumbling("10 us", offset="13 us") == window.Sliding(10, 10, 3)
    assert window.sliding("10 us", "4 us", offset="9 us") == window.Sliding(10, 4, 1)
    assert window.sliding("4 us", "4 us") == window.Sliding(4, 4, 0) and window.session("5 us") == window.Session(5)
    with pytest.raises(DefinitionError):
        window.sliding("4 us", "5 us")
    assert window.Sliding(10, 4).slice_size == 2 and window.Session(5).own(7) == (7, 12)


def test_strategies_at_the_edges_of_what_is_allowed() -> None:
    assert watermark.bounded("0 s").bound == 0 == watermark.ascending().bound
    assert watermark.adaptive(0.5, floor="1 us", start="1 us", ceiling="1 us") == watermark.Adaptive(0.5, 1, 1, 60 * SECOND, 1)
    for bad in (0, 1, -0.1, 1.1):
        with pytest.raises(DefinitionError):
            watermark.adaptive(bad)
    for floor, start in (("2 us", "1 us"), ("1 us", "4 us")):
        with pytest.raises(DefinitionError):
            watermark.adaptive(floor=floor, start=start, ceiling="3 us")
    for make in (lambda c: watermark.punctuated("a", "b", c), lambda c: watermark.custom("a", c)):
        assert make("fail").on_regression == "fail"
        with pytest.raises(DefinitionError):
            make("panic")


def test_aggregates_that_name_nothing_are_refused() -> None:
    assert aggregate.quantile("x", 0).share == 0 and aggregate.quantile("x", 1).share == 1
    for share in (-0.01, 1.01):
        with pytest.raises(DefinitionError):
            aggregate.quantile("x", share)
    for column in ("", None, 5):
        with pytest.raises(DefinitionError):
            aggregate.sum(column)  # type: ignore[arg-type]
    for partial, merge in (({}, {}), ({"a": "1"}, {"b": "1"}), ({"a": "1"}, {})):
        with pytest.raises(DefinitionError):
            aggregate.aggregate(partial=partial, merge=merge, finish="a")
    assert aggregate.count().columns == () and aggregate.count("x").columns == ("x",)


def test_sql_by_the_standard_library() -> None:
    assert sql.value("1 + 1", {}) == 2 and sql.value('"a""b" + 1', {'a"b': 2}) == 3
    assert sql.value("x IS NULL", {"x": None}) == 1
    assert sql.aggregate({"n": "COUNT(*)", "s": "SUM(x)"}, [{"x": 1}, {"y": 2}]) == {"n": 2, "s": 1}
    assert sql.value("x", {"x": (1, 2)}) == "(1, 2)" and sql.value("x", {"x": b"a"}) == b"a"
