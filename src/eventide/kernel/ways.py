"""The ways that rows take through stages, counted by verdict: (source row, a window of each stage below, a window here).

A row counts in a window iff W at the row was below the least of end + A over all windows on its way, so that its times and W tell all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from eventide.kernel.bound_plan import Above, BoundPlan
from eventide.kernel.columns import END, ROWS, SLICE, UNSEEN
from eventide.kernel.grid import slice_start
from eventide.kernel.handing import class_of
from eventide.kernel.judge import W, windows_of
from eventide.model.plan import OutputPlan
from eventide.model.window import Sliding

GROUP = "__group"


@dataclass
class Ways:
    """What became of rows in the stages over an aggregation."""

    pairs: Counter[str] = field(default_factory=Counter)
    """Ways that came to a stage, by its name, counted whatever the verdicts."""
    verdicts: dict[str, Counter[str]] = field(default_factory=dict)
    """By output, or reading of a stage above: ways by verdict, and rows by their worst."""


def ways_of(rows: pl.DataFrame, shape: BoundPlan) -> Ways:
    """Of rows that were judged, with their slice and W."""
    if not shape.above:
        return Ways()
    chain = (shape, *(one for stage in shape.above for one in stage.chain))
    return _followed(rows.group_by(SLICE, class_of(chain).alias(W)).agg(pl.len().cast(pl.Int64).alias(ROWS)), shape)


def ways_of_ends(ends: Sequence[tuple[int, int, int]], shape: BoundPlan, stage: Above) -> Ways:
    """Of rows of sessions: where the session ended right after each, W at the row, and how many there were of the kind."""
    told = pl.DataFrame(ends, schema=dict.fromkeys((END, W, ROWS), pl.Int64), orient="row")
    groups = told.group_by(END, W).agg(pl.col(ROWS).sum()).with_row_index(GROUP)
    found = Ways()
    _follow(groups, groups, shape, stage, pl.Series(GROUP, [], dtype=pl.UInt32), found)
    return found


def ahead_ways(partials: list[pl.DataFrame], shape: BoundPlan) -> dict[str, int]:
    """Of rows that are ahead, by counter: all their ways are on time."""
    if not shape.above or not partials:
        return {}
    slices = pl.concat([part.select(SLICE, ROWS) for part in partials]).group_by(SLICE).agg(pl.col(ROWS).sum())
    found = _followed(slices.with_columns(pl.lit(UNSEEN, dtype=pl.Int64).alias(W)), shape)
    return {f"{stage}/ahead_pairs": number for stage, number in found.pairs.items()}


def _followed(groups: pl.DataFrame, shape: BoundPlan) -> Ways:
    found, groups = Ways(), groups.with_row_index(GROUP)
    for stage in shape.above:
        _follow(windows_of(groups, shape), groups, shape, stage, pl.Series(GROUP, [], dtype=pl.UInt32), found)
    return found


def _follow(ends: pl.DataFrame, groups: pl.DataFrame, below: BoundPlan, stage: Above, lost: pl.Series, found: Ways) -> None:
    """From windows of one aggregation into those of a stage over it; `lost` are groups of rows that were refused further below."""
    reading = next(output for output in below.plan.outputs if output.name == stage.reading)
    shape, window = stage.shape, stage.shape.plan.window
    assert isinstance(window, Sliding), "sessions over results are refused"
    let_in = pl.col(W) - reading.allowed < pl.col(END)
    lost = pl.concat([lost, ends.filter(~let_in)[GROUP]])
    ways = ends.filter(let_in).with_columns(slice_start(pl.col(END) - 1, window).alias(SLICE)).drop(END)
    met = windows_of(ways, shape)
    found.pairs[shape.name] += int(ways.select(_windows_in(window)).to_series().sum())
    for output in shape.plan.outputs:
        found.verdicts[output.name] = _verdicts(met, groups, output, lost)
    for above in shape.above:
        _follow(met, groups, shape, above, lost, found)


def _windows_in(window: Sliding) -> pl.Expr:
    """How many windows hold a slice, for each of its rows."""
    newest = (pl.col(SLICE) - window.offset) // window.slide
    oldest = (pl.col(SLICE) - window.offset - window.size) // window.slide
    return pl.col(ROWS) * (newest - oldest)


def _verdicts(met: pl.DataFrame, groups: pl.DataFrame, output: OutputPlan, lost: pl.Series) -> Counter[str]:
    on_time, kept = pl.col(W) < pl.col(END), pl.col(W) - output.allowed < pl.col(END)
    told = met.select(
        (pl.col(ROWS) * on_time).sum().alias("on_time"),
        (pl.col(ROWS) * (kept & ~on_time)).sum().alias("admitted"),
        (pl.col(ROWS) * ~kept).sum().alias("refused"),
    )
    missed = pl.concat([lost, met.filter(~kept)[GROUP]]).unique().implode()
    late = met.filter(kept & ~on_time)[GROUP].unique().implode()
    worst = groups.with_columns(pl.col(GROUP).is_in(missed).alias("__missed"), pl.col(GROUP).is_in(late).alias("__late"))
    rows = worst.select(
        (pl.col(ROWS) * (~pl.col("__missed") & ~pl.col("__late"))).sum().alias("rows_on_time"),
        (pl.col(ROWS) * (~pl.col("__missed") & pl.col("__late"))).sum().alias("rows_admitted"),
        (pl.col(ROWS) * pl.col("__missed")).sum().alias("rows_refused"),
    )
    return Counter({name: int(number) for name, number in {**told.row(0, named=True), **rows.row(0, named=True)}.items()})
