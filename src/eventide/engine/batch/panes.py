"""Panes as the table that sinks are handed."""

from __future__ import annotations

import polars as pl
import pyarrow as pa

from eventide.kernel.bound_plan import BoundPlan
from eventide.kernel.columns import END, OP, TIMING, instant
from eventide.kernel.jsontext import json_of
from eventide.model.plan import OutputPlan
from eventide.sinks.shape import PaneShape


def pane_table(panes: pl.DataFrame, shape: BoundPlan, output: OutputPlan, clock: int) -> pl.DataFrame:
    """Panes with the columns of `PaneShape.schema`, in the order in which they were emitted: each window's by rank."""
    names = output.view.names(shape.keys, [name for name, _ in shape.plan.aggregates], f"output {output.name!r}")
    naming = PaneShape(tuple((k, pa.null()) for k in shape.keys), tuple((n, pa.null()) for n in names))
    key = json_of(shape.keys, panes.schema) if shape.keys else pl.lit("{}")
    named = panes.with_columns(
        pl.concat_str([pl.col("__start"), pl.lit(":"), pl.col(END), pl.lit(":"), key]).alias("__window_id")
    )
    return named.select(
        pl.col("__window_id").alias(naming.meta("window_id")),
        instant("__start").alias(naming.meta("window_start")),
        instant(END).alias(naming.meta("window_end")),
        *shape.keys,
        *names,
        pl.col("__sequence").alias(naming.meta("sequence")),
        *emission(naming, shape.plan.generation, clock),
    )


def emission(naming: PaneShape, generation: int, clock: int) -> list[pl.Expr]:
    """What is said of every emission beside its result: what it does, its timing, of which generation it is and when it was made."""
    made = pl.from_epoch(pl.lit(clock, dtype=pl.Int64), time_unit="us").dt.replace_time_zone("UTC")
    return [
        pl.col(OP).alias(naming.meta("op")),
        pl.col(TIMING).alias(naming.meta("timing")),
        pl.lit(generation, dtype=pl.Int64).alias(naming.meta("generation")),
        made.alias(naming.meta("emitted_at")),
    ]
