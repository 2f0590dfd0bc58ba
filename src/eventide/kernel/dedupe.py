"""The first of equal rows, by position: kept for a span of event time, however the stream was cut."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import polars as pl

from eventide.kernel.bound_plan import BoundPlan
from eventide.kernel.columns import POSITION, TIME
from eventide.kernel.judge import W
from eventide.kernel.keys import hashable
from eventide.model.time import plus


def keep_first(
    rows: pl.DataFrame, kept: pl.DataFrame, shape: BoundPlan, told: Callable[[pl.DataFrame], pl.DataFrame]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows (with W at their position) that are not duplicates, and what must be remembered of them.

    Rows that may be duplicates are `told` W to the microsecond, if there are any. `kept` has the deduplication key and the event times of rows kept before.
    """
    within = shape.plan.dedupe_within
    assert within is not None
    keys = list(shape.dedupe)
    rows = rows.sort(POSITION).with_columns(pl.len().over(keys).alias("__times"))
    known = rows.join(kept.select(keys).unique(), on=keys, how="semi", nulls_equal=True).select(POSITION)
    rows = rows.join(known.with_columns(pl.lit(True).alias("__known")), on=list(POSITION), how="left")
    doubtful = rows.filter((pl.col("__times") > 1) | pl.col("__known").fill_null(False)).sort(POSITION)
    if len(doubtful):
        doubtful = told(doubtful)
    alone = rows.filter((pl.col("__times") == 1) & ~pl.col("__known").fill_null(False))
    firsts = doubtful.filter(_firsts(doubtful, kept, keys, within))
    fresh = pl.concat([alone, firsts]).drop("__times", "__known")
    return fresh, pl.concat([kept, fresh.select([*keys, TIME])], how="vertical_relaxed")


def _firsts(rows: pl.DataFrame, kept: pl.DataFrame, keys: list[str], within: int) -> pl.Series:
    wanted = kept.join(rows.select(keys).unique(), on=keys, how="semi", nulls_equal=True)
    times: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for *key, time in wanted.select([*keys, TIME]).iter_rows():
        times[hashable(tuple(key))].append(time)
    verdicts = []
    for *key, time, watermark in rows.select([*keys, TIME, W]).iter_rows():
        earlier = times[hashable(tuple(key))]
        double = any(abs(time - t) < within and watermark < plus(t, within) for t in earlier)
        verdicts.append(not double)
        if not double:
            earlier.append(time)
    return pl.Series(verdicts, dtype=pl.Boolean)


def forget(kept: pl.DataFrame, watermark: int | None, within: int) -> pl.DataFrame:
    """Drop what no later row can be a duplicate of."""
    return kept if watermark is None else kept.filter(pl.col(TIME) > watermark - within)
