"""Aggregates, named by what they are, and their plain meaning over a list of rows."""

from __future__ import annotations

import builtins
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

from eventide.errors import DefinitionError, EventideError
from eventide.model import sql
from eventide.model.event import Event

ADDITIVE = frozenset({"count", "sum", "collect"})
"""Aggregates whose deltas add up, so that a discarding output may carry them."""


_DIGITS = 38
"""The most digits that a decimal column has."""


class AggregateOverflow(EventideError):
    """A sum of whole numbers left int64, or one of decimals their 38 digits; it is never wrapped."""


@dataclass(frozen=True)
class Aggregate:
    """What is computed over the rows of a window; `column` is None for count()."""

    kind: str
    column: str | None = None
    share: float | None = None
    partial: tuple[tuple[str, str], ...] = ()
    merge: tuple[tuple[str, str], ...] = ()
    finish: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """The input columns that it names itself (a custom one may use any)."""
        return () if self.column is None else (self.column,)


def count(column: str | None = None) -> Aggregate:
    """How many rows; with a column, how many in which it is not null.

    >>> count().kind
    'count'
    """
    return Aggregate("count", column)


def sum(column: str) -> Aggregate:
    """The exact sum of whole numbers and decimals (an overflow is an error), the sum of floats."""
    return Aggregate("sum", _column("sum", column))


def min(column: str) -> Aggregate:
    """The smallest value that is not null."""
    return Aggregate("min", _column("min", column))


def max(column: str) -> Aggregate:
    """The largest value that is not null."""
    return Aggregate("max", _column("max", column))


def mean(column: str) -> Aggregate:
    """The arithmetic mean, as a float."""
    return Aggregate("mean", _column("mean", column))


def variance(column: str) -> Aggregate:
    """The sample variance; null for fewer than two values."""
    return Aggregate("variance", _column("variance", column))


def stddev(column: str) -> Aggregate:
    """The sample standard deviation; null for fewer than two values."""
    return Aggregate("stddev", _column("stddev", column))


def first(column: str) -> Aggregate:
    """The value of the row with the earliest event time (of equals, the one that arrived first)."""
    return Aggregate("first", _column("first", column))


def last(column: str) -> Aggregate:
    """The value of the row with the latest event time (of equals, the one that arrived last)."""
    return Aggregate("last", _column("last", column))


def distinct(column: str) -> Aggregate:
    """Approximately how many different values (an HLL sketch: about 1.6% standard error)."""
    return Aggregate("distinct", _column("distinct", column))


def quantile(column: str, share: float) -> Aggregate:
    """Approximately the value below which this share of the rows lies (a KLL sketch: about 1.3% rank error).

    >>> quantile("latency", 0.95).share
    0.95
    """
    if not 0 <= share <= 1:
        raise DefinitionError(
            f"quantile({column!r}, {share!r}): the share must lie between 0 and 1, as in quantile({column!r}, 0.95)."
        )
    return Aggregate("quantile", _column("quantile", column), share)


def median(column: str) -> Aggregate:
    """The exact median; of an even number of values the mean of the two in the middle. All values are kept for it.

    >>> rows = [Event(0, 0, row={"ms": ms}) for ms in (30, 10, None, 40, 20)]
    >>> compute(median("ms"), rows)
    25.0
    """
    return Aggregate("exact_quantile", _column("median", column), 0.5)


def collect(column: str) -> Aggregate:
    """All values that are not null, sorted."""
    return Aggregate("collect", _column("collect", column))


def aggregate(*, partial: Mapping[str, str], merge: Mapping[str, str], finish: str) -> Aggregate:
    """Your own aggregate as SQL: per-slice parts over the rows, how parts of the same name combine, and the result.

    >>> vwap = aggregate(
    ...     partial={"pq": "SUM(price * qty)", "q": "SUM(qty)"}, merge={"pq": "SUM(pq)", "q": "SUM(q)"}, finish="pq / q")
    >>> vwap.kind
    'custom'
    """
    if not partial or set(partial) != set(merge):
        raise DefinitionError(
            f"aggregate: partial names {sorted(partial)} and merge names {sorted(merge)}; "
            "both must name the same parts, at least one."
        )
    return Aggregate("custom", None, None, tuple(partial.items()), tuple(merge.items()), finish)


def _column(kind: str, column: Any) -> str:
    if not isinstance(column, str) or not column:
        raise DefinitionError(f'{kind}({column!r}): name the column, as in {kind}("amount").')
    return column


