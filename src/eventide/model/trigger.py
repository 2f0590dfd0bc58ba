"""When a window's result is emitted: early while it is open, on time when it closes, late when it is corrected."""

from __future__ import annotations

from dataclasses import dataclass

from eventide.errors import DefinitionError
from eventide.model.expression import Expression, Node
from eventide.model.expression import condition as condition_of
from eventide.model.time import Duration, duration


@dataclass(frozen=True)
class Every:
    """Fires at this pace of the batch clock, counted from the window's first row."""

    period: int


@dataclass(frozen=True)
class After:
    """Fires this long (batch clock) after the first row that no firing has covered."""

    delay: int


@dataclass(frozen=True)
class EveryRows:
    """Fires when at least n rows came since the last firing."""

    rows: int


@dataclass(frozen=True)
class When:
    """Fires when an expression over the aggregates holds."""

    condition: str | Node


@dataclass(frozen=True)
class PerBatch:
    """One late pane for all late rows of a micro-batch."""


@dataclass(frozen=True)
class PerRow:
    """One late pane for every admitted late row."""


@dataclass(frozen=True)
class AtExpiry:
    """One late pane for all late rows, when the allowed lateness ends."""


EarlyTrigger = Every | After | EveryRows | When
LateTrigger = PerBatch | PerRow | EveryRows | Every | After | AtExpiry


PER_BATCH = PerBatch()


def every(period: Duration) -> Every:
    """An early result at this pace.

    >>> every("10 seconds")
    Every(period=10000000)
    """
    return Every(duration(period, what="every(...)"))


def after(delay: Duration) -> After:
    """A result this long after the first row that no result has covered yet."""
    return After(duration(delay, what="after(...)"))


def every_rows(rows: int) -> EveryRows:
    """A result each time that at least this many rows came.

    >>> every_rows(100)
    EveryRows(rows=100)
    """
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise DefinitionError(f"every_rows({rows!r}): give a whole number of rows, 1 or more.")
    return EveryRows(rows)


def when(condition: str | Expression) -> When:
    """An early result as soon as a condition over the aggregates holds, such as `when("total > 1000000")`.

    >>> from eventide.model.expression import col
    >>> print(when(col("total") > 1000000).condition)
    ("total" > 1000000)
    """
    read = condition_of(condition, "when(…)")
    return When(condition if isinstance(condition, str) else read)


def per_batch() -> PerBatch:
    """Coalesce late rows into one correction for each micro-batch (the default)."""
    return PerBatch()


def per_row() -> PerRow:
    """Emit a correction for every single late row."""
    return PerRow()


def at_expiry() -> AtExpiry:
    """Emit one correction at the end of the allowed lateness."""
    return AtExpiry()
