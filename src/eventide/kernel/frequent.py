"""The most frequent values, by counters that merge: each value has one, and where there are too many all of them lose as much.

What they lose is the count of the first that has no room (the way of Misra and Gries, and of its merge). However the rows were cut, a count is
never too large, and too small by at most the number of rows over that of counters. With no more values than counters it is exact.
"""

from __future__ import annotations

import polars as pl

from eventide.kernel.gathered import CELL, GROUP, packed, unpacked
from eventide.kernel.keys import one_of_equals
from eventide.kernel.kind import Kind, Place
from eventide.model.aggregate import Aggregate

COUNTERS = 1_000
VALUE, TIMES = "value", "n"
_AT, _LOST = "__at", "__lost"


def frequent() -> Kind:
    """The first few of the values, with how often they came."""
    return Kind(
        lambda p: {"v": p.column.drop_nulls().implode()},
        lambda p: {"v": p.part("v").explode(empty_as_null=False, keep_nulls=False).implode()},
        lambda p: p.part("v").list.head(p.what.most or 0),
        _counted,
        approximate=True,
        ordered=lambda what: what.column,
    )


def counters_for(what: Aggregate) -> int:
    """How many values are counted at once; enough of them that the last that is shown is one of the frequent."""
    return max(COUNTERS, 10 * (what.most or 0))


def _counted(place: Place, from_rows: bool) -> pl.DataFrame:
    """Values, or counters, that were put together group by group as one counter for each value, the most frequent first."""
    gathered = place.frame[place.name("v")]
    single = unpacked(gathered)
    if from_rows:
        single = single.select(GROUP, pl.col(CELL).alias(VALUE), pl.lit(1, dtype=pl.Int64).alias(TIMES))
        single = one_of_equals(single, [VALUE])
    else:
        single = single.unnest(CELL)
    times = single.group_by(GROUP, VALUE).agg(pl.col(TIMES).sum()).sort([GROUP, TIMES, VALUE], descending=[False, True, False])
    kept = _within(times, counters_for(place.what)).select(GROUP, pl.struct(VALUE, TIMES).alias(CELL))
    return place.frame.with_columns(packed(kept, gathered))


def _within(times: pl.DataFrame, counters: int) -> pl.DataFrame:
    at = times.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).over(GROUP).alias(_AT))
    lost = at.filter(pl.col(_AT) == counters).select(GROUP, pl.col(TIMES).alias(_LOST))
    if lost.is_empty():
        return times
    left = at.join(lost, on=GROUP, how="left", maintain_order="left").with_columns(pl.col(TIMES) - pl.col(_LOST).fill_null(0))
    return left.filter(pl.col(TIMES) > 0).select(times.columns)
