"""The pairs of a join as the table that sinks are handed: named by the two rows' places, at the later of their times."""

from __future__ import annotations

import polars as pl
import pyarrow as pa

from eventide.engine.batch.panes import emission
from eventide.kernel.arrow_types import small
from eventide.kernel.bound_plan import BoundPlan
from eventide.kernel.columns import TIME, instant
from eventide.kernel.join import PAIR
from eventide.kernel.sides import JoinPlan
from eventide.model.graph import Join
from eventide.sinks.shape import PaneShape
from eventide.wording import words


def pair_kinds(join: JoinPlan, kinds: dict[str, pl.DataType]) -> dict[str, pl.DataType]:
    """The columns of a pair with their types; `kinds` are those of both sides' columns."""
    return {name: kinds[column] for name, (_, column) in join.bound.columns}


def row_kinds(shape: BoundPlan, kinds: dict[str, pl.DataType]) -> dict[str, pl.DataType]:
    """The columns of an aggregation's rows with their types: of the events, or of the pairs that it reads instead."""
    return kinds if shape.pairs is None else pair_kinds(shape.pairs, kinds)


def pair_shapes(shape: BoundPlan, join: JoinPlan, kinds: dict[str, pl.DataType]) -> dict[str, PaneShape]:
    """The columns of each output of a join, as Arrow types."""
    fields = pl.DataFrame(schema=pair_kinds(join, kinds)).to_arrow(compat_level=pl.CompatLevel.oldest()).schema
    values = tuple((field.name, small(field.type)) for field in fields)
    return {o.name: PaneShape((), values, o.accumulation, window=join_words(join.bound.join)) for o in shape.plan.outputs}


def join_words(join: Join) -> str:
    """What pairs are, as a text: those of another join cannot share a table with them.

    >>> from eventide.model.graph import Between
    >>> join_words(Join("j", "orders", "payments", (("id", "id"),), Between(0, 5_000_000), "left"))
    'left join of orders and payments on id = id within ("0 seconds", "5 seconds")'
    """
    on = " and ".join(f"{left} = {right}" for left, right in join.on)
    itself = f", self_pairs={join.self_pairs}" if join.left == join.right else ""
    return f"{join.how} join of {join.left} and {join.right} on {on} within {words(join.within)}{itself}"


def pair_table(changes: pl.DataFrame, shape: BoundPlan, join: JoinPlan, clock: int) -> pl.DataFrame:
    """Pairs, null rows and withdrawals with the columns of `PaneShape.schema`. Each is stated once, so that its sequence is 0."""
    names = [name for name, _ in join.bound.columns]
    naming = PaneShape((), tuple((name, pa.null()) for name in names))
    return changes.select(
        pl.col(PAIR).alias(naming.meta("window_id")),
        instant(TIME).alias(naming.meta("window_start")),
        instant(TIME).alias(naming.meta("window_end")),
        *names,
        pl.lit(0, dtype=pl.Int64).alias(naming.meta("sequence")),
        *emission(naming, shape.plan.generation, clock),
    )
