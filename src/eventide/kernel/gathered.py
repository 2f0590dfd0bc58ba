"""What was gathered in lists, group by group, as rows of one table and back: for work that Polars cannot do inside a group."""

from __future__ import annotations

import polars as pl

GROUP = "__group"
CELL = "__cell"


def unpacked(lists: pl.Series) -> pl.DataFrame:
    """The entries of all lists, each with the number of its list.

    >>> unpacked(pl.Series([["a", "b"], [], ["c"]])).rows()
    [(0, 'a'), (0, 'b'), (2, 'c')]
    """
    return lists.alias(CELL).to_frame().with_row_index(GROUP).explode(CELL, empty_as_null=False, keep_nulls=False)


def packed(rows: pl.DataFrame, lists: pl.Series) -> pl.Series:
    """Rows as lists of their entries, in the order in which they stand, under the name of the lists that they came from.

    >>> lists = pl.Series("v", [["a", "b"], [], ["c"]])
    >>> packed(unpacked(lists).filter(pl.col(CELL) != "b"), lists).to_list()
    [['a'], [], ['c']]
    """
    found = rows.group_by(GROUP, maintain_order=True).agg(CELL)
    groups = lists.to_frame().with_row_index(GROUP).select(GROUP)
    cells = groups.join(found, on=GROUP, how="left", maintain_order="left")[CELL]
    return cells.fill_null(pl.Series([[]], dtype=cells.dtype)).alias(lists.name)
