"""What an aggregation hands on to a stage over it: its results as rows, what is withdrawn of them, and the class of W under which each came.

Of W only what a verdict above can ask for matters: changes between which W passed no such threshold come as one.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from eventide.kernel.bound_plan import Above, BoundPlan
from eventide.kernel.columns import ARRIVAL, END, LANE, OFFSET, OP, ROWS, SEQUENCE, SOURCE, TIME
from eventide.kernel.grid import last_threshold
from eventide.kernel.jsontext import json_of
from eventide.kernel.judge import W
from eventide.kernel.keys import one_of_equals
from eventide.kernel.view import START
from eventide.model.pane import INSERT, RETRACT
from eventide.model.view import BOUNDS
from eventide.model.window import Sliding

IDENTITY = (ARRIVAL, LANE, OFFSET)
"""A result by its window_id: where it starts, its key, where it ends. In the place of a row's position it breaks ties so, too."""

_CHANGE: dict[str, pl.DataType] = {
    ARRIVAL: pl.Int64(),
    SOURCE: pl.Int64(),
    LANE: pl.String(),
    OFFSET: pl.Int64(),
    TIME: pl.Int64(),
    W: pl.Int64(),
    SEQUENCE: pl.Int64(),
    OP: pl.String(),
    ROWS: pl.Int64(),
}


def no_changes(kinds: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """No changes of results, with all their columns; `kinds` are those that a stage reads."""
    return pl.DataFrame(schema={**kinds, **_CHANGE})


def class_of(chain: tuple[BoundPlan, ...]) -> pl.Expr:
    """The last threshold of these stages that W has passed: compared with any of their thresholds it tells the same as W."""
    return pl.max_horizontal([_passed(one) for one in chain])


def _passed(shape: BoundPlan) -> pl.Expr:
    assert isinstance(shape.plan.window, Sliding), "sessions over results are refused"
    return last_threshold(pl.col(W), shape.plan.window, shape.plan.allowances)


def changes(panes: pl.DataFrame, keys: tuple[str, ...], above: Above) -> pl.DataFrame:
    """Panes of the reading below, which start and end somewhere, as rows of a stage.

    What is withdrawn under one of its keys and comes again under the same, at once, is only corrected.
    """
    bounds = dict(zip(BOUNDS, (START, END), strict=True))
    rows = panes.select(
        *(pl.col(bounds.get(name, name)).cast(kind).alias(name) for name, kind in above.kinds.items()),
        pl.col(START).alias(ARRIVAL),
        pl.lit(0, dtype=pl.Int64).alias(SOURCE),
        (json_of(keys, panes.schema) if keys else pl.lit("{}")).alias(LANE),
        pl.col(END).alias(OFFSET),
        (pl.col(END) - 1).alias(TIME),
        W,
        SEQUENCE,
        OP,
        pl.lit(1, dtype=pl.Int64).alias(ROWS),
    )
    rows = one_of_equals(rows, above.shape.keys)
    same = [*IDENTITY, W, SEQUENCE, *above.shape.keys]
    inserts = rows.filter(pl.col(OP) == INSERT)
    corrected = inserts.with_columns(pl.col(SEQUENCE) - 1).select(same)
    withdrawn = rows.filter(pl.col(OP) == RETRACT).join(corrected, on=same, how="anti", nulls_equal=True)
    return pl.concat([inserts, withdrawn])
