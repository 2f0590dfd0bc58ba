"""Windows and slices as column arithmetic: the same floor divisions as the model's, over many rows at once."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from eventide.kernel.columns import UNSEEN
from eventide.model.window import Sliding, Window


def slice_start(time: pl.Expr, window: Sliding) -> pl.Expr:
    """The start of each row's slice."""
    return (time - window.offset) // window.slice_size * window.slice_size + window.offset


def first_end(time: pl.Expr, window: Sliding) -> pl.Expr:
    """The end of the earliest window that holds each row (stops at the end of int64)."""
    grid = window.offset + window.size
    return (time - grid) // window.slide * window.slide + window.slide + grid


def last_end(time: pl.Expr, window: Sliding) -> pl.Expr:
    """The end of the latest window that holds each row."""
    return (time - window.offset) // window.slide * window.slide + window.size + window.offset


def floor_end(time: pl.Expr, window: Sliding) -> pl.Expr:
    """The latest window end that is not after each time."""
    grid = window.offset + window.size
    return (time - grid) // window.slide * window.slide + grid


def last_threshold(watermark: pl.Expr, window: Sliding, allowances: Sequence[int]) -> pl.Expr:
    """The last instant at or below W at which a verdict changes; UNSEEN where it had passed none."""
    known = pl.max_horizontal(watermark, pl.lit(UNSEEN, dtype=pl.Int64))
    steps = pl.max_horizontal([floor_end(known - a, window) + a for a in allowances])
    return pl.when(watermark > UNSEEN).then(steps).otherwise(pl.lit(UNSEEN, dtype=pl.Int64))


def own_end(time: pl.Expr, window: Window) -> pl.Expr:
    """The first end that a row can be late for: of its earliest window, or of the session that it would be alone in."""
    return first_end(time, window) if isinstance(window, Sliding) else time + window.gap
