"""Rows that lead by a column: whose largest or smallest value it is (`max_by`, `min_by`), and the first few (`top`).

Of equals the earliest row leads, and of those the first to arrive, so the order is kept beside the value. A row in which the column is null does
not take part; NaN leads only where there is nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from eventide.kernel.gathered import CELL, GROUP, packed, unpacked
from eventide.kernel.keys import one_float
from eventide.kernel.kind import ORDER, Kind, Parts, Place

_KEPT = [f"__o{i}" for i in range(len(ORDER))]
"""The order of a row among the columns of a user, none of which begins so."""


def extreme(*, largest: bool) -> Kind:
    """The value of the one row that leads."""
    parts = ["v", "b", *_KEPT]

    def partial(place: Place) -> Parts:
        by, order = _by(place), [pl.col(name) for name in ORDER]
        values = dict(zip(parts, [place.column, by, *order], strict=True))
        return {
            part: _sorted(value, by, order, place.frame.schema[_decisive(place)], largest).first()
            for part, value in values.items()
        }

    def merge(place: Place) -> Parts:
        by, order = place.part("b"), [place.part(part) for part in _KEPT]
        kind = place.frame.schema[place.name("b")]
        return {part: _sorted(place.part(part), by, order, kind, largest).first() for part in parts}

    return Kind(partial, merge, lambda p: pl.when(p.part("b").is_not_null()).then(p.part("v")), ordered=lambda what: what.by)


def top() -> Kind:
    """The first few rows, with the columns that were asked for."""

    def partial(place: Place) -> Parts:
        by = _by(place)
        row = pl.struct(
            *place.what.of, by.alias(_decisive(place)), *[pl.col(o).alias(kept) for o, kept in zip(ORDER, _KEPT, strict=True)]
        )
        return {"v": row.filter(by.is_not_null()).implode()}

    def merge(place: Place) -> Parts:
        return {"v": place.part("v").explode(empty_as_null=False, keep_nulls=False).implode()}

    def finish(place: Place) -> pl.Expr:
        return place.part("v").list.eval(pl.struct(pl.element().struct.field(n) for n in (*place.what.of, _decisive(place))))

    return Kind(partial, merge, finish, lambda place, _: _first_few(place), ordered=lambda what: what.by)


def _first_few(place: Place) -> pl.DataFrame:
    """Of the rows that were gathered for each group, those that lead."""
    gathered, by = place.frame[place.name("v")], _decisive(place)
    rows = unpacked(gathered)
    rows = rows.select(GROUP, CELL, *[pl.col(CELL).struct.field(name) for name in (by, *_KEPT)])
    lost = _lost(pl.col(by), rows.schema[by])
    ranked = rows.sort([pl.col(GROUP), lost, pl.col(by), *_KEPT], descending=[False, False, True, *(False for _ in _KEPT)])
    leaders = ranked.group_by(GROUP, maintain_order=True).head(place.what.most or 0)
    return place.frame.with_columns(packed(leaders, gathered))


def _decisive(place: Place) -> str:
    assert place.what.by is not None
    return place.what.by


def _by(place: Place) -> pl.Expr:
    """The column that decides; of floats one zero, so that equals are equal to whoever sorts them."""
    by = pl.col(_decisive(place))
    return one_float(by) if place.frame.schema[_decisive(place)].is_float() else by


def _sorted(what: pl.Expr, by: pl.Expr, order: Sequence[pl.Expr], kind: pl.DataType, largest: bool) -> pl.Expr:
    return what.sort_by([_lost(by, kind), by, *order], descending=[False, largest, *(False for _ in order)])


def _lost(by: pl.Expr, kind: pl.DataType) -> pl.Expr:
    """0 for what can lead, 1 for NaN, 2 for null."""
    lost = by.is_null().cast(pl.Int8) * 2
    return lost + by.is_nan().fill_null(False).cast(pl.Int8) if kind.is_float() else lost
