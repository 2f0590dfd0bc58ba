"""A clock that moves only when it is told to."""

from __future__ import annotations

from eventide.model.time import Duration, Instant, duration, instant, plus, show_instant


class ManualClock:
    """Gives the time in microseconds since 1970; hand it wherever a clock is asked for.

    >>> clock = ManualClock("2026-11-15T19:30:00Z")
    >>> clock.advance("90 seconds")
    >>> print(clock)
    2026-11-15T19:31:30Z
    """

    def __init__(self, now: Instant | int = 0) -> None:
        self._now = now if isinstance(now, int) else instant(now, what="ManualClock(...)")

    def __call__(self) -> int:
        """The time now."""
        return self._now

    def advance(self, span: Duration) -> None:
        """Let this much time pass."""
        self._now = plus(self._now, duration(span, what="advance(...)", zero=True))

    def __str__(self) -> str:
        return show_instant(self._now)
