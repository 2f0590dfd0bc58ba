"""SQL conditions over finished aggregates."""

from __future__ import annotations

import polars as pl


def holds(condition: str, values: pl.DataFrame) -> pl.Series:
    """For which rows a SQL condition holds; null is no.

    >>> holds("total > 10", pl.DataFrame({"total": [5, 20]})).to_list()
    [False, True]
    """
    return values.select(pl.sql_expr(condition).cast(pl.Boolean).fill_null(False).alias("holds")).to_series()
