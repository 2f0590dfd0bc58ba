"""Rows judged at their own positions: W's steps joined to them, then what each output makes of each row."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from eventide.kernel import aggregate
from eventide.kernel.bound_plan import BoundPlan
from eventide.kernel.columns import (
    ARRIVAL,
    BEHIND,
    END,
    LANE,
    MISSED_FIRST,
    MISSED_LAST,
    OFFSET,
    POSITION,
    SEEN,
    SLICE,
    SOURCE,
    TIME,
    UNSEEN,
)
from eventide.kernel.grid import first_end, floor_end, last_end, last_threshold, own_end, slice_start
from eventide.model.sweep import Step
from eventide.model.window import Sliding

W = "__w"
"""W at the row's position at full resolution; UNSEEN while undefined."""
DISORDER, IDLENESS = "rows_late_behind_lane", "rows_late_without_lane"
"""Late rows by cause: their lane had gone on without them, or W had gone on without their lane."""


def steps_frame(steps: Sequence[Step]) -> pl.DataFrame:
    """W's steps as a table, each with the position after which it holds."""
    return pl.DataFrame(
        {
            ARRIVAL: [s.position[0] for s in steps],
            SOURCE: [s.position[1] for s in steps],
            LANE: [s.position[2] for s in steps],
            OFFSET: [s.position[3] for s in steps],
            "__step": [UNSEEN if s.watermark is None else s.watermark for s in steps],
            "__grows": [s.position[0] if s.grows else None for s in steps],
        },
        schema={
            ARRIVAL: pl.Int64,
            SOURCE: pl.Int64,
            LANE: pl.String,
            OFFSET: pl.Int64,
            "__step": pl.Int64,
            "__grows": pl.Int64,
        },
    )


