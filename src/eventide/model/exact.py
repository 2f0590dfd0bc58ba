"""Exact aggregates of which the meaning is all there is to write: one entry here, and its name in `__all__`.

The engine keeps all values that are not null, and hands them, sorted, to the meaning. Where that is too much to keep, the kernel may know a
shorter way (`kernel/kinds.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from eventide.model.aggregate import Aggregate, Condition, over_column
from eventide.model.aggregate import compute as compute  # for the examples
from eventide.model.event import Event as Event
from eventide.model.statistic import OVER_VALUES, rank

__all__ = ["mode"]

Meaning = Callable[[list[Any]], Any]


class OverColumn(Protocol):
    """How users call it."""

    def __call__(self, column: str, *, where: Condition = None) -> Aggregate:
        """Over the values of a column, or of the rows for which a condition holds."""
        ...


@dataclass(frozen=True)
class Exact:
    """What the engine must know of an aggregate that it computes by its meaning."""

    meaning: Meaning
    gives: type | None
    """float, int, bool or str; None: what the column has."""
    numbers: bool
    """Whether it is of numbers only."""


EXACT: dict[str, Exact] = {}
"""Those that were written so, by name."""


def exact(*, gives: type | None = None, numbers: bool = False) -> Callable[[Meaning], OverColumn]:
    """Make an aggregate of what it means over all values of a column, none of them null; what it gives is null, or of the type said."""

    def made(meaning: Meaning) -> OverColumn:
        kind = meaning.__name__
        EXACT[kind], OVER_VALUES[kind] = Exact(meaning, gives, numbers), meaning

        def over(column: str, *, where: Condition = None) -> Aggregate:
            return over_column(kind, column, where)

        over.__name__, over.__qualname__, over.__module__, over.__doc__ = kind, kind, meaning.__module__, meaning.__doc__
        return over

    return made


@exact()
def mode(values: list[Any]) -> Any:
    """The most frequent value; of equals the smallest. All values are kept for it.

    >>> compute(mode("bank"), [Event(0, 0, row={"bank": bank}) for bank in ("sbi", "axis", None, "sbi")])
    'sbi'
    """
    times = Counter(map(rank, values))
    return min(values, key=lambda value: (-times[rank(value)], rank(value)), default=None)
