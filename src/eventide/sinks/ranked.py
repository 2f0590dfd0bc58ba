"""Rank, applied to Arrow tables: which pane of a window stands, and what a reader sees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import polars as pl
import pyarrow as pa

from eventide.sinks.base import Span
from eventide.sinks.chunks import narrowed, taken
from eventide.sinks.shape import PaneShape

ROW = "eventide_row"
SORTED = 4_000_000
"""So many rows are sorted at once."""


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
    end = shape.meta("window_end")
    order = pl.DataFrame(pl.from_arrow(table.select([end, *keys]))).with_row_index(ROW)
    return _rows(table, pl.concat([part.sort([end, *keys, ROW])[ROW] for part in _ranges(order, end)]))


def rank_columns(shape: PaneShape) -> tuple[str, str, str]:
    """The columns that order panes of one window; "insert" sorts before "retract", as the rank wants it."""
    return shape.meta("generation"), shape.meta("sequence"), shape.meta("op")


def highest(panes: pa.Table, shape: PaneShape) -> pa.Table:
    """One row per identity: that of the highest rank, in the order of the identity.

    The first of equal ranks stays, so tables put together as (stored, arriving) keep what is stored.
    """
    identity = list(shape.identity)
    rank = [name for name in rank_columns(shape) if name not in identity]
    order = pl.DataFrame(pl.from_arrow(panes.select([*identity, *rank]))).with_row_index(ROW)
    kept = pl.concat([_leading(part, identity, rank) for part in _ranges(order, identity[0])])
    return _rows(panes, kept)


def _leading(order: pl.DataFrame, identity: list[str], rank: list[str]) -> pl.Series:
    ascending = [False] * len(identity) + [True] * len(rank) + [False]
    ranked = order.sort([*identity, *rank, ROW], descending=ascending)
    return ranked.unique(identity, keep="first", maintain_order=True)[ROW]


def _ranges(order: pl.DataFrame, by: str) -> Iterator[pl.DataFrame]:
    """Rows in ranges of a column, each of them few enough to be sorted beside the others: all at once would need as much memory again."""
    pieces = -(-len(order) // SORTED)
    key = order[by].to_physical()  # times beyond those of Python too
    drawn = key.drop_nulls().gather_every(max(1, len(order) // (100 * max(1, pieces)))).sort()
    bounds = sorted({drawn[len(drawn) * nth // pieces] for nth in range(1, pieces)}) if len(drawn) else []
    if not bounds:
        yield order
        return
    range_of = pl.select(pl.sum_horizontal((key >= bound).cast(pl.UInt32) for bound in bounds)).to_series()
    for number in range(len(bounds) + 1):
        yield order.filter(range_of == number)


def _rows(panes: pa.Table, kept: pl.Series) -> pa.Table:
    """The panes at some places; all of them in their order are the table itself, which may be large."""
    return panes if len(kept) == panes.num_rows and kept.is_sorted() else taken(panes, kept.to_arrow())


def first_of_each(rows: pa.Table, identity: tuple[str, ...]) -> pa.Table:
    """The first row of each identity, in the order in which they came."""
    order = pl.DataFrame(pl.from_arrow(rows.select(list(identity)))).with_row_index(ROW)
    return _rows(rows, order.unique(list(identity), keep="first", maintain_order=True)[ROW])


def current(panes: pa.Table, shape: PaneShape) -> pa.Table:
    """What a reader sees of stored panes: no tombstones, deltas added up, in the order of the windows."""
    return shown(highest(panes, shape), shape)


def shown(standing: pa.Table, shape: PaneShape) -> pa.Table:
    """The same of panes of which each identity has one already."""
    if shape.accumulation == "discarding":
        return _added(standing, shape)
    frame = pl.DataFrame(pl.from_arrow(standing.select([shape.meta("op")]))).with_row_index(ROW)
    return _rows(standing, frame.filter(pl.col(shape.meta("op")) == "insert")[ROW])


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
