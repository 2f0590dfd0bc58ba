"""Event-time windows: which windows an event belongs to, and the slices that overlapping windows share."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from eventide.errors import DefinitionError
from eventide.model.time import Duration, duration, saturate, show_duration

Bounds = tuple[int, int]
"""[start, end): half open."""


@dataclass(frozen=True)
class Sliding:
    """Windows of one size that begin every `slide`; tumbling windows are the case slide = size."""

    size: int
    slide: int
    offset: int = 0

    @property
    def slice_size(self) -> int:
        """The longest span that no window boundary cuts: what overlapping windows share."""
        return gcd(self.size, self.slide)

    def slice_start(self, event_time: int) -> int:
        """The start of the slice of an event."""
        return saturate((event_time - self.offset) // self.slice_size * self.slice_size + self.offset)

    def first_end(self, event_time: int) -> int:
        """The end of the earliest window that holds the event."""
        return saturate(
            (event_time - self.offset - self.size) // self.slide * self.slide + self.slide + self.size + self.offset
        )

    def last_end(self, event_time: int) -> int:
        """The end of the latest window that holds the event."""
        return saturate((event_time - self.offset) // self.slide * self.slide + self.size + self.offset)

    def assign(self, event_time: int) -> list[Bounds]:
        """All windows that hold the event, earliest first.

        >>> Sliding(size=10, slide=5).assign(-1)
        [(-10, 0), (-5, 5)]
        """
        first, last = self.first_end(event_time), self.last_end(event_time)
        return [(saturate(end - self.size), end) for end in range(first, last + 1, self.slide)]

    def floor_end(self, time: int) -> int:
        """The latest window end that is not after a time."""
        grid = self.offset + self.size
        return (time - grid) // self.slide * self.slide + grid

    def __str__(self) -> str:
        if self.slide == self.size:
            return f"tumbling {show_duration(self.size)}"
        return f"sliding {show_duration(self.size)} every {show_duration(self.slide)}"


INSTANT = Sliding(1, 1)
"""The windows of single instants: a row stands in its own microsecond, which closes when W has passed it."""


@dataclass(frozen=True)
class Session:
    """A run of events of one key with no silence longer than `gap`; events exactly one gap apart are one session."""

    gap: int

    def own(self, event_time: int) -> Bounds:
        """The session that an event makes alone."""
        return (event_time, saturate(event_time + self.gap))

    def __str__(self) -> str:
        return f"sessions with a gap of {show_duration(self.gap)}"


Window = Sliding | Session


def tumbling(size: Duration, *, offset: Duration = "0 s") -> Sliding:
    """Windows side by side.

    >>> str(tumbling("1 minute"))
    'tumbling 1 minute'
    """
    span = duration(size, what="the window's size")
    return Sliding(span, span, _offset(offset, span))


def sliding(size: Duration, slide: Duration, *, offset: Duration = "0 s") -> Sliding:
    """Windows that overlap: one of `size` begins every `slide`.

    >>> str(sliding("1 minute", "5 seconds"))
    'sliding 1 minute every 5 seconds'
    """
    span, step = duration(size, what="the window's size"), duration(slide, what="the slide")
    if step > span:
        raise DefinitionError(
            f"sliding({size!r}, {slide!r}): a slide larger than the size would leave events between windows "
            "out of every result. "
            "Make the slide at most the size."
        )
    return Sliding(span, step, _offset(offset, step))


def session(gap: Duration) -> Session:
    """Windows that end after a silence.

    >>> str(session("30 minutes"))
    'sessions with a gap of 30 minutes'
    """
    return Session(duration(gap, what="the session's gap"))


def _offset(offset: Duration, step: int) -> int:
    return duration(offset, what="the window's offset", zero=True) % step
