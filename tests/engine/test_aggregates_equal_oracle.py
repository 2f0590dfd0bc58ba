"""Every aggregate through the engine, cut and merged anyhow, equals its plain meaning over the rows of each window."""

from __future__ import annotations

import math
import random
import tempfile
from dataclasses import replace
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from agreement import alike, assert_agreement, oracle
from hypothesis import given
from hypothesis import strategies as st
from inline import KINDS, Table, run_in_batches
from test_engine_equals_oracle import SOAK, Case, accumulations, cases, grids, sessions, tried

from eventide.model import aggregate
from eventide.model.event import Event
from eventide.model.exact import EXACT
from eventide.model.expression import expression
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.policy import ACCUMULATING, RETRACTING
from eventide.model.trigger import PerRow
from eventide.model.watermark import Ascending
from eventide.model.window import Session, Sliding

VWAP = aggregate.aggregate(
    partial={"pq": "SUM(value * qty)", "q": "SUM(qty)"}, merge={"pq": "SUM(pq)", "q": "SUM(q)"}, finish="CAST(pq AS DOUBLE) / q"
)
EVERY = (
    ("n", aggregate.count()),
    ("present", aggregate.count("value")),
    ("total", aggregate.sum("value")),
    ("money", aggregate.sum("paise")),
    ("floats", aggregate.sum("price")),
    ("least", aggregate.min("value")),
    ("most", aggregate.max("paise")),
    ("average", aggregate.mean("price")),
    ("spread", aggregate.variance("price")),
    ("deviation", aggregate.stddev("value")),
    ("opening", aggregate.first("price")),
    ("closing", aggregate.last("value")),
    ("all", aggregate.collect("word")),
    ("words", aggregate.distinct("word")),
    ("median", aggregate.quantile("price", 0.5)),
    ("vwap", VWAP),
)
LEADERS = (
    ("n", aggregate.count()),
    ("dearest", aggregate.max_by("word", "price")),
    ("cheapest", aggregate.min_by("value", "paise")),
    ("leaders", aggregate.top(2, by="paise", of=("word", "price"))),
    ("by_value", aggregate.top(3, by="value", of="word")),
    ("frequent", aggregate.top_k("word", 2)),
    ("middle", aggregate.median("price")),
    ("came_last", aggregate.last("word", by="arrival")),
    *((f"{name}_price", aggregate.Aggregate(name, "price")) for name in EXACT),
)
CONDITIONS = ("value > 0", "price < 10 AND word <> ''", "paise > 100000000", "qty IN (1, 3)")
UNDER_CONDITIONS = (
    ("n", aggregate.count()),  # a trigger may ask for it
    *(
        (f"{name}_{nth}", replace(what, where=expression(CONDITIONS[nth % len(CONDITIONS)])))
        for nth, (name, what) in enumerate((*EVERY, *LEADERS))
    ),
)
SOME_ADD = (
    ("n", aggregate.count(where="value > 0")),
    ("s", aggregate.sum("value", where="qty = 2")),
    ("c", aggregate.collect("value", where="value < 5")),
)
COLUMNS = {
    **KINDS,
    "region": pl.Int32(),
    "qty": pl.Int64(),
    "price": pl.Float64(),
    "paise": pl.Decimal(18, 2),
    "word": pl.String(),
}
TABLES = [Table(keys, COLUMNS) for keys in (("key",), ("key", "region"), ())]
never_discarding = st.sampled_from([ACCUMULATING, RETRACTING])


def with_more_columns(case: Case) -> Case:
    plan, events, _, seed = case
    rng = random.Random(seed)
    rich = [e if e.marker else replace(e, row={**e.row, **columns(rng)}) for e in events]
    return plan, rich, TABLES[rng.randrange(3)], seed


def columns(rng: random.Random) -> dict[str, Any]:
    return {
        "qty": rng.randint(1, 5),
        "price": rng.choice([None, round(rng.uniform(-50, 50), 3)]),
        "paise": rng.choice([None, Decimal(rng.randint(-(10**9), 10**9)) / 100]),
        "word": rng.choice([None, "", "a", "ä", "longer word", str(rng.randint(0, 50))]),
    }


