"""The kinds of aggregates, each one record: its parts over rows, how parts merge, and what the user gets.

Parts of any cut, merged in any order, must finish into what `model.aggregate.compute` says of all the rows at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import polars as pl

from eventide.kernel import exactsum, frequent, leading, sketch
from eventide.kernel.columns import POSITION
from eventide.kernel.kind import ORDER, Kind, Parts, Place
from eventide.model.aggregate import has_meaning
from eventide.model.exact import EXACT, Exact

_GIVEN: dict[type, type[pl.DataType]] = {float: pl.Float64, int: pl.Int64, bool: pl.Boolean, str: pl.String}


def _count(place: Place) -> Parts:
    return {"n": pl.len().cast(pl.Int64) if place.what.column is None else place.present}


def _where_any(place: Place, value: pl.Expr) -> pl.Expr:
    return pl.when(place.part("n") > 0).then(value)


def _spread(place: Place) -> Parts:
    number = place.column.cast(pl.Float64)
    return {"n": place.present, "m": number.mean(), "q": number.var(ddof=0) * place.present}


def _merged_spread(place: Place) -> Parts:
    n, m, q = (place.part(part) for part in "nmq")
    centre = pl.when(n.sum() > 0).then((n * m).sum() / n.sum())  # no value yet: no centre, where 0 / 0 would spread NaN
    return {"n": n.sum(), "m": centre, "q": (q + n * (m - centre) ** 2).sum()}


def _variance(place: Place) -> pl.Expr:
    return pl.when(place.part("n") > 1).then(place.part("q") / (place.part("n") - 1))


def _merged_sums(place: Place) -> Parts:
    return {"s": exactsum.merged(place.frame, place.at), "n": place.part("n").sum()}


def _extreme(pick: Callable[[pl.Expr], pl.Expr], *, numbers: bool = False) -> Kind:
    return Kind(lambda p: {"v": pick(p.column)}, lambda p: {"v": pick(p.part("v"))}, lambda p: p.part("v"), numbers=numbers)


def _edge(pick: Callable[[pl.Expr], pl.Expr], order: Sequence[str]) -> Kind:
    """The value of the first or last row in an order, which is kept beside it; a part of no rows has none, and is neither."""
    nulls_last = pick is pl.Expr.first
    kept = [f"o{i}" for i in range(len(order))]

    def picked(column: pl.Expr, by: Sequence[str]) -> pl.Expr:
        return pick(column.sort_by([pl.col(name) for name in by], nulls_last=nulls_last))

    def partial(place: Place) -> Parts:
        return {
            "v": picked(place.column, order),
            **{part: picked(pl.col(c), order) for part, c in zip(kept, order, strict=True)},
        }

    def merge(place: Place) -> Parts:
        by = [place.name(part) for part in kept]
        return {part: picked(place.part(part), by) for part in ("v", *kept)}

    return Kind(partial, merge, lambda p: p.part("v"))


def _sketched(values: Callable[[Place], pl.Expr], kind: type[pl.DataType], *, numbers: bool) -> Kind:
    """Values gathered by expressions, then folded group by group into the bytes of a sketch."""

    def settle(place: Place, from_rows: bool) -> pl.DataFrame:
        fold, column = sketch.build if from_rows else sketch.union, place.name("s")
        cells = [fold(place.what, cell) for cell in place.frame[column]]
        return place.frame.with_columns(pl.Series(column, cells, dtype=pl.Binary))

    def finish(place: Place) -> pl.Expr:
        return pl.lit(pl.Series([sketch.read(place.what, cell) for cell in place.frame[place.name("s")]], dtype=kind))

    return Kind(
        lambda p: {"s": values(p)}, lambda p: {"s": p.part("s").implode()}, finish, settle, numbers=numbers, approximate=True
    )


def _different(finish: Callable[[pl.Expr], pl.Expr]) -> Kind:
    """Each value is kept once."""
    return Kind(
        lambda p: {"v": p.column.drop_nulls().unique().implode()},
        lambda p: {"v": p.part("v").explode(empty_as_null=False, keep_nulls=False).unique().implode()},
        lambda p: finish(p.part("v")),
    )


def _gathered(values: Callable[[Place], pl.Expr], finish: Callable[[Place], pl.Expr], *, numbers: bool = False) -> Kind:
    """All values are kept, and merged by putting the lists together."""
    return Kind(
        lambda p: {"v": values(p).drop_nulls().implode()},
        lambda p: {"v": p.part("v").explode(empty_as_null=False, keep_nulls=False).implode()},
        finish,
        numbers=numbers,
    )


def _between(place: Place) -> pl.Expr:
    """The exact quantile: on the line between the two values next to it."""
    values = place.part("v").list.sort()
    last = values.list.len().cast(pl.Int64) - 1
    reach = last * pl.lit(place.what.share)
    below = reach.floor().cast(pl.Int64)
    part = reach - below
    low, high = (values.list.get(at, null_on_oob=True) for at in (below, pl.min_horizontal(below + 1, last)))
    return pl.when((part == 0) | (low == high)).then(low).otherwise(low * (1 - part) + high * part)


def _bound_to(text: str, place: Place) -> pl.Expr:
    """A user's expression, which names the parts, over the columns that hold them."""
    held = {name: place.name(f"c{name}") for name, _ in place.what.partial}
    pattern = re.compile(r"\b(" + "|".join(map(re.escape, sorted(held, key=len, reverse=True))) + r")\b")
    return pl.sql_expr(pattern.sub(lambda m: f'"{held[m[1]]}"', text))