def compute(what: Aggregate, events: Sequence[Event]) -> Any:
    """The value of an aggregate by its definition, over all rows at once; the yardstick for every faster way."""
    if what.kind == "custom":
        return _custom(what, events)
    if what.kind == "count":
        return builtins.sum(1 for e in events if what.column is None or e.row.get(what.column) is not None)
    column = what.column or ""
    if what.kind in ("first", "last"):
        if not events:
            return None
        pick = builtins.min if what.kind == "first" else builtins.max
        return pick(events, key=lambda e: (e.event_time, e.position)).row.get(column)
    values = [e.row[column] for e in events if e.row.get(column) is not None]
    return _OVER_VALUES[what.kind](values, what.share)


def _sum(values: list[Any], _: float | None) -> Any:
    if not values:
        return None
    if any(isinstance(v, float) for v in values):
        return _float_sum(values)
    with localcontext(Context(prec=1_000)):  # the usual 28 digits would round
        total = builtins.sum(values)
    if isinstance(total, Decimal):
        scale = builtins.max(0, *(-int(v.as_tuple().exponent) for v in values))
        if abs(int(total.scaleb(scale, Context(prec=1_000)))) >= 10**_DIGITS:
            raise AggregateOverflow(
                f"a sum of {len(values)} decimals is {total}, more than the {_DIGITS} digits of a decimal column. "
                "Sum a column with fewer decimals instead."
            )
    if isinstance(total, int) and not -(2**63) <= total < 2**63:
        raise AggregateOverflow(
            f"a sum of {len(values)} whole numbers is {total}, which leaves int64. Sum a decimal column instead."
        )
    return total


def _mean(values: list[Any], _: float | None) -> float | None:
    if not values:
        return None
    return _float_sum(values, over=len(values))


def _float_sum(values: list[Any], over: int = 1) -> float:
    """Exact where that is possible; infinities and NaN as IEEE arithmetic has them, and so a sum beyond the largest float."""
    try:
        return math.fsum(values) / over
    except (OverflowError, ValueError):
        if not all(math.isfinite(v) for v in values):
            return builtins.sum(float(v) for v in values) / over
    total = builtins.sum(Fraction(v) for v in values) / over
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def _spread(values: list[Any], _: float | None) -> float | None:
    if not all(math.isfinite(v) for v in values):
        return math.nan if len(values) > 1 else None
    return statistics.variance([float(v) for v in values]) if len(values) > 1 else None


def _rank(value: Any) -> tuple[bool, Any]:
    """Orders values with NaN after all others, where plain comparison would leave the order to chance."""
    lost = isinstance(value, float) and math.isnan(value)
    return (lost, 0 if lost else value)


def _extreme(pick: Any) -> Any:
    def choose(values: list[Any], _: float | None) -> Any:
        ordered = [v for v in values if not (isinstance(v, float) and math.isnan(v))]
        return pick(ordered) if ordered else (values[0] if values else None)

    return choose


def _stddev(values: list[Any], share: float | None) -> float | None:
    spread = _spread(values, share)
    return None if spread is None else math.sqrt(spread)


def _quantile(values: list[Any], share: float | None) -> Any:
    if not values:
        return None
    ordered = sorted((float(v) if isinstance(v, Decimal) else v for v in values), key=_rank)
    return ordered[builtins.min(len(ordered) - 1, builtins.max(0, math.ceil((share or 0.0) * len(ordered)) - 1))]


def _between(values: list[Any], share: float | None) -> float | None:
    """The exact quantile, as Spark's percentile: on the line between the two values next to it."""
    if not values:
        return None
    ordered = sorted((float(v) for v in values), key=_rank)
    reach = (share or 0.0) * (len(ordered) - 1)
    below = math.floor(reach)
    part = reach - below
    low, high = ordered[below], ordered[builtins.min(below + 1, len(ordered) - 1)]
    return low if part == 0 or low == high else low * (1 - part) + high * part


_OVER_VALUES: dict[str, Any] = {
    "sum": _sum,
    "min": _extreme(builtins.min),
    "max": _extreme(builtins.max),
    "mean": _mean,
    "variance": _spread,
    "stddev": _stddev,
    "distinct": lambda values, _: len({_rank(v) for v in values}),
    "quantile": _quantile,
    "exact_quantile": _between,
    "collect": lambda values, _: sorted(values, key=_rank),
}

KINDS = frozenset({"count", "first", "last", "custom", *_OVER_VALUES})
"""Every kind that has a meaning; who computes them must know them all."""


def _custom(what: Aggregate, events: Sequence[Event]) -> Any:
    rows = [dict(e.row) for e in events]
    parts = sql.aggregate(dict(what.partial), rows)
    return sql.value(what.finish, sql.aggregate(dict(what.merge), [parts]))
