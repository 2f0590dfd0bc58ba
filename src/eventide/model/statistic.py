"""The plain meaning of each statistic over a list of values, none of them null."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

from eventide.errors import EventideError

_DIGITS = 38
"""The most digits that a decimal column has."""


class AggregateOverflow(EventideError):
    """A sum of whole numbers left int64, or one of decimals their 38 digits; it is never wrapped."""


def rank(value: Any) -> tuple[bool, Any]:
    """Orders values with NaN after all others, where plain comparison would leave the order to chance.

    >>> sorted([2.0, float("nan"), 1.0], key=rank)
    [1.0, 2.0, nan]
    """
    lost = isinstance(value, float) and math.isnan(value)
    return (lost, 0 if lost else value)


def _sum(values: list[Any]) -> Any:
    if not values:
        return None
    if any(isinstance(v, float) for v in values):
        return _float_sum(values)
    with localcontext(Context(prec=1_000)):  # the usual 28 digits would round
        total = sum(values)
    if isinstance(total, Decimal):
        scale = max(0, *(-int(v.as_tuple().exponent) for v in values))
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


def _mean(values: list[Any]) -> float | None:
    if not values:
        return None
    return _float_sum(values, over=len(values))


def _float_sum(values: list[Any], over: int = 1) -> float:
    """Exact where that is possible; infinities and NaN as IEEE arithmetic has them, and so a sum beyond the largest float."""
    try:
        return math.fsum(values) / over
    except (OverflowError, ValueError):
        if not all(math.isfinite(v) for v in values):
            return sum(float(v) for v in values) / over
    total = sum(Fraction(v) for v in values) / over
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def _spread(values: list[Any]) -> float | None:
    if not all(math.isfinite(v) for v in values):
        return math.nan if len(values) > 1 else None
    return statistics.variance([float(v) for v in values]) if len(values) > 1 else None


def _extreme(pick: Any) -> Any:
    def choose(values: list[Any]) -> Any:
        ordered = [v for v in values if not (isinstance(v, float) and math.isnan(v))]
        return pick(ordered) if ordered else (values[0] if values else None)

    return choose


def _stddev(values: list[Any]) -> float | None:
    spread = _spread(values)
    return None if spread is None else math.sqrt(spread)


def _by_rank(values: list[Any], share: float) -> Any:
    if not values:
        return None
    ordered = sorted((float(v) if isinstance(v, Decimal) else v for v in values), key=rank)
    return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]


def _between(values: list[Any], share: float) -> float | None:
    """The exact quantile, as Spark's percentile: on the line between the two values next to it."""
    if not values:
        return None
    ordered = sorted((float(v) for v in values), key=rank)
    below = math.floor(share * (len(ordered) - 1))
    part = share * (len(ordered) - 1) - below
    low, high = ordered[below], ordered[min(below + 1, len(ordered) - 1)]
    return low if part == 0 or low == high else low * (1 - part) + high * part


def _different(values: list[Any]) -> list[Any]:
    return sorted({rank(v): v for v in values}.values(), key=rank)


def _most_frequent(values: list[Any], number: float) -> list[dict[str, Any]]:
    times = Counter(rank(v) for v in values)
    ordered = sorted(_different(values), key=lambda v: -times[rank(v)])
    return [{"value": v, "n": times[rank(v)]} for v in ordered[: int(number)]]


OVER_VALUES: dict[str, Callable[[list[Any]], Any]] = {
    "sum": _sum,
    "min": _extreme(min),
    "max": _extreme(max),
    "mean": _mean,
    "variance": _spread,
    "stddev": _stddev,
    "distinct": lambda values: len(_different(values)),
    "exact_distinct": lambda values: len(_different(values)),
    "collect": lambda values: sorted(values, key=rank),
    "set": _different,
    "any": lambda values: any(values) if values else None,
    "all": lambda values: all(values) if values else None,
}

OVER_VALUES_AND_NUMBER: dict[str, Callable[[list[Any], float], Any]] = {
    "quantile": _by_rank,
    "exact_quantile": _between,
    "top_k": _most_frequent,
}
