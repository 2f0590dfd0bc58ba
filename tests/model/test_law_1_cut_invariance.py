"""Law 1: however the lanes were cut into batches, the same verdicts, late rows, panes and final values."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from uneven import BREAKS, as_tuples, in_uneven_batches, late_rows, one_at_a_time, panes_by_window

from eventide.model import aggregate
from eventide.model.event import Event
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.trigger import PerRow
from eventide.model.watermark import Adaptive, Ascending, Bounded, Custom, Punctuated
from eventide.model.window import Sliding
from eventide.testing.streams import Stream, exponential_delay, generate, merged, tailed_delay, uniform_delay

EXAMPLES = settings(max_examples=700, deadline=None, suppress_health_check=list(HealthCheck))

windows = st.sampled_from([(10, 10), (20, 20), (30, 30), (20, 10), (10, 5), (30, 5), (30, 20)]).flatmap(
    lambda shape: st.integers(0, 3).map(lambda offset: Sliding(*shape, offset=offset))
)
strategies = st.one_of(
    st.sampled_from([0, 2, 5, 10]).map(Bounded),
    st.just(Ascending()),
    st.just(Punctuated("marker", "to")),
    st.just(Custom("expression")),
    st.builds(
        Adaptive, st.sampled_from([0.5, 0.9]), st.just(0), st.just(40), st.sampled_from([7, 20]), st.sampled_from([0, 15])
    ),
)
delays = st.sampled_from([uniform_delay(4), tailed_delay(4, 0.2, 60), exponential_delay(6, 40), tailed_delay(1, 0.05, 200)])
idle_afters = st.sampled_from([None, 5, 15, 40])


@st.composite
def sources(draw: st.DrawFn) -> tuple[SourcePlan, Stream]:
    strategy = draw(strategies)
    lanes = draw(st.integers(1, 3))
    known = tuple(str(lane) for lane in range(draw(st.integers(0, lanes))))
    stream = Stream(
        lanes=lanes,
        rows=draw(st.sampled_from([3, 15, 50])),
        pace=draw(st.sampled_from([1, 3])),
        delay=draw(delays),
        burst=draw(st.sampled_from([0.0, 0.3])),
        silence=draw(st.sampled_from([0.0, 0.05, 0.2])),
        skew=draw(st.sampled_from([0, 0, 20])),
        dead=draw(st.sampled_from([0.0, 0.1])),
        markers=0.2 if isinstance(strategy, Punctuated) else 0.0,
        bound=draw(st.sampled_from([0, 5])),
        regress=draw(st.sampled_from([0.0, 0.2])),
        candidates=isinstance(strategy, Custom),
        duplicates=draw(st.sampled_from([0.0, 0.3])),
        start=draw(st.sampled_from([0, 0, 40])),
    )
    return SourcePlan(strategy, known, draw(idle_afters)), stream


@st.composite
def runs(draw: st.DrawFn) -> tuple[Plan, list[Event], int]:
    described = draw(st.lists(sources(), min_size=1, max_size=2))
    allowances = draw(st.sampled_from([(0,), (0, 3), (7, 20), (0, 7, 20)]))
    plan = Plan(
        sources=tuple(source for source, _ in described),
        window=draw(windows),
        aggregates=(("values", aggregate.collect("value")),),
        outputs=tuple(OutputPlan(f"within {a}", a, late=PerRow()) for a in allowances),
        dedupe_within=draw(st.sampled_from([None, None, 15, 60])),
        when_all_idle=draw(st.sampled_from(["hold", "hold", "advance"])),
    )
    seed = draw(st.integers(0, 2**32))
    events = merged(*(generate(stream, seed + index, index) for index, (_, stream) in enumerate(described)))
    return plan, events, seed


def cut(events: list[Event], rng: random.Random) -> list[int]:
    horizon = max((event.arrival for event in events), default=0)
    return sorted(rng.randint(0, horizon + 10) for _ in range(rng.randint(0, 12)))


@EXAMPLES
@given(runs())
def test_uneven_batches_change_no_verdict_no_late_row_and_no_pane(run: tuple[Plan, list[Event], int]) -> None:
    plan, events, seed = run
    want, engine = one_at_a_time(plan, events)
    rng = random.Random(seed)
    clocks = [clock for clock in cut(events, rng) if clock <= max((e.arrival for e in events), default=0)]
    have = in_uneven_batches(plan, events, clocks, rng).verdicts
    assert have == want
    assert late_rows(plan, events, have) == as_tuples(engine.late)
    said = defaultdict(list)
    for pane in engine.panes:
        said[pane.output, pane.window, pane.key].append((pane.timing, pane.sequence, pane.values["values"]))
    assert panes_by_window(plan, events, have) == dict(said)


def fixed_runs(number: int, dedupe_within: int | None = None) -> list[tuple[Plan, list[Event], int]]:
    """Ordinary streams with idle lanes and late rows, the same on every machine."""
    found = []
    for seed in range(number):
        rng = random.Random(seed)
        idle_after = rng.choice([5, 15, 40])
        stream = Stream(
            lanes=3, rows=60, delay=tailed_delay(4, 0.2, 60), silence=0.05, duplicates=0.0 if dedupe_within is None else 0.5
        )
        events = generate(stream, seed)
        plan = Plan(
            sources=(SourcePlan(Bounded(rng.choice([0, 2, 5])), ("0", "1", "2"), idle_after),),
            window=Sliding(*rng.choice([(10, 10), (20, 10)])),
            aggregates=(("values", aggregate.collect("value")),),
            outputs=(OutputPlan("drop"), OutputPlan("keep", 7)),
            dedupe_within=dedupe_within,
        )
        found.append((plan, events, seed))
    return found


@pytest.mark.parametrize("broken", BREAKS)
def test_the_comparison_notices_when_the_rule_is_broken(broken: str) -> None:
    wrong = 0
    for plan, events, seed in fixed_runs(60, 3 if "duplicates" in broken else None):
        want, _ = one_at_a_time(plan, events)
        rng = random.Random(seed)
        clocks = cut(events, rng)
        assert in_uneven_batches(plan, events, clocks, random.Random(seed)).verdicts == want
        wrong += in_uneven_batches(plan, events, clocks, random.Random(seed), broken).verdicts != want
    assert wrong > 0, f"60 streams did not show the harm of: {broken}"


def test_a_watermark_that_grows_by_the_clock_needs_progress_at_full_resolution() -> None:
    #  a   11 14   14     14             W is 14 while b is idle (after 5); b comes back with 12, which holds nothing back;
    #  b  12            12   12       ?  then both fall idle, W grows from 14: the last row meets W = 20, not 18
    times = {"a": [(1, 11), (2, 14), (6, 14), (8, 14)], "b": [(0, 12), (7, 5), (9, 5), (20, 11)]}
    events = merged(
        Event(arrival, time, "k", {"value": 1}, lane=lane, offset=offset)
        for lane, rows in times.items()
        for offset, (arrival, time) in enumerate(rows)
    )
    source = SourcePlan(Ascending(), ("a", "b"), idle_after=5)
    plan = Plan((source,), Sliding(10, 10), (), (OutputPlan("drop"),), when_all_idle="advance")
    want, _ = one_at_a_time(plan, events)
    assert in_uneven_batches(plan, events, [], random.Random(0)).verdicts == want
    compacted = "compacted although W grows by the clock"
    assert in_uneven_batches(plan, events, [], random.Random(0), compacted).verdicts != want


def test_most_rows_need_no_look_at_other_lanes() -> None:
    totals = [0, 0]
    for plan, events, seed in fixed_runs(20):
        judged = in_uneven_batches(plan, events, cut(events, random.Random(seed)), random.Random(seed))
        totals = [totals[0] + judged.ahead, totals[1] + judged.suspects]
    assert totals[0] > 3 * totals[1] > 0
