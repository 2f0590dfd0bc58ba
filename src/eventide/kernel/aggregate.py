"""Aggregates in three moves: partial over rows, merge over partials, finish into the user's value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from eventide.kernel.columns import ROWS
from eventide.kernel.keys import one_of_equals
from eventide.kernel.kinds import KINDS, Kind, Parts, Place
from eventide.model.aggregate import Aggregate

Named = Sequence[tuple[str, Aggregate]]
PART = "__a"
"""How the columns of parts begin; the number of the aggregate follows, and what the part is."""


def partial(rows: pl.DataFrame, by: Sequence[str], aggregates: Named) -> pl.DataFrame:
    """One row for each group with the parts from which results can be made.

    >>> from eventide.model.aggregate import sum
    >>> rows = pl.DataFrame({"k": ["a", "a"], "x": [1, 2]})
    >>> finish(partial(rows, ["k"], [("total", sum("x"))]), [("total", sum("x"))])["total"].to_list()
    [3]
    """
    parts = [pl.len().cast(pl.Int64).alias(ROWS)]
    for kind, place in _places(aggregates, rows):
        parts += _named(kind.partial(place), place)
    return _settled(_grouped(rows, by, parts), aggregates, from_rows=True)


def merge(partials: pl.DataFrame, by: Sequence[str], aggregates: Named) -> pl.DataFrame:
    """One row for each group from rows of parts; merging in any order gives the same parts (floats: nearly)."""
    parts = [pl.col(ROWS).sum()]
    for kind, place in _places(aggregates, partials):
        parts += _named(kind.merge(place), place)
    return _settled(_grouped(partials, by, parts), aggregates, from_rows=False)


def finish(partials: pl.DataFrame, aggregates: Named) -> pl.DataFrame:
    """The user's values beside the group columns; the parts go away.

    Of floats that compare equal one is shown, 0.0 for -0.0: which of the two came first hangs on the cut, and not every sink has both.
    """
    values = []
    for (name, _), (kind, place) in zip(aggregates, _places(aggregates, partials), strict=True):
        if kind.check is not None:
            kind.check(place, name)
        values.append(kind.finish(place).alias(name))
    groups = [c for c in partials.columns if not c.startswith(PART)]
    return one_of_equals(partials.select(*groups, *values), [name for name, _ in aggregates])


def _places(aggregates: Named, frame: pl.DataFrame) -> Iterator[tuple[Kind, Place]]:
    for index, (_, what) in enumerate(aggregates):
        yield KINDS[what.kind], Place(f"{PART}{index}", what, frame)


def _named(parts: Parts, place: Place) -> list[pl.Expr]:
    return [value.alias(place.name(part)) for part, value in parts.items()]


def _grouped(frame: pl.DataFrame, by: Sequence[str], parts: list[pl.Expr]) -> pl.DataFrame:
    return frame.group_by(list(by), maintain_order=False).agg(parts) if by else frame.select(parts)


def _settled(result: pl.DataFrame, aggregates: Named, *, from_rows: bool) -> pl.DataFrame:
    for index, (_, what) in enumerate(aggregates):
        settle = KINDS[what.kind].settle
        if settle is not None:
            result = settle(Place(f"{PART}{index}", what, result), from_rows)
    return result


def weighed(aggregates: Named, kinds: Mapping[str, pl.DataType]) -> tuple[int, str] | None:
    """The first sum of whole numbers: its place among the aggregates and its column; its total must survive every move."""
    for index, (_, what) in enumerate(aggregates):
        if what.kind == "sum" and what.column is not None and kinds[what.column].is_integer():
            return index, what.column
    return None


def part_columns(partials: pl.DataFrame) -> list[str]:
    """The columns that hold parts."""
    return [c for c in partials.columns if c == ROWS or c.startswith(PART)]
