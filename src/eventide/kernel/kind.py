"""One kind of aggregate in three moves: its parts over rows, how parts merge, and what the user gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import polars as pl

from eventide.kernel.columns import POSITION, TIME
from eventide.model.aggregate import Aggregate

ORDER = (TIME, *POSITION)
"""By event time, then by arrival."""


@dataclass(frozen=True)
class Place:
    """One aggregate among those of an output: what it is, over which rows or parts, and how its parts are called."""

    at: str
    what: Aggregate
    frame: pl.DataFrame

    def name(self, part: str) -> str:
        """The column of a part."""
        return f"{self.at}_{part}"

    def part(self, part: str) -> pl.Expr:
        """A part."""
        return pl.col(self.name(part))

    @property
    def column(self) -> pl.Expr:
        """The user's column."""
        assert self.what.column is not None
        return pl.col(self.what.column)

    @property
    def present(self) -> pl.Expr:
        """How many of its values are not null."""
        return self.column.count().cast(pl.Int64)


Parts = Mapping[str, pl.Expr]
"""Expressions by the names of the parts that they give."""


@dataclass(frozen=True)
class Kind:
    """One kind of aggregate."""

    partial: Callable[[Place], Parts]
    """Over rows."""
    merge: Callable[[Place], Parts]
    """Over parts."""
    finish: Callable[[Place], pl.Expr]
    """The user's value; null where there was nothing to compute it from."""
    settle: Callable[[Place, bool], pl.DataFrame] | None = None
    """What no expression can do with the parts that were just made (True: from rows; False: from parts)."""
    check: Callable[[Place, str], None] | None = None
    """Raise where the user's value, under this name, cannot be said."""
    numbers: bool = False
    """Whether it is of numbers only: texts, times and nested values have none."""
    ordered: Callable[[Aggregate], str | None] | None = None
    """The column whose values it puts in order: nested values have none."""
    approximate: bool = False
    """Whether its value may differ from what it means by the error of a sketch."""
