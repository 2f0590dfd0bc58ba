"""The verdict on one event and one window, and how W is compared without changing any verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum

from eventide.model.time import MIN_TIME, plus
from eventide.model.window import Sliding, Window


class Verdict(StrEnum):
    """What becomes of an event in a window that ends at b, under allowed lateness A."""

    ON_TIME = "on_time"
    """W < b: the window is open."""
    ADMITTED = "admitted"
    """b ≤ W < b + A: the window has closed, its result is corrected."""
    REFUSED = "refused"
    """W ≥ b + A: the window is gone; the event is counted or diverted."""


def verdict(watermark: int | None, end: int, allowed: int) -> Verdict:
    """Judge by W as it stood before the event.

    >>> verdict(None, 10, 0), verdict(10, 10, 5), verdict(15, 10, 5)
    (<Verdict.ON_TIME: 'on_time'>, <Verdict.ADMITTED: 'admitted'>, <Verdict.REFUSED: 'refused'>)
    """
    if watermark is None or watermark < end:
        return Verdict.ON_TIME
    return Verdict.ADMITTED if watermark < plus(end, allowed) else Verdict.REFUSED


def last_threshold(watermark: int | None, window: Sliding, allowances: Iterable[int]) -> int:
    """The last instant at or below W at which any verdict changes: it may stand for W, and there are few of them.

    >>> last_threshold(27, Sliding(10, 10), (0, 5))
    25
    """
    if watermark is None or watermark == MIN_TIME:
        return MIN_TIME
    return max(max(MIN_TIME, window.floor_end(watermark - a) + a) for a in allowances)


def crossing(
    window: Window, allowances: Iterable[int], when_all_idle: str = "hold", *, dedupes: bool = False
) -> Callable[[int | None, int | None], bool]:
    """Whether a lane's progress between two watermarks can be seen, so that it must be told to the frontier.

    For windows on a grid it can be seen only where a threshold is passed. Sessions end anywhere, duplicates are forgotten
    anywhere, and a W that grows by the clock grows from where it stood exactly: there every step is told.

    >>> seen = crossing(Sliding(10, 10), (0, 5))
    >>> seen(11, 14), seen(14, 15), seen(None, 3)
    (False, True, True)
    """
    spans = tuple(allowances)
    if not isinstance(window, Sliding) or when_all_idle == "advance" or dedupes:
        return lambda before, after: before != after
    return lambda before, after: last_threshold(before, window, spans) != last_threshold(after, window, spans)
