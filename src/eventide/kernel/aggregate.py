"""Aggregates in three moves: partial over rows, merge over partials, finish into the user's value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from eventide.kernel.columns import ROWS
from eventide.kernel.expression import columns
from eventide.kernel.expression import condition as condition_of
from eventide.kernel.keys import one_of_equals
from eventide.kernel.kind import Kind, Parts, Place
from eventide.kernel.kinds import kind_of
from eventide.model.aggregate import Aggregate
from eventide.model.expression import Node

Named = Sequence[tuple[str, Aggregate]]
Numbered = Sequence[tuple[int, Aggregate]]
"""Some of them, each with its place among all."""
PART = "__a"
"""How the columns of parts begin; the number of the aggregate follows, and what the part is."""


def partial(rows: pl.DataFrame, by: Sequence[str], aggregates: Named) -> pl.DataFrame:
    """One row for each group with the parts from which results can be made.

    >>> from eventide.model.aggregate import sum
    >>> rows = pl.DataFrame({"k": ["a", "a"], "x": [1, 2]})
    >>> finish(partial(rows, ["k"], [("total", sum("x"))]), [("total", sum("x"))])["total"].to_list()
    [3]
    """
    whole = [pl.len().cast(pl.Int64).alias(ROWS)]
    result = _over(rows, by, _under(None, aggregates), whole)
    for condition in dict.fromkeys(what.where for _, what in aggregates if what.where is not None):
        some, where = _under(condition, aggregates), condition_of(condition, columns(rows.schema))
        result = _beside(result, _over(rows.filter(where), by, some), _over(rows.head(0), [], some), by)
    return result


def _under(where: Node | None, aggregates: Named) -> Numbered:
    return [(index, what) for index, (_, what) in enumerate(aggregates) if what.where == where]


def _over(rows: pl.DataFrame, by: Sequence[str], some: Numbered, parts: Sequence[pl.Expr] = ()) -> pl.DataFrame:
    """The parts of some of the aggregates over rows, for each group."""
    found = list(parts)
    for index, what in some:
        place = Place(f"{PART}{index}", what, rows)
        found += _named(kind_of(what.kind).partial(place), place)
    return _settled(_grouped(rows, by, found), some, from_rows=True)


def _beside(result: pl.DataFrame, some: pl.DataFrame, nothing: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Parts of the rows for which a condition holds, beside those of all rows; where it holds for none, the parts of nothing."""
    if not by:
        return result.hstack(some)
    joined = result.join(some.with_columns(pl.lit(True).alias("__holds")), on=list(by), how="left", nulls_equal=True)
    instead = [
        pl.when("__holds").then(pl.col(name)).otherwise(pl.lit(nothing[name].cast(some.schema[name]))).alias(name)
        for name in nothing.columns
    ]
    return joined.with_columns(instead).drop("__holds")


def merge(partials: pl.DataFrame, by: Sequence[str], aggregates: Named) -> pl.DataFrame:
    """One row for each group from rows of parts; merging in any order gives the same parts (floats: nearly)."""
    parts = [pl.col(ROWS).sum()]
    for kind, place in _places(aggregates, partials):
        parts += _named(kind.merge(place), place)
    return _settled(_grouped(partials, by, parts), [(at, what) for at, (_, what) in enumerate(aggregates)], from_rows=False)


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
        yield kind_of(what.kind), Place(f"{PART}{index}", what, frame)


def _named(parts: Parts, place: Place) -> list[pl.Expr]:
    return [value.alias(place.name(part)) for part, value in parts.items()]


def _grouped(frame: pl.DataFrame, by: Sequence[str], parts: list[pl.Expr]) -> pl.DataFrame:
    return frame.group_by(list(by), maintain_order=False).agg(parts) if by else frame.select(parts)


def _settled(result: pl.DataFrame, some: Numbered, *, from_rows: bool) -> pl.DataFrame:
    for index, what in some:
        settle = kind_of(what.kind).settle
        if settle is not None:
            result = settle(Place(f"{PART}{index}", what, result), from_rows)
    return result


def weighed(rows: pl.DataFrame, aggregates: Named) -> tuple[int, pl.Series] | None:
    """The first sum of whole numbers: its place among the aggregates and what it adds up; the total must survive every move."""
    for index, (_, what) in enumerate(aggregates):
        if what.kind == "sum" and what.column is not None and rows.schema[what.column].is_integer():
            return index, (rows if what.where is None else rows.filter(condition_of(what.where, columns(rows.schema))))[
                what.column
            ]
    return None


def part_columns(partials: pl.DataFrame) -> list[str]:
    """The columns that hold parts."""
    return [c for c in partials.columns if c == ROWS or c.startswith(PART)]
