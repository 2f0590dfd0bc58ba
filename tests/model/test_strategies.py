"""How an event moves its lane, and what a lane measures."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from eventide.model import policy, trigger, watermark, window
from eventide.model.event import Event
from eventide.model.pane import LateRow
from eventide.model.watermark import Adaptive, LaneState, bucket_ceiling, disorder_bucket, observe


def lane(strategy: watermark.Strategy, *rows: tuple[int, int]) -> LaneState:
    state = LaneState()
    for arrival, time in rows:
        observe(strategy, state, Event(arrival, time))
    return state


def test_late_at_source_is_behind_the_lanes_watermark_out_of_order_only_behind_its_maximum() -> None:
    state = lane(watermark.Bounded(10), (0, 100), (1, 95), (2, 90), (3, 89), (4, 101))
    assert (state.out_of_order, state.late_at_source) == (2, 1)
    assert state.watermark == 91 and state.max_event_time == 101


STEADY = Adaptive(quantile=0.9, floor=2, ceiling=100, step=60, start=50)


def test_an_adaptive_bound_widens_at_the_next_step_and_tightens_slowly() -> None:
    state = LaneState()
    for arrival in range(60):
        observe(STEADY, state, Event(arrival, arrival))
    assert state.watermark == 59 - 50, "within the first step nothing has been measured"
    observe(STEADY, state, Event(60, 60))
    assert state.adaptive is not None and state.adaptive.bound == 38, "a quarter of the way from 50 to the floor of 2"
    for arrival in range(61, 120):
        observe(STEADY, state, Event(arrival, arrival - 90 * (arrival % 2)))
    before = state.adaptive.bound
    observe(STEADY, state, Event(120, 120))
    assert state.adaptive.bound >= 88 > before, "all at once"
    assert state.adaptive.bound <= 100


def test_an_adaptive_bound_depends_on_arrival_steps_only_and_not_on_the_rows_of_its_own_step() -> None:
    calm = lane(STEADY, (0, 0), (59, 59))
    wild = lane(STEADY, (0, 0), (1, -500), (59, 59))
    assert calm.watermark == wild.watermark == 9


@settings(max_examples=500)
@given(st.integers(0, 2**62))
def test_a_disorder_lies_in_its_bucket_within_a_sixteenth(behind: int) -> None:
    ceiling = bucket_ceiling(disorder_bucket(behind))
    assert behind <= ceiling <= behind + behind / 16 + 1
    assert disorder_bucket(ceiling) == disorder_bucket(behind) and disorder_bucket(ceiling + 1) > disorder_bucket(behind)


def test_definitions_read_like_what_a_user_would_say() -> None:
    assert watermark.ascending() == watermark.Ascending()
    assert watermark.custom("arrival_time - INTERVAL 5 SECONDS").on_regression == "ignore"
    assert watermark.adaptive(0.9, start="0 s").start == 0
    assert str(policy.retract("5 s", refused=policy.divert())) == "retract(5 seconds), refused rows diverted"
    assert policy.accumulate("5 s", refused=policy.drop()).may_lose_rows and policy.retract("5 s").retracts
    assert str(window.tumbling("1 hour")) == "tumbling 1 hour"
    assert window.tumbling("10 s", offset="13 s").offset == 3_000_000
    assert (trigger.after("5 s").delay, trigger.per_row(), trigger.per_batch(), trigger.at_expiry()) == (
        5_000_000, trigger.PerRow(), trigger.PerBatch(), trigger.AtExpiry(),
    )  # fmt: skip
    assert trigger.when("n > 3").condition == "n > 3"


def test_a_late_row_says_how_late_it_was() -> None:
    assert LateRow("out", Event(0, 3), 25, ((0, 10), (5, 15))).lateness == 10
