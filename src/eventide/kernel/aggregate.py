"""Aggregates in three moves: partial over rows, merge over partials, finish into the user's value."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import polars as pl

from eventide.kernel import exactsum, sketch
from eventide.kernel.columns import ARRIVAL, LANE, OFFSET, ROWS, SOURCE, TIME
from eventide.model.aggregate import Aggregate

Named = Sequence[tuple[str, Aggregate]]
_ORDER = (TIME, ARRIVAL, SOURCE, LANE, OFFSET)
PART = "__a"
"""How the columns of parts begin; the number of the aggregate follows, and what the part is."""


def partial(rows: pl.DataFrame, by: Sequence[str], aggregates: Named) -> pl.DataFrame:
    """One row for each group with the parts from which results can be made.

    >>> from eventide.model.aggregate import sum
    >>> rows = pl.DataFrame({"k": ["a", "a"], "x": [1, 2]})
    >>> finish(partial(rows, ["k"], [("total", sum("x"))]), [("total", sum("x"))])["total"].to_list()
    [3]
    """
    parts = [expr for index, (_, what) in enumerate(aggregates) for expr in _partial(f"{PART}{index}", what, rows)]
    return _grouped(rows, by, [pl.len().cast(pl.Int64).alias(ROWS), *parts], aggregates, build=True)


def merge(partials: pl.DataFrame, by: Sequence[str], aggregates: Named) -> pl.DataFrame:
    """One row for each group from rows of parts; merging in any order gives the same parts (floats: nearly)."""
    parts = [expr for index, (_, what) in enumerate(aggregates) for expr in _merge(f"{PART}{index}", what, partials)]
    return _grouped(partials, by, [pl.col(ROWS).sum(), *parts], aggregates, build=False)


def _grouped(frame: pl.DataFrame, by: Sequence[str], parts: list[pl.Expr], aggregates: Named, *, build: bool) -> pl.DataFrame:
    result = frame.group_by(list(by), maintain_order=False).agg(parts) if by else frame.select(parts)
    for index, (_, what) in enumerate(aggregates):
        if what.kind in sketch.KINDS:
            fold = sketch.build if build else sketch.union
            column = f"{PART}{index}_s"
            result = result.with_columns(pl.Series(column, [fold(what, cell) for cell in result[column]], dtype=pl.Binary))
        if what.kind == "sum":
            result = exactsum.settled(result, f"{PART}{index}")
    return result


def finish(partials: pl.DataFrame, aggregates: Named) -> pl.DataFrame:
    """The user's values beside the group columns; the parts go away."""
    values = []
    for index, (name, what) in enumerate(aggregates):
        if what.kind == "sum":
            exactsum.check(partials, f"{PART}{index}", name)
        if what.kind in sketch.KINDS:
            cells = [sketch.read(what, cell) for cell in partials[f"{PART}{index}_s"]]
            kind = pl.Int64 if what.kind == "distinct" else pl.Float64
            values.append(pl.lit(pl.Series(name, cells, dtype=kind)).alias(name))
        else:
            values.append(_finish(f"{PART}{index}", what).alias(name))
    groups = [c for c in partials.columns if not c.startswith(PART)]
    return partials.select(*groups, *values)


def weighed(aggregates: Named, kinds: Mapping[str, pl.DataType]) -> tuple[int, str] | None:
    """The first sum of whole numbers: its place among the aggregates and its column; its total must survive every move."""
    for index, (_, what) in enumerate(aggregates):
        if what.kind == "sum" and what.column is not None and kinds[what.column].is_integer():
            return index, what.column
    return None


def part_columns(partials: pl.DataFrame) -> list[str]:
    """The columns that hold parts."""
    return [c for c in partials.columns if c == ROWS or c.startswith(PART)]


def _partial(at: str, what: Aggregate, rows: pl.DataFrame) -> list[pl.Expr]:
    if what.kind == "custom":
        return [pl.sql_expr(text).alias(f"{at}_c{name}") for name, text in what.partial]
    column = pl.col(what.column) if what.column else pl.lit(1)
    present = column.count().cast(pl.Int64)
    return _PARTIAL[what.kind](at, column, present, rows, what.column)


def _sum_parts(at: str, column: pl.Expr, present: pl.Expr, rows: pl.DataFrame, name: str | None) -> list[pl.Expr]:
    return [exactsum.summed(rows[name or ""], column).alias(f"{at}_s"), present.alias(f"{at}_n")]


def _spread_parts(at: str, column: pl.Expr, present: pl.Expr, rows: pl.DataFrame, name: str | None) -> list[pl.Expr]:
    number = column.cast(pl.Float64)
    return [present.alias(f"{at}_n"), number.mean().alias(f"{at}_m"), (number.var(ddof=0) * present).alias(f"{at}_q")]


