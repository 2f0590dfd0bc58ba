"""Rank, applied to Arrow tables: which pane of a window stands, and what a reader sees."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl
import pyarrow as pa

from eventide.sinks.base import Span
from eventide.sinks.chunks import narrowed, taken
from eventide.sinks.shape import PaneShape


def together(panes: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """All batches of a delivery as one table."""
    return pa.Table.from_batches(list(panes), schema=schema)


def emitted(panes: Iterable[pa.RecordBatch], shape: PaneShape) -> pa.Table:
    """All panes of a delivery in the order of emission: by the end of their windows, then by key, then as they came.

    They come from many buckets side by side, each in the order of its own; those of one key come from one bucket, in rank order, a
    withdrawn session before the one that it merged into. That order stays, and the whole is the same each time a batch is run.
    """
    table = together(panes, shape.schema)
    keys = [name for name, kind in shape.keys if not pa.types.is_nested(kind)]
    order = pl.DataFrame(pl.from_arrow(table.select([shape.meta("window_end"), *keys]))).with_row_index("eventide_row")
    place = order.sort([shape.meta("window_end"), *keys, "eventide_row"])["eventide_row"]
    return table if place.is_sorted() else taken(table, place.to_arrow())


def rank_columns(shape: PaneShape) -> tuple[str, str, str]:
    """The columns that order panes of one window; "insert" sorts before "retract", as the rank wants it."""
    return shape.meta("generation"), shape.meta("sequence"), shape.meta("op")


def highest(panes: pa.Table, shape: PaneShape) -> pa.Table:
    """One row per identity: that of the highest rank, in the order of the identity.

    The first of equal ranks stays, so tables put together as (stored, arriving) keep what is stored.
    """
    identity = list(shape.identity)
    rank = [name for name in rank_columns(shape) if name not in identity]
    order = pl.DataFrame(pl.from_arrow(panes.select([*identity, *rank]))).with_row_index("eventide_row")
    ascending = [False] * len(identity) + [True] * len(rank) + [False]
    kept = order.sort([*identity, *rank, "eventide_row"], descending=ascending).unique(
        identity, keep="first", maintain_order=True
    )
    return taken(panes, kept["eventide_row"].to_arrow())


def first_of_each(rows: pa.Table, identity: tuple[str, ...]) -> pa.Table:
    """The first row of each identity, in the order in which they came."""
    order = pl.DataFrame(pl.from_arrow(rows.select(list(identity)))).with_row_index("eventide_row")
    return taken(rows, order.unique(list(identity), keep="first", maintain_order=True)["eventide_row"].to_arrow())


def current(panes: pa.Table, shape: PaneShape) -> pa.Table:
    """What a reader sees of stored panes: no tombstones, deltas added up, in the order of the windows."""
    standing = highest(panes, shape)
    if shape.accumulation == "discarding":
        return _added(standing, shape)
    frame = pl.DataFrame(pl.from_arrow(standing.select([shape.meta("op")]))).with_row_index("eventide_row")
    return taken(standing, frame.filter(pl.col(shape.meta("op")) == "insert")["eventide_row"].to_arrow())


def _added(panes: pa.Table, shape: PaneShape) -> pa.Table:
    """Deltas of each window's highest generation, added by the function of each value."""
    window, generation, sequence = shape.identity
    frame = pl.DataFrame(pl.from_arrow(panes))
    newest = frame.filter(pl.col(generation) == pl.col(generation).max().over(window)).sort(sequence)
    newest = newest.filter(pl.col(shape.meta("op")) == "insert")
    added = newest.group_by(window, maintain_order=True).agg(
        *(_put_together(name, shape.added_by(name)) for name in shape.value_names),
        pl.exclude(window, *shape.value_names).last(),
    )
    return narrowed(added.select(panes.column_names).sort(window).to_arrow(), panes.schema)


def _put_together(name: str, function: str) -> pl.Expr:
    """The deltas of a value as one; of nothing but nulls there is no sum, where Polars says 0."""
    value = pl.col(name)
    return pl.when(value.count() > 0).then(value.sum()) if function == "sum" else getattr(value, function)()


def retracts(panes: pa.Table, shape: PaneShape) -> pa.Table:
    """Results as their own withdrawals: the same generation, sequence and values, so that each takes back exactly that result."""
    op = shape.meta("op")
    return panes.set_column(
        panes.column_names.index(op), panes.schema.field(op), pa.array(["retract"] * panes.num_rows, pa.string())
    )


def outdated(panes: pa.Table, shape: PaneShape, generation: int, span: Span) -> pa.Table:
    """Of stored panes the results of older generations whose windows lie inside a span."""
    low, high, op, age = (shape.meta(name) for name in ("window_start", "window_end", "op", "generation"))
    times = [pl.from_arrow(panes[name].cast(pa.timestamp("us")).cast(pa.int64())) for name in (low, high)]
    frame = pl.DataFrame(pl.from_arrow(panes.select([op, age]))).with_columns(
        pl.Series("low", times[0]), pl.Series("high", times[1])
    )
    chosen = (pl.col(op) == "insert") & (pl.col(age) < generation)
    if span.low is not None:
        chosen &= pl.col("low") >= span.low
    if span.high is not None:
        chosen &= pl.col("high") <= span.high
    return panes.filter(frame.select(chosen.alias("chosen"))["chosen"].to_arrow())