def hostile(case: Case) -> Case:
    """The same with values at the edges of floats."""
    plan, events, table, seed = case
    rng = random.Random(seed)
    edges = [math.nan, math.inf, -math.inf, 0.0, -0.0, None, 1.5]
    return plan, [e if e.marker else replace(e, row={**e.row, "price": rng.choice(edges)}) for e in events], table, seed


def every_aggregate_is_what_it_means(case: Case) -> None:
    plan, events, table, seed = case
    rng = random.Random(seed)
    ref = oracle(plan, table.as_the_oracle_sees(events))
    horizon = max((e.arrival for e in events), default=0)
    clocks = sorted(rng.randint(0, horizon) for _ in range(rng.randint(0, 12)))
    with tempfile.TemporaryDirectory() as root:
        got = run_in_batches(plan, events, clocks, rng, root, table)
    assert_agreement(plan, got, ref, table, same=alike)


@tried(15)
@given(cases(grids, aggregates=EVERY, accumulation=never_discarding))
def test_aggregates_over_windows_are_what_they_mean(case: Case) -> None:
    every_aggregate_is_what_it_means(with_more_columns(case))


@tried(15)
@given(cases(sessions, aggregates=EVERY, accumulation=never_discarding))
def test_aggregates_over_sessions_are_what_they_mean(case: Case) -> None:
    every_aggregate_is_what_it_means(with_more_columns(case))


MORE = [LEADERS, UNDER_CONDITIONS, SOME_ADD]


def more(windows: Any) -> Any:
    """Cases with leaders, with aggregates under conditions, and with those whose deltas add."""
    return st.sampled_from(MORE).flatmap(
        lambda some: cases(windows, aggregates=some, accumulation=accumulations if some is SOME_ADD else never_discarding)
    )


@tried(6)
@given(more(grids))
def test_leaders_and_conditions_over_windows_are_what_they_mean(case: Case) -> None:
    every_aggregate_is_what_it_means(with_more_columns(case))


@tried(6)
@given(more(sessions))
def test_leaders_and_conditions_over_sessions_are_what_they_mean(case: Case) -> None:
    every_aggregate_is_what_it_means(with_more_columns(case))


@tried(6)
@given(
    cases(
        st.one_of(grids, sessions),
        aggregates=(*LEADERS, ("opened", aggregate.first("price", where="qty > 2")), ("all", aggregate.collect("price"))),
        accumulation=never_discarding,
    )
)
def test_leaders_among_hostile_floats_are_what_they_mean(case: Case) -> None:
    every_aggregate_is_what_it_means(hostile(with_more_columns(case)))


@pytest.mark.parametrize("window", [Session(10), Sliding(10, 10)], ids=str)
def test_a_result_with_a_nan_inside_is_the_same_result_again(window: Any) -> None:
    aggregates = (("all", aggregate.collect("price")), ("leader", aggregate.top(1, by="value", of="price")))
    plan = Plan((SourcePlan(Ascending(), ("0",)),), window, aggregates, (OutputPlan("out", 100, late=PerRow()),))
    told = [(1, math.nan, 5), (2, float("nan"), 4), (40, 1.0, 1), (2, None, 1), (1, None, 1)]
    events = [Event(n, time, "a", {"price": price, "value": by}, offset=n) for n, (time, price, by) in enumerate(told)]
    with tempfile.TemporaryDirectory() as root:
        got = run_in_batches(plan, events, [*range(len(events))], random.Random(1), root, TABLES[0])
    assert [(pane["sequence"], pane["timing"]) for pane in got.panes["out"]] == [(0, "on_time"), (0, "on_time")]


@pytest.mark.soak
@pytest.mark.timeout(3600)
@tried(SOAK // 2)
@given(
    st.one_of(
        cases(st.one_of(grids, sessions), aggregates=EVERY, accumulation=never_discarding), more(st.one_of(grids, sessions))
    )
)
def test_aggregates_are_what_they_mean_over_many_cuts(case: Case) -> None:
    every_aggregate_is_what_it_means(with_more_columns(case))