def _edge_parts(last: bool) -> Callable[..., list[pl.Expr]]:
    def parts(at: str, column: pl.Expr, present: pl.Expr, rows: pl.DataFrame, name: str | None) -> list[pl.Expr]:
        picked = [_picked(column, _ORDER, last).alias(f"{at}_v")]
        return picked + [_picked(pl.col(c), _ORDER, last).alias(f"{at}_o{i}") for i, c in enumerate(_ORDER)]

    return parts


def _picked(column: pl.Expr, order: Sequence[str], last: bool) -> pl.Expr:
    ordered = column.sort_by([pl.col(c) for c in order])
    return ordered.last() if last else ordered.first()


_PARTIAL: dict[str, Callable[..., list[pl.Expr]]] = {
    "count": lambda at, column, present, rows, name: [(pl.len().cast(pl.Int64) if name is None else present).alias(f"{at}_n")],
    "sum": _sum_parts,
    "min": lambda at, column, present, rows, name: [column.min().alias(f"{at}_v")],
    "max": lambda at, column, present, rows, name: [column.max().alias(f"{at}_v")],
    "mean": lambda at, column, present, rows, name: [column.cast(pl.Float64).sum().alias(f"{at}_s"), present.alias(f"{at}_n")],
    "variance": _spread_parts,
    "stddev": _spread_parts,
    "first": _edge_parts(last=False),
    "last": _edge_parts(last=True),
    "distinct": lambda at, column, present, rows, name: [column.drop_nulls().unique().implode().alias(f"{at}_s")],
    "quantile": lambda at, column, present, rows, name: [column.cast(pl.Float64).drop_nulls().implode().alias(f"{at}_s")],
    "collect": lambda at, column, present, rows, name: [column.drop_nulls().implode().alias(f"{at}_v")],
}


def _merge(at: str, what: Aggregate, parts: pl.DataFrame) -> list[pl.Expr]:
    kind = what.kind
    if kind == "custom":
        held = {name: f"{at}_c{name}" for name, _ in what.partial}
        return [_rebind(text, held).alias(f"{at}_c{name}") for name, text in what.merge]
    if kind in ("count", "sum", "mean"):
        sums = [pl.col(f"{at}_n").sum()]
        return sums if kind == "count" else [exactsum.merged(parts, at).alias(f"{at}_s"), *sums]
    if kind in ("min", "max"):
        return [getattr(pl.col(f"{at}_v"), kind)()]
    if kind in ("variance", "stddev"):
        return _merge_spread(at)
    if kind in ("first", "last"):
        order = [f"{at}_o{i}" for i in range(len(_ORDER))]
        return [_picked(pl.col(c), order, kind == "last").alias(c) for c in (f"{at}_v", *order)]
    if kind == "collect":
        return [pl.col(f"{at}_v").explode(empty_as_null=False, keep_nulls=False).implode().alias(f"{at}_v")]
    return [pl.col(f"{at}_s").implode()]


def _merge_spread(at: str) -> list[pl.Expr]:
    n, m, q = (pl.col(f"{at}_{c}") for c in "nmq")
    centre = pl.when(n.sum() > 0).then((n * m).sum() / n.sum())  # no value yet: no centre, where 0 / 0 would spread NaN
    return [n.sum(), centre.alias(f"{at}_m"), (q + n * (m - centre) ** 2).sum().alias(f"{at}_q")]


def _rebind(text: str, held: dict[str, str]) -> pl.Expr:
    """A user's expression, which names the parts, over the columns that hold them."""
    pattern = re.compile(r"\b(" + "|".join(map(re.escape, sorted(held, key=len, reverse=True))) + r")\b")
    return pl.sql_expr(pattern.sub(lambda m: f'"{held[m[1]]}"', text))


def _finish(at: str, what: Aggregate) -> pl.Expr:
    kind = what.kind
    if kind == "count":
        return pl.col(f"{at}_n")
    if kind == "sum":
        return pl.when(pl.col(f"{at}_n") > 0).then(pl.col(f"{at}_s"))
    if kind == "mean":
        return pl.when(pl.col(f"{at}_n") > 0).then(pl.col(f"{at}_s") / pl.col(f"{at}_n"))
    if kind in ("variance", "stddev"):
        spread = pl.when(pl.col(f"{at}_n") > 1).then(pl.col(f"{at}_q") / (pl.col(f"{at}_n") - 1))
        return spread.sqrt() if kind == "stddev" else spread
    if kind == "collect":
        return pl.col(f"{at}_v").list.sort()
    if kind == "custom":
        return _rebind(what.finish, {name: f"{at}_c{name}" for name, _ in what.partial})
    return pl.col(f"{at}_v")
