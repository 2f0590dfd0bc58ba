"""Every aggregate through the engine, cut and merged anyhow, equals its plain meaning over the rows of each window."""

from __future__ import annotations

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
from test_engine_equals_oracle import SOAK, Case, cases, grids, sessions, tried

from eventide.model import aggregate
from eventide.model.policy import ACCUMULATING, RETRACTING

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


def every_aggregate_is_what_it_means(case: Case) -> None:
    plan, events, table, seed = with_more_columns(case)
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
    every_aggregate_is_what_it_means(case)


@tried(15)
@given(cases(sessions, aggregates=EVERY, accumulation=never_discarding))
def test_aggregates_over_sessions_are_what_they_mean(case: Case) -> None:
    every_aggregate_is_what_it_means(case)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@tried(SOAK // 2)
@given(cases(st.one_of(grids, sessions), aggregates=EVERY, accumulation=never_discarding))
def test_aggregates_are_what_they_mean_over_many_cuts(case: Case) -> None:
    every_aggregate_is_what_it_means(case)
