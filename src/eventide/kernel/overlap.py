"""Windows that overlap much, from slices: what all windows of a run of neighbours share is merged once for the run.

A window of n slides is put together from n slices, and n windows hold each slice. In runs of about √(2n) windows most slices of a run lie in all of its
windows: they are merged, and only those at its two edges are copied from window to window.
"""

from __future__ import annotations

from math import isqrt

import polars as pl

from eventide.kernel import aggregate
from eventide.kernel.bound_plan import BoundPlan
from eventide.kernel.columns import END, SEEN, SLICE
from eventide.kernel.grid import first_end, last_end
from eventide.kernel.judge import windows_of
from eventide.model.window import Sliding

FEW = 8
"""Windows of fewer slides are put together slice by slice."""
RUN, OPENS, CLOSES = "__run", "__opens", "__closes"


def windows_between(partials: pl.DataFrame, shape: BoundPlan, low: int, high: int) -> pl.DataFrame:
    """Parts of the windows that end between two times, by window; parts of the same window are yet to be merged."""
    window = shape.plan.window
    assert isinstance(window, Sliding)
    inside = pl.col(END).is_between(low, high)
    if window.size < FEW * window.slide or partials.is_empty():
        return windows_of(partials, shape).filter(inside)
    runs = _by_run(partials, window, low, high)
    shared = (pl.col(SLICE) >= pl.col(CLOSES) - window.size) & (pl.col(SLICE) < pl.col(OPENS))
    common, edges = runs.filter(shared), runs.filter(~shared)
    if len(common):
        by = [RUN, OPENS, CLOSES, *shape.keys, SEEN]
        merged = aggregate.merge(common, by, shape.plan.aggregates)
        # Any slice that lies in all windows of the run stands for them.
        edges = pl.concat(
            [edges, merged.with_columns((pl.col(OPENS) - window.slice_size).alias(SLICE))], how="diagonal_relaxed"
        )
    first = pl.max_horizontal(first_end(pl.col(SLICE), window), OPENS)
    last = pl.min_horizontal(last_end(pl.col(SLICE), window), CLOSES)
    ends = edges.with_columns(pl.int_ranges(first, last + 1, window.slide).alias(END)).drop(RUN, OPENS, CLOSES)
    return ends.explode(END).filter(inside)


def _by_run(partials: pl.DataFrame, window: Sliding, low: int, high: int) -> pl.DataFrame:
    """Each partial once for each run of windows that it lies in, with the first and the last end of the run."""
    span, grid = isqrt(2 * window.size // window.slide) * window.slide, window.offset + window.size
    first = (pl.max_horizontal(first_end(pl.col(SLICE), window), pl.lit(low, dtype=pl.Int64)) - grid) // span
    last = (pl.min_horizontal(last_end(pl.col(SLICE), window), pl.lit(high, dtype=pl.Int64)) - grid) // span
    placed = partials.with_columns(first.alias("__first"), last.alias("__last")).filter(pl.col("__first") <= pl.col("__last"))
    runs = placed.with_columns(pl.int_ranges("__first", pl.col("__last") + 1).alias(RUN)).drop("__first", "__last").explode(RUN)
    opens = pl.col(RUN) * span + grid
    return runs.with_columns(opens.alias(OPENS), (opens + span - window.slide).alias(CLOSES))
