"""However a stream is cut into batches and however unevenly its lanes are read, the engine says what the oracle says."""

from __future__ import annotations

import os
import random
import tempfile
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from agreement import assert_agreement, oracle
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from inline import KINDS, Table, run_in_batches

from eventide.model import aggregate
from eventide.model.event import Event
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.policy import ACCUMULATING, DISCARDING, RETRACTING
from eventide.model.trigger import After, AtExpiry, Every, EveryRows, PerBatch, PerRow, When
from eventide.model.watermark import Adaptive, Ascending, Bounded, Custom, ProcessingTime, Punctuated
from eventide.model.window import Session, Sliding
from eventide.testing.streams import Stream, exponential_delay, generate, merged, tailed_delay, uniform_delay

SOAK = int(os.environ.get("EVENTIDE_EXAMPLES", "400"))


def tried(examples: int) -> settings:
    """Without shrinking: the rows come from a seed, and a smaller seed is no simpler stream."""
    return settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        phases=[Phase.explicit, Phase.generate],
    )


ADDITIVE = (("n", aggregate.count()), ("s", aggregate.sum("value")), ("c", aggregate.collect("value")))

grids = st.sampled_from([(10, 10), (20, 20), (30, 30), (20, 10), (10, 5), (30, 5), (30, 20), (20, 7)]).flatmap(
    lambda shape: st.sampled_from([0, 0, 3]).map(lambda offset: Sliding(*shape, offset=offset))
)
sessions = st.sampled_from([3, 5, 10]).map(Session)
strategies = st.one_of(
    st.sampled_from([0, 2, 5, 10]).map(Bounded),
    st.just(Ascending()),
    st.just(ProcessingTime()),
    st.just(Punctuated("m", "v")),
    st.just(Custom("v")),
    st.builds(
        Adaptive, st.sampled_from([0.5, 0.9]), st.just(0), st.just(20), st.sampled_from([5, 20]), st.sampled_from([0, 10])
    ),
)
delays = st.sampled_from([uniform_delay(4), tailed_delay(4, 0.2, 60), exponential_delay(6, 40), tailed_delay(1, 0.05, 200)])
early_triggers = st.sampled_from([None, None, EveryRows(3), Every(10), After(7), When("n > 2")])
late_triggers = st.sampled_from([PerBatch(), PerRow(), PerRow(), EveryRows(2), AtExpiry(), After(5), Every(6)])
accumulations = st.sampled_from([ACCUMULATING, DISCARDING, RETRACTING])
tables = st.sampled_from(
    [
        Table(),
        Table(("key", "region"), {**KINDS, "region": pl.Int32()}),
        Table((), KINDS),
        Table(("region",), {**KINDS, "region": pl.Int32()}),
    ]
)


@st.composite
def sources(draw: st.DrawFn, duplicates: bool) -> tuple[SourcePlan, Stream]:
    strategy, lanes = draw(strategies), draw(st.integers(1, 4))
    known = tuple(str(lane) for lane in range(draw(st.sampled_from([lanes, lanes, lanes - 1]))))
    stream = Stream(
        lanes=lanes,
        rows=draw(st.sampled_from([5, 30, 60])),
        pace=draw(st.sampled_from([1, 3])),
        delay=draw(delays),
        burst=draw(st.sampled_from([0.0, 0.2])),
        silence=draw(st.sampled_from([0.0, 0.05, 0.2])),
        skew=draw(st.sampled_from([0, 0, 20])),
        bound=draw(st.sampled_from([0, 5])),
        markers=0.2 if isinstance(strategy, Punctuated) else 0.0,
        candidates=isinstance(strategy, Custom),
        regress=draw(st.sampled_from([0.0, 0.1])),
        dead=draw(st.sampled_from([0.0, 0.05])),
        nulls=draw(st.sampled_from([0.0, 0.1])),
        duplicates=0.2 if duplicates else 0.0,
        keys=("a", "b", None, "c"),
    )
    return SourcePlan(strategy, known, draw(st.sampled_from([None, None, 5, 15, 40]))), stream


@st.composite
def outputs(draw: st.DrawFn, name: str, accumulation: st.SearchStrategy[str]) -> OutputPlan:
    allowed = draw(st.sampled_from([0, 0, 3, 7, 20]))
    return OutputPlan(name, allowed, draw(accumulation), draw(early_triggers), draw(late_triggers))


Case = tuple[Plan, list[Event], Table, int]


@st.composite
def cases(
    draw: st.DrawFn,
    windows: st.SearchStrategy[Any],
    dedupe: bool = False,
    aggregates: Any = ADDITIVE,
    accumulation: st.SearchStrategy[str] = accumulations,
) -> Case:
    described = draw(st.lists(sources(dedupe), min_size=1, max_size=2))
    number = draw(st.integers(1, 3))
    plan = Plan(
        sources=tuple(source for source, _ in described),
        window=draw(windows),
        aggregates=aggregates,
        outputs=tuple(draw(outputs(f"out{index}", accumulation)) for index in range(number)),
        dedupe_within=20 if dedupe else None,
        when_all_idle=draw(st.sampled_from(["hold", "hold", "advance"])),
    )
    seed = draw(st.integers(0, 2**32))
    events = merged(*(generate(stream, seed + index, index) for index, (_, stream) in enumerate(described)))
    rng = random.Random(seed)
    events = [replace(e, row={**e.row, "region": rng.choice([1, 2, None]) if not e.marker else None}) for e in events]
    return plan, events, draw(tables), seed


def the_engine_says_what_the_oracle_says(case: Case, cuts: int = 1) -> None:
    plan, events, table, seed = case
    rng = random.Random(seed)
    ref = oracle(plan, table.as_the_oracle_sees(events))
    horizon = max((e.arrival for e in events), default=0)
    for _ in range(cuts):
        clocks = sorted(rng.randint(0, horizon) for _ in range(rng.randint(0, 12)))
        with tempfile.TemporaryDirectory() as root:
            got = run_in_batches(plan, events, clocks, rng, root, table)
        assert_agreement(plan, got, ref, table)


@tried(50)
@given(cases(grids))
def test_windows_do_not_depend_on_the_cut(case: Case) -> None:
    the_engine_says_what_the_oracle_says(case)


@tried(40)
@given(cases(sessions))
def test_sessions_do_not_depend_on_the_cut(case: Case) -> None:
    the_engine_says_what_the_oracle_says(case)


@tried(30)
@given(cases(st.one_of(grids, sessions), dedupe=True))
def test_duplicates_do_not_depend_on_the_cut(case: Case) -> None:
    the_engine_says_what_the_oracle_says(case)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@tried(SOAK)
@given(cases(grids))
def test_windows_do_not_depend_on_any_of_many_cuts(case: Case) -> None:
    the_engine_says_what_the_oracle_says(case)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@tried(SOAK)
@given(cases(sessions))
def test_sessions_do_not_depend_on_any_of_many_cuts(case: Case) -> None:
    the_engine_says_what_the_oracle_says(case)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@tried(SOAK)
@given(cases(st.one_of(grids, sessions), dedupe=True))
def test_duplicates_do_not_depend_on_any_of_many_cuts(case: Case) -> None:
    the_engine_says_what_the_oracle_says(case)