KINDS: dict[str, Kind] = {
    "count": Kind(_count, lambda p: {"n": p.part("n").sum()}, lambda p: p.part("n")),
    "sum": Kind(
        partial=lambda p: {"s": exactsum.summed(p.frame[p.what.column or ""], p.column), "n": p.present},
        merge=_merged_sums,
        finish=lambda p: _where_any(p, p.part("s")),
        settle=lambda p, _: exactsum.settled(p.frame, p.at),
        check=lambda p, name: exactsum.check(p.frame, p.at, name),
        numbers=True,
    ),
    "mean": Kind(
        partial=lambda p: {"s": p.column.cast(pl.Float64).sum(), "n": p.present},
        merge=_merged_sums,
        finish=lambda p: _where_any(p, p.part("s") / p.part("n")),
        numbers=True,
    ),
    "min": _extreme(pl.Expr.min),
    "max": _extreme(pl.Expr.max),
    "variance": Kind(_spread, _merged_spread, _variance, numbers=True),
    "stddev": Kind(_spread, _merged_spread, lambda p: _variance(p).sqrt(), numbers=True),
    "any": _extreme(lambda column: column.cast(pl.Boolean).max(), numbers=True),
    "all": _extreme(lambda column: column.cast(pl.Boolean).min(), numbers=True),
    "first": _edge(pl.Expr.first, ORDER),
    "last": _edge(pl.Expr.last, ORDER),
    "first_arrived": _edge(pl.Expr.first, POSITION),
    "last_arrived": _edge(pl.Expr.last, POSITION),
    "max_by": leading.extreme(largest=True),
    "min_by": leading.extreme(largest=False),
    "top": leading.top(),
    "top_k": frequent.frequent(),
    "distinct": _sketched(lambda p: p.column.drop_nulls().unique().implode(), pl.Int64, numbers=False),
    "quantile": _sketched(lambda p: p.column.cast(pl.Float64).drop_nulls().implode(), pl.Float64, numbers=True),
    "exact_quantile": _gathered(lambda p: p.column.cast(pl.Float64), _between, numbers=True),
    "exact_distinct": _different(lambda values: values.list.len().cast(pl.Int64)),
    "set": _different(lambda values: values.list.sort()),
    "collect": _gathered(lambda p: p.column, lambda p: p.part("v").list.sort()),
    "custom": Kind(
        partial=lambda p: {f"c{name}": pl.sql_expr(text) for name, text in p.what.partial},
        merge=lambda p: {f"c{name}": _bound_to(text, p) for name, text in p.what.merge},
        finish=lambda p: _bound_to(p.what.finish, p),
    ),
}
"""By the names that the model gives them; those of `model/exact.py` need no entry."""

if not all(map(has_meaning, KINDS)):
    raise ImportError(f"the model gives these aggregates no meaning: {', '.join(k for k in KINDS if not has_meaning(k))}")


def is_computed(name: str) -> bool:
    """Whether there is such a kind of aggregate."""
    return name in KINDS or name in EXACT


def kind_of(name: str) -> Kind:
    """How a kind is computed: as it is written here or, of one that is exact, by its meaning over all values."""
    return KINDS[name] if name in KINDS else _by_meaning(EXACT[name])


def _by_meaning(one: Exact) -> Kind:
    def finish(place: Place) -> pl.Expr:
        gathered = place.frame[place.name("v")]
        kind = gathered.dtype.inner if one.gives is None else _GIVEN[one.gives]  # type: ignore[attr-defined]
        return pl.lit(pl.Series([one.meaning(values) for values in gathered.list.sort().to_list()], dtype=kind))

    return _gathered(lambda p: p.column, finish, numbers=one.numbers)
