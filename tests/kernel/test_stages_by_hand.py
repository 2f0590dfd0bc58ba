"""Stages row by row: which changes of results are handed on, which of them stand, and the ways of rows into windows over results."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from eventide.kernel.bound_plan import Above, BoundPlan
from eventide.kernel.columns import ARRIVAL, END, LANE, OFFSET, OP, ROWS, SEEN, SEQUENCE, SLICE, SOURCE, TIME, UNSEEN
from eventide.kernel.handing import changes, no_changes
from eventide.kernel.judge import W
from eventide.kernel.stage import compacted, last_changes, withdrawals
from eventide.kernel.view import START
from eventide.kernel.ways import ahead_ways, ways_of
from eventide.model import aggregate
from eventide.model.pane import INSERT, RETRACT
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.watermark import Bounded
from eventide.model.window import Sliding

KINDS = {"key": pl.String(), "n": pl.Int64(), "window_end": pl.Int64()}


def over(window: Sliding, *outputs: OutputPlan, keys: tuple[str, ...] = (), above: tuple[Above, ...] = ()) -> BoundPlan:
    plan = Plan((SourcePlan(Bounded(0)),), window, (("n", aggregate.count()),), outputs)
    return BoundPlan(plan, keys, name="^1", above=above, over_results=True)


def panes(*told: tuple[str | None, int, int, str]) -> pl.DataFrame:
    """Of the window [10, 20): (key, n, sequence, op)."""
    rows = [(10, 20, key, n, 25, sequence, op) for key, n, sequence, op in told]
    kinds = {START: pl.Int64, END: pl.Int64, "key": pl.String, "n": pl.Int64, W: pl.Int64, SEQUENCE: pl.Int64, OP: pl.String}
    return pl.DataFrame(rows, schema=kinds, orient="row")


@pytest.mark.parametrize(
    ("keys", "told"), [(("key",), [(None, 2, 1, INSERT)]), (("n",), [(None, 2, 1, INSERT), (None, 1, 0, RETRACT)])]
)
def test_what_leaves_a_key_is_withdrawn_and_what_stays_under_it_is_corrected(keys: tuple[str, ...], told: list[Any]) -> None:
    """The null key is a key like others."""
    found = changes(
        panes((None, 1, 0, RETRACT), (None, 2, 1, INSERT)), ("key",), Above("r", over(Sliding(20, 20), keys=keys), KINDS)
    )
    assert found.select("key", "n", SEQUENCE, OP).rows() == told
    assert set(found.select("window_end", ARRIVAL, SOURCE, LANE, OFFSET, TIME, W, ROWS).rows()) == {
        (20, 10, 0, '{"key":null}', 20, 19, 25, 1)
    }  # fmt: skip
    assert found.schema == no_changes(KINDS).schema


def test_only_the_result_of_the_sequence_before_is_corrected() -> None:
    told = panes(("a", 1, 3, RETRACT), ("a", 2, 5, INSERT))
    found = changes(told, ("key",), Above("r", over(Sliding(20, 20), keys=("key",)), KINDS))
    assert found[OP].to_list() == [INSERT, RETRACT]


def stood(*told: tuple[str | None, int, int, str, int]) -> pl.DataFrame:
    """Changes of one result of the window [10, 20): (key, SEEN, sequence, op, rows)."""
    rows = [(key, seen, 10, 0, "{}", 20, sequence, op, count) for key, seen, sequence, op, count in told]
    kinds = {"key": pl.String, SEEN: pl.Int64, ARRIVAL: pl.Int64, SOURCE: pl.Int64, LANE: pl.String, OFFSET: pl.Int64}
    return pl.DataFrame(rows, schema={**kinds, SEQUENCE: pl.Int64, OP: pl.String, ROWS: pl.Int64}, orient="row")


def test_a_withdrawal_comes_after_the_insert_of_its_sequence_and_before_the_next() -> None:
    told = [(None, 0, 1, RETRACT, 1), (None, 0, 1, INSERT, 1), (None, 0, 0, INSERT, 1)]
    assert last_changes(stood(*told), ["key"]).select(SEQUENCE, OP).rows() == [(1, RETRACT)]
    assert last_changes(stood(*told, (None, 0, 2, INSERT, 1)), ["key"]).select(SEQUENCE, OP).rows() == [(2, INSERT)]


def test_changes_that_no_window_tells_apart_are_one_and_count_as_many() -> None:
    told = stood((None, 5, 0, INSERT, 1), (None, 5, 0, RETRACT, 2), (None, 8, 1, INSERT, 4))
    kept = compacted(told, ("key",)).sort(SEEN)
    assert kept.select("key", SEEN, SEQUENCE, OP, ROWS).rows() == [(None, 5, 0, RETRACT, 3), (None, 8, 1, INSERT, 4)]


def test_a_withdrawal_is_refused_from_the_end_and_what_is_allowed_on() -> None:
    told = stood(*((None, seen, 0, RETRACT, 1) for seen in (UNSEEN, 24, 25, 26)), (None, 0, 0, INSERT, 1))
    met = told.with_columns(pl.lit(20, dtype=pl.Int64).alias(END))
    assert withdrawals(met, 5) == {"withdrawals_applied": 2, "withdrawals_refused": 2}
    assert withdrawals(met, 6) == {"withdrawals_applied": 3, "withdrawals_refused": 1}


def chain(window: Sliding, allowed: int = 5) -> BoundPlan:
    """Tens, read with a lateness of 20, and a stage over them."""
    stage = Above("r", over(window, OutputPlan("out", allowed)), KINDS)
    plan = Plan(
        (SourcePlan(Bounded(0)),), Sliding(10, 10), (("n", aggregate.count()),), (OutputPlan("r", 20), OutputPlan("o", 60))
    )
    return BoundPlan(plan, above=(stage,))


WAYS = [
    (UNSEEN, "on_time", "rows_on_time"), (9, "on_time", "rows_on_time"), (19, "on_time", "rows_on_time"), (20, "admitted", "rows_admitted"),
    (24, "admitted", "rows_admitted"), (25, "refused", "rows_refused"), (29, "refused", "rows_refused"), (30, None, "rows_refused"),
]  # fmt: skip


@pytest.mark.parametrize(("w", "way", "row"), WAYS)
def test_a_row_counts_above_while_w_is_below_the_least_of_what_its_windows_allow(w: int, way: str | None, row: str) -> None:
    """Two rows in [0, 10), whose result is read until 30; in [0, 20) above, which fires at 20 and is corrected until 25."""
    rows = pl.DataFrame({SLICE: [0, 0], W: [w, w]}, schema={SLICE: pl.Int64, W: pl.Int64})
    found = ways_of(rows, chain(Sliding(20, 20)))
    assert +found.verdicts["out"] == ({row: 2} if way is None else {way: 2, row: 2})
    assert +found.pairs == ({} if way is None else {"^1": 2})


def test_a_row_counts_under_the_worst_of_its_ways() -> None:
    """[0, 10) ends in [-8, 12) and in [2, 22): at 13 the first of them is over, and the second is not."""
    rows = pl.DataFrame({SLICE: [0], W: [13]}, schema={SLICE: pl.Int64, W: pl.Int64})
    for allowed, first in ((0, "refused"), (5, "admitted")):
        found = ways_of(rows, chain(Sliding(20, 10, offset=2), allowed))
        assert +found.verdicts["out"] == {"on_time": 1, first: 1, f"rows_{first}": 1} and found.pairs == {"^1": 2}


def test_rows_that_are_ahead_have_only_ways_that_are_on_time() -> None:
    parts = [pl.DataFrame({SLICE: [0, 10], ROWS: [2, 3]}, schema={SLICE: pl.Int64, ROWS: pl.Int64})] * 2
    assert ahead_ways(parts, chain(Sliding(20, 10, offset=2))) == {"^1/ahead_pairs": 20}
    assert ahead_ways([], chain(Sliding(20, 20))) == {} and ahead_ways(parts, over(Sliding(20, 20), OutputPlan("o"))) == {}
    assert ways_of(parts[0], over(Sliding(20, 20), OutputPlan("o"))).verdicts == {}
