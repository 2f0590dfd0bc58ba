"""Aggregates, named by what they are, and their plain meaning over a list of rows."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eventide.errors import DefinitionError
from eventide.model import sql
from eventide.model.event import Event
from eventide.model.expression import Expression, Node, columns_of, condition, holds
from eventide.model.statistic import OVER_VALUES, OVER_VALUES_AND_NUMBER, rank
from eventide.model.statistic import AggregateOverflow as AggregateOverflow
from eventide.model.written import call, quoted

__all__ = [
    "aggregate", "all", "any", "collect", "count", "distinct", "first", "last", "max", "max_by", "mean", "median", "min", "min_by",
    "quantile", "set", "stddev", "sum", "top", "top_k", "variance",
]  # fmt: skip

ADDITIVE = frozenset({"count", "sum", "collect"})
"""Aggregates whose deltas add up, so that a discarding output may carry them."""

BY_ARRIVAL = frozenset({"first_arrived", "last_arrived"})
"""Aggregates that ask when a row came; a result of a window has no such time."""

Condition = str | Expression | None


@dataclass(frozen=True)
class Aggregate:
    """What is computed over the rows of a window; `column` is None for count()."""

    kind: str
    column: str | None = None
    share: float | None = None
    """Of a quantile."""
    partial: tuple[tuple[str, str], ...] = ()
    merge: tuple[tuple[str, str], ...] = ()
    finish: str = ""
    by: str | None = None
    """The column that chooses or orders the rows."""
    most: int | None = None
    """How many of a top there may be."""
    of: tuple[str, ...] = ()
    """The columns that a row of a top shows."""
    where: Node | None = None
    """Only rows for which this holds count."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The input columns that it names itself (a custom one may use any).

        >>> max_by("bidder", "price", where="kind = 'bid'").columns
        ('bidder', 'price', 'kind')
        """
        named = (self.column, *self.of, self.by, *(sorted(columns_of(self.where)) if self.where is not None else ()))
        return tuple(dict.fromkeys(name for name in named if name is not None))

    @property
    def written(self) -> str:
        """As a user writes it; different aggregates are written differently.

        >>> sum("paise").written, quantile("ms", 0.5, exact=True).written
        ('sum("paise")', 'median("ms")')
        """
        where = None if self.where is None else quoted(str(self.where))
        if self.kind == "custom":
            parts = {"partial": repr(dict(self.partial)), "merge": repr(dict(self.merge)), "finish": quoted(self.finish)}
            return call("aggregate", **parts, where=where)
        column = [quoted(self.column)] if self.column else []
        if self.kind == "exact_quantile" and self.share == 0.5:
            return call("median", *column, where=where)
        if self.kind == "top":
            return call("top", str(self.most), by=quoted(self.by), of=f"[{', '.join(map(quoted, self.of))}]", where=where)
        if self.by is not None:
            return call(self.kind, *column, quoted(self.by), where=where)
        exact = "True" if self.kind.startswith("exact_") else None
        by = quoted("arrival") if self.kind in BY_ARRIVAL else None
        numbers = [repr(number) for number in (self.share, self.most) if number is not None]
        name = self.kind.removeprefix("exact_").removesuffix("_arrived")
        return call(name, *column, *numbers, by=by, exact=exact, where=where)


def count(column: str | None = None, *, where: Condition = None) -> Aggregate:
    """How many rows; with a column, how many in which it is not null.

    >>> compute(count(where="x > 1"), [Event(0, 0, row={"x": x}) for x in (1, 2, None, 3)])
    2
    """
    return Aggregate("count", column, where=_condition("count", where))


def over_column(kind: str, column: str, where: Condition, **more: Any) -> Aggregate:
    """One over the values of a column, or of the rows for which a condition holds."""
    return Aggregate(kind, _column(kind, column), where=_condition(kind, where), **more)


def sum(column: str, *, where: Condition = None) -> Aggregate:
    """The exact sum of whole numbers and decimals (an overflow is an error), the sum of floats."""
    return over_column("sum", column, where)


def min(column: str, *, where: Condition = None) -> Aggregate:
    """The smallest value that is not null."""
    return over_column("min", column, where)


def max(column: str, *, where: Condition = None) -> Aggregate:
    """The largest value that is not null."""
    return over_column("max", column, where)


def mean(column: str, *, where: Condition = None) -> Aggregate:
    """The arithmetic mean, as a float."""
    return over_column("mean", column, where)


def variance(column: str, *, where: Condition = None) -> Aggregate:
    """The sample variance; null for fewer than two values."""
    return over_column("variance", column, where)


def stddev(column: str, *, where: Condition = None) -> Aggregate:
    """The sample standard deviation; null for fewer than two values."""
    return over_column("stddev", column, where)


def first(column: str, *, by: str = "event_time", where: Condition = None) -> Aggregate:
    """The value of the row with the earliest event time (of equals, the one that arrived first), or of the first to arrive.

    >>> rows = [Event(1, 9, row={"x": "a"}), Event(2, 5, row={"x": "b"})]
    >>> compute(first("x"), rows), compute(first("x", by="arrival"), rows)
    ('b', 'a')
    """
    return over_column(_ordered("first", by), column, where)


def last(column: str, *, by: str = "event_time", where: Condition = None) -> Aggregate:
    """The value of the row with the latest event time (of equals, the one that arrived last), or of the last to arrive."""
    return over_column(_ordered("last", by), column, where)


def max_by(column: str, by: str, *, where: Condition = None) -> Aggregate:
    """The value of `column` in the row with the largest `by`; of equals the earliest row, and of those the first to arrive.

    >>> bids = [Event(n, n, row={"who": who, "price": price}) for n, (who, price) in enumerate([("ann", 7), ("bob", 9), ("cid", 9)])]
    >>> compute(max_by("who", "price"), bids)
    'bob'
    """
    return over_column("max_by", column, where, by=_column("max_by", by))


def min_by(column: str, by: str, *, where: Condition = None) -> Aggregate:
    """The value of `column` in the row with the smallest `by`; of equals the earliest row, and of those the first to arrive."""
    return over_column("min_by", column, where, by=_column("min_by", by))


def distinct(column: str, *, exact: bool = False, where: Condition = None) -> Aggregate:
    """How many different values: approximately (an HLL sketch: about 1.6% standard error), or exactly, which keeps them all."""
    return over_column("exact_distinct" if exact else "distinct", column, where)


def quantile(column: str, share: float, *, exact: bool = False, where: Condition = None) -> Aggregate:
    """The value below which this share of the rows lies: approximately (a KLL sketch: about 1.3% rank error), or exactly.

    An exact one keeps all values, and lies on the line between the two next to it, as Spark's percentile.

    >>> rows = [Event(0, 0, row={"ms": ms}) for ms in (10, 20, 30, 40)]
    >>> compute(quantile("ms", 0.5), rows), compute(quantile("ms", 0.5, exact=True), rows)
    (20, 25.0)
    """
    if not 0 <= share <= 1:
        raise DefinitionError(
            f"quantile({column!r}, {share!r}): the share must lie between 0 and 1, as in quantile({column!r}, 0.95)."
        )
    kind = "exact_quantile" if exact else "quantile"
    return Aggregate(kind, _column("quantile", column), share, where=_condition("quantile", where))


def median(column: str, *, where: Condition = None) -> Aggregate:
    """The exact median; of an even number of values the mean of the two in the middle. All values are kept for it.

    >>> rows = [Event(0, 0, row={"ms": ms}) for ms in (30, 10, None, 40, 20)]
    >>> compute(median("ms"), rows)
    25.0
    """
    return quantile(column, 0.5, exact=True, where=where)


def collect(column: str, *, where: Condition = None) -> Aggregate:
    """All values that are not null, sorted."""
    return over_column("collect", column, where)


def set(column: str, *, where: Condition = None) -> Aggregate:
    """All different values that are not null, sorted.

    >>> compute(set("bank"), [Event(0, 0, row={"bank": bank}) for bank in ("sbi", "axis", None, "sbi")])
    ['axis', 'sbi']
    """
    return over_column("set", column, where)


def any(column: str, *, where: Condition = None) -> Aggregate:
    """Whether the column is true in any row; null if it is null in all."""
    return over_column("any", column, where)


def all(column: str, *, where: Condition = None) -> Aggregate:
    """Whether the column is true in every row in which it is not null; null if it is null in all."""
    return over_column("all", column, where)


def top_k(column: str, most: int, *, where: Condition = None) -> Aggregate:
    """Approximately the most frequent values, with how often they came; of equals the smaller value first.

    >>> compute(top_k("page", 2), [Event(0, 0, row={"page": page}) for page in "abbcacb"])
    [{'value': 'b', 'n': 3}, {'value': 'a', 'n': 2}]
    """
    return over_column("top_k", column, where, most=_number("top_k", most))


def top(most: int, *, by: str, of: str | Sequence[str], where: Condition = None) -> Aggregate:
    """The rows with the largest `by`, largest first, each with the columns `of` and `by`.

    Over the results of windows it names the keys that lead (hot items); equals stand in the order of their window_id.

    >>> counts = [Event(0, 59, row={"auction": a, "bids": n}, offset=a) for a, n in [(1, 4), (2, 9), (3, 9)]]
    >>> compute(top(2, by="bids", of="auction"), counts)
    [{'auction': 2, 'bids': 9}, {'auction': 3, 'bids': 9}]
    """
    shown = tuple(_column("top", name) for name in ((of,) if isinstance(of, str) else of))
    if not shown or by in shown:
        raise DefinitionError(f"top(of={of!r}): name the columns to show beside {by!r}, as in top(3, by={by!r}, of='auction').")
    return Aggregate("top", by=_column("top", by), most=_number("top", most), of=shown, where=_condition("top", where))


def aggregate(*, partial: Mapping[str, str], merge: Mapping[str, str], finish: str, where: Condition = None) -> Aggregate:
    """Your own aggregate as SQL: per-slice parts over the rows, how parts of the same name combine, and the result.

    >>> vwap = aggregate(
    ...     partial={"pq": "SUM(price * qty)", "q": "SUM(qty)"}, merge={"pq": "SUM(pq)", "q": "SUM(q)"}, finish="pq / q")
    >>> vwap.kind
    'custom'
    """
    if not partial or builtins.set(partial) != builtins.set(merge):
        raise DefinitionError(
            f"aggregate: partial names {sorted(partial)} and merge names {sorted(merge)}; "
            "both must name the same parts, at least one."
        )
    parts = (tuple(partial.items()), tuple(merge.items()), finish)
    return Aggregate("custom", None, None, *parts, where=_condition("aggregate", where))


def _column(kind: str, column: Any) -> str:
    if not isinstance(column, str) or not column:
        raise DefinitionError(f'{kind}({column!r}): name the column, as in {kind}("amount").')
    return column


def _condition(kind: str, where: Condition) -> Node | None:
    return None if where is None else condition(where, f"{kind}(where=…)")


def _ordered(kind: str, by: str) -> str:
    if by not in ("event_time", "arrival"):
        raise DefinitionError(f'{kind}(by={by!r}): rows are ordered by "event_time" or by "arrival".')
    return kind if by == "event_time" else f"{kind}_arrived"


def _number(kind: str, most: Any) -> int:
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise DefinitionError(f"{kind}: {most!r} is not a number of rows; give 1 or more.")
    return most


def compute(what: Aggregate, events: Sequence[Event]) -> Any:
    """The value of an aggregate by its definition, over all rows at once; the yardstick for every faster way."""
    rows = [e for e in events if what.where is None or holds(what.where, e.row)]
    if what.kind == "custom":
        return _custom(what, rows, {name for e in events for name in e.row})
    if what.kind == "count":
        return builtins.sum(1 for e in rows if what.column is None or e.row.get(what.column) is not None)
    if what.kind == "top":
        return _top(what, rows)
    column = what.column or ""
    if what.kind in _CHOSEN:
        chosen = _CHOSEN[what.kind](what, rows)
        return None if chosen is None else chosen.row.get(column)
    values = [e.row[column] for e in rows if e.row.get(column) is not None]
    if what.kind in OVER_VALUES:
        return OVER_VALUES[what.kind](values)
    return OVER_VALUES_AND_NUMBER[what.kind](values, what.most if what.share is None else what.share)  # type: ignore[arg-type]


def _order(event: Event) -> tuple[Any, ...]:
    return (event.event_time, event.position, event.beside)


def _arrival(event: Event) -> tuple[Any, ...]:
    return (event.position, event.beside)


def _extreme(what: Aggregate, rows: list[Event], largest: bool) -> Event | None:
    by = what.by or ""
    there = sorted((e for e in rows if e.row.get(by) is not None), key=_order)
    numbers = [e for e in there if not rank(e.row[by])[0]] or there
    pick = builtins.max if largest else builtins.min
    return pick(numbers, key=lambda e: rank(e.row[by]), default=None)  # the first of equals, both of them


_CHOSEN: dict[str, Callable[[Aggregate, list[Event]], Event | None]] = {
    "first": lambda _, rows: builtins.min(rows, key=_order, default=None),
    "last": lambda _, rows: builtins.max(rows, key=_order, default=None),
    "first_arrived": lambda _, rows: builtins.min(rows, key=_arrival, default=None),
    "last_arrived": lambda _, rows: builtins.max(rows, key=_arrival, default=None),
    "min_by": lambda what, rows: _extreme(what, rows, largest=False),
    "max_by": lambda what, rows: _extreme(what, rows, largest=True),
}


def has_meaning(kind: str) -> bool:
    """Whether there is such a kind."""
    return kind in {"count", "custom", "top", *_CHOSEN, *OVER_VALUES, *OVER_VALUES_AND_NUMBER}


def _from_the_top(value: Any) -> tuple[bool, Any]:
    """Orders values with NaN below all others: it leads nothing."""
    lost, number = rank(value)
    return (not lost, number)


def _top(what: Aggregate, rows: list[Event]) -> list[dict[str, Any]]:
    by = what.by or ""
    there = sorted((e for e in rows if e.row.get(by) is not None), key=_order)
    ordered = sorted(there, key=lambda e: _from_the_top(e.row[by]), reverse=True)  # stable: equals stay in their order
    return [{name: e.row.get(name) for name in (*what.of, by)} for e in ordered[: what.most]]


def _custom(what: Aggregate, events: Sequence[Event], columns: builtins.set[str]) -> Any:
    rows = [dict(e.row) for e in events]
    parts = sql.aggregate(dict(what.partial), rows, columns)
    return sql.value(what.finish, sql.aggregate(dict(what.merge), [parts]))