def with_watermark(rows: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Each row with W as it stood before it: the last step at a position before its own."""
    marked = rows.with_columns(pl.lit(None, dtype=pl.Int64).alias("__step"), pl.lit(None, dtype=pl.Int64).alias("__grows"))
    both = pl.concat(
        [marked.with_columns(pl.lit(0).alias("__kind")), steps.with_columns(pl.lit(1).alias("__kind"))], how="diagonal"
    )
    both = both.sort([*POSITION, "__kind"]).with_columns(
        pl.col("__step").forward_fill(),
        pl.when(pl.col("__kind") == 1).then(pl.coalesce("__grows", UNSEEN)).otherwise(None).forward_fill().alias("__since"),
    )
    grown = pl.when((pl.col("__since") != UNSEEN) & (pl.col("__step") != UNSEEN)).then(
        pl.col("__step") + pl.max_horizontal(pl.col(ARRIVAL) - pl.col("__since"), 0)
    )
    judged = both.filter(pl.col("__kind") == 0).with_columns(grown.otherwise(pl.col("__step")).alias(W))
    return judged.drop("__step", "__grows", "__kind", "__since")


def seen_by_windows(rows: pl.DataFrame, shape: BoundPlan) -> pl.DataFrame:
    """Rows with their slice, the ends of their windows, and W reduced to the last threshold that it had passed."""
    window = shape.plan.window
    assert isinstance(window, Sliding)
    ends = rows.with_columns(
        slice_start(pl.col(TIME), window).alias(SLICE),
        first_end(pl.col(TIME), window).alias("__first_end"),
        last_end(pl.col(TIME), window).alias("__last_end"),
        last_threshold(pl.col(W), window, shape.plan.allowances).alias(SEEN),
    )
    return ends.with_columns(pl.when(pl.col(SEEN) < pl.col("__first_end")).then(UNSEEN).otherwise(pl.col(SEEN)).alias(SEEN))


def late_partials(rows: pl.DataFrame, shape: BoundPlan) -> pl.DataFrame:
    """Partials, by what W had passed, of the rows that at least one window of one output still takes."""
    widest = max(shape.plan.allowances)
    taken = rows.filter(pl.col("__last_end") > pl.col(SEEN) - widest)
    return aggregate.partial(taken, [SLICE, *shape.keys, SEEN], shape.plan.aggregates)


def refused(rows: pl.DataFrame, shape: BoundPlan, allowed: int) -> pl.DataFrame:
    """The rows that missed a window under this allowed lateness, with the first and last end that missed them."""
    window = shape.plan.window
    assert isinstance(window, Sliding)
    late = rows.filter((pl.col(SEEN) != UNSEEN) & (pl.col("__first_end") <= pl.col(SEEN) - allowed))
    last_missed = pl.min_horizontal(pl.col("__last_end"), floor_end(pl.col(SEEN) - allowed, window))
    return late.with_columns(pl.col("__first_end").alias(MISSED_FIRST), last_missed.alias(MISSED_LAST))


def verdict_counts(rows: pl.DataFrame, shape: BoundPlan, allowed: int) -> dict[str, int]:
    """Pairs of row and window by verdict, rows by their worst verdict, and late rows by cause."""
    window = shape.plan.window
    assert isinstance(window, Sliding)
    total = (pl.col("__last_end") - pl.col("__first_end")) // window.slide + 1
    open_from = pl.max_horizontal(pl.col("__first_end"), floor_end(pl.col(SEEN), window) + window.slide)
    kept_from = pl.max_horizontal(pl.col("__first_end"), floor_end(pl.col(SEEN) - allowed, window) + window.slide)
    on_time = ((pl.col("__last_end") - open_from) // window.slide + 1).clip(lower_bound=0)
    kept = ((pl.col("__last_end") - kept_from) // window.slide + 1).clip(lower_bound=0)
    columns = (total.alias("total"), on_time.alias("on_time"), kept.alias("kept"), pl.col(BEHIND))
    late = pl.col("on_time") < pl.col("total")
    facts = rows.select(columns).select(
        pl.col("on_time").sum().alias("on_time"),
        (pl.col("kept") - pl.col("on_time")).sum().alias("admitted"),
        (pl.col("total") - pl.col("kept")).sum().alias("refused"),
        (pl.col("on_time") == pl.col("total")).sum().alias("rows_on_time"),
        ((pl.col("kept") == pl.col("total")) & late).sum().alias("rows_admitted"),
        (pl.col("kept") < pl.col("total")).sum().alias("rows_refused"),
        (late & pl.col(BEHIND)).sum().alias(DISORDER),
        (late & ~pl.col(BEHIND)).sum().alias(IDLENESS),
    )
    return {name: int(number) for name, number in facts.row(0, named=True).items()}


def late_by_source(rows: pl.DataFrame, shape: BoundPlan) -> dict[str, int]:
    """How many rows of each source came after W had passed the end of their first window."""
    late = rows.filter(own_end(pl.col(TIME), shape.plan.window) <= pl.col(W))
    return {str(source): int(number) for source, number in late.group_by(SOURCE).len().iter_rows()}


def pairs(rows: pl.DataFrame, shape: BoundPlan) -> int:
    """How many pairs of row and window there are to judge, counted by the windows of each row, whatever the verdicts."""
    window = shape.plan.window
    assert isinstance(window, Sliding)
    return int(rows.select(((pl.col("__last_end") - pl.col("__first_end")) // window.slide + 1).sum()).item() or 0)


def windows_of(partials: pl.DataFrame, shape: BoundPlan) -> pl.DataFrame:
    """One row for each partial and each window that holds its slice, by the window's end."""
    window = shape.plan.window
    assert isinstance(window, Sliding)
    if window.size == window.slide:
        return partials.with_columns((pl.col(SLICE) + window.size).alias(END))
    ends = pl.int_ranges(first_end(pl.col(SLICE), window), last_end(pl.col(SLICE), window) + 1, window.slide)
    return partials.with_columns(ends.alias(END)).explode(END)
