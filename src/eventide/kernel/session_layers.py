"""The sessions of a bucket as layers: a batch writes those of the keys that it touched, and for a key the newest layer speaks.

A key of which no session is left has a row without a start there, a gap, until the layers beneath it are merged.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from eventide.kernel.columns import END
from eventide.kernel.keys import known
from eventide.kernel.view import START

MOST_LAYERS = 8
"""So many layers are read together, before they are merged."""


def standing(layers: Sequence[pl.DataFrame]) -> pl.DataFrame | None:
    """The sessions that live, by layers from the oldest to the newest.

    >>> old = pl.DataFrame({"key": ["a", "b", "c"], START: [1, 2, 3], END: [5, 6, 7]})
    >>> new = pl.DataFrame({"key": ["b", "c"], START: [2, None], END: [8, 7]})
    >>> standing([old, new]).rows()
    [('b', 2, 8), ('a', 1, 5)]
    """
    found: list[pl.DataFrame] = []
    newer: pl.DataFrame | None = None
    for layer in reversed(layers):
        keys = [name for name in layer.columns if not name.startswith("__")]
        if newer is None:
            own = layer
        elif not keys:
            break  # all rows have one key
        else:
            own = layer.filter(~known(layer.select(keys), newer))
        found.append(own.filter(pl.col(START).is_not_null()))
        told = layer.select(keys).unique()
        newer = told if newer is None else pl.concat([newer, told], how="vertical_relaxed")
    return pl.concat(found, how="diagonal_relaxed") if found else None


def layer_over(touched: pl.DataFrame, now: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """What a batch writes: the sessions of the keys that it touched, and a gap for each key that has none any more."""
    if touched.is_empty() or (not keys and len(now)):
        return now
    ends = touched.group_by(list(keys)).agg(pl.col(END).max()) if keys else touched.select(pl.col(END).max())
    gone = ends.filter(~known(ends.select(keys), now.select(keys))) if keys else ends
    return pl.concat([now, gone], how="diagonal_relaxed")


def is_whole(rows: Sequence[int], changed: int) -> bool:
    """Whether the sessions are written whole: the layers over the oldest have grown to half of it, or have become many.

    >>> is_whole([1_000], 10), is_whole([1_000], 700), is_whole([1_000] + [10] * 8, 10), is_whole([], 5)
    (False, True, True, True)
    """
    return not rows or len(rows) > MOST_LAYERS or 2 * (sum(rows[1:]) + changed) > rows[0]
