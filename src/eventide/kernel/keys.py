"""Keys as values that are equal only where their bytes and texts are: floats have two zeros and many values that are no number."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import polars as pl

from eventide.kernel.leaves import changed, holds


def one_of_equals(rows: pl.DataFrame, keys: Iterable[str]) -> pl.DataFrame:
    """Rows whose keys hold 0.0 for -0.0, and one NaN for all: what counts as one key goes to one bucket, under one window_id.

    >>> one_of_equals(pl.DataFrame({"k": [-0.0, 1.0]}), ["k"])["k"].to_list()
    [0.0, 1.0]
    """
    floats = [name for name in dict.fromkeys(keys) if holds(rows.schema[name], lambda kind: kind.is_float())]
    if not floats:
        return rows
    zeros = {n: changed(pl.col(n), rows.schema[n], lambda kind: kind.is_float(), one_float) for n in floats}
    return rows.with_columns(one.cast(rows.schema[n]).alias(n) for n, one in zeros.items())


def one_float(value: pl.Expr) -> pl.Expr:
    """A float as the one that stands for all that are equal to it."""
    return pl.when(value.is_nan()).then(math.nan).when(value == 0).then(0.0).otherwise(value)


def matchable(rows: pl.DataFrame) -> pl.DataFrame:
    """Keys, one of equals each, as values that any join of Polars finds: where both sides are in order by one float, no NaN meets another.

    >>> matchable(pl.DataFrame({"k": [float("nan"), 1.5]}))["k"].to_list()
    ['NaN', '1.5']
    """
    return rows.with_columns(pl.col(pl.Float64, pl.Float32).cast(pl.String))


def known(rows: pl.DataFrame, among: pl.DataFrame) -> pl.Series:
    """Of each row of keys, whether it is among others.

    >>> known(pl.DataFrame({"k": [float("nan"), 1.5]}), pl.DataFrame({"k": [float("nan"), None]})).to_list()
    [True, False]
    """
    marked = matchable(among).unique().with_columns(__known=True)
    found = matchable(rows).join(marked, on=rows.columns, how="left", maintain_order="left", nulls_equal=True)
    return found["__known"].fill_null(False)


def hashable(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """A key for a dict: Python finds a NaN only if it is the same object.

    >>> {hashable((float("nan"),)): 1}[hashable((float("nan"),))]
    1
    """
    return tuple(math.nan if part != part else part for part in key)
