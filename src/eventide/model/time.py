"""Points and spans of time: int64 microseconds since 1970, UTC; sums that would overflow stop at the ends."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta

from eventide.errors import DefinitionError

MIN_TIME = -(2**63)
MAX_TIME = 2**63 - 1
EARLIEST = -30_610_224_000_000_000
"""The first event time there may be, the year 1000; one before it is a dead letter."""
LATEST = 221_845_392_000_000_000
"""The first event time that there may not be, the year 9000. With `LONGEST` around them, all bounds of windows are dates that every system knows."""
LONGEST = 360_000 * 86_400_000_000
"""The longest span that may be declared: windows, gaps, lateness. The range of event times is then the same whatever the windows."""

_UNITS = {
    "us": 1, "µs": 1, "microsecond": 1,
    "ms": 1_000, "millisecond": 1_000,
    "s": 1_000_000, "sec": 1_000_000, "second": 1_000_000,
    "m": 60_000_000, "min": 60_000_000, "minute": 60_000_000,
    "h": 3_600_000_000, "hr": 3_600_000_000, "hour": 3_600_000_000,
    "d": 86_400_000_000, "day": 86_400_000_000,
    "w": 604_800_000_000, "week": 604_800_000_000,
}  # fmt: skip
_PART = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zµ]+)\s*,?", re.IGNORECASE)
_NAMES = (
    ("day", 86_400_000_000),
    ("hour", 3_600_000_000),
    ("minute", 60_000_000),
    ("second", 1_000_000),
    ("ms", 1_000),
    ("µs", 1),
)

Duration = str | timedelta
Instant = datetime | str


def saturate(time: int) -> int:
    """The nearest time that an int64 can hold.

    >>> saturate(2**63 + 5) == MAX_TIME
    True
    """
    return max(MIN_TIME, min(MAX_TIME, time))


def plus(time: int, span: int) -> int:
    """A time later (or, with a negative span, earlier), stopping at the ends of int64."""
    return saturate(time + span)


def duration(value: Duration, *, what: str = "a duration", zero: bool = False) -> int:
    """A span in microseconds from `"30 seconds"`, `"1 hour 30 min"` or a timedelta.

    >>> duration("1 min 30 s")
    90000000
    """
    if isinstance(value, timedelta):
        span = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
    elif isinstance(value, str):
        span = _parse(value, what)
    else:
        raise DefinitionError(f'{what} is {value!r}; give it as text with a unit, such as "30 seconds", or as a timedelta.')
    if span < 0 or (span == 0 and not zero):
        raise DefinitionError(f"{what} is {value!r}; it must be {'zero or more' if zero else 'more than zero'}.")
    if span > LONGEST:
        raise DefinitionError(f"{what} is {value!r}; the longest span is {show_duration(LONGEST)}.")
    return span


def _parse(text: str, what: str) -> int:
    position, total = 0, 0.0
    whole = 0
    body = text.strip()
    sign = -1 if body.startswith("-") else 1
    body = body.lstrip("+-")
    while position < len(body):
        part = _PART.match(body, position)
        unit = _UNITS.get(part[2].lower()) or _UNITS.get(part[2].lower().rstrip("s")) if part else None
        if part is None or unit is None:
            raise DefinitionError(
                f"{what} is {text!r}, which is not a span of time. Write a number and a unit: us, ms, seconds, minutes, hours, "
                'days or weeks, as in "30 seconds" or "1 hour 30 minutes".'
            )
        if "." in part[1]:
            total += float(part[1]) * unit
            if math.isinf(total):
                raise DefinitionError(f"{what} is {text!r}; the longest span is {show_duration(LONGEST)}.")
        else:
            whole += int(part[1]) * unit
        position = part.end()
    if not body:
        raise DefinitionError(f'{what} is empty. Write a number and a unit, as in "30 seconds".')
    return sign * (whole + math.floor(total + 0.5))


def instant(value: Instant, *, what: str = "a point in time") -> int:
    """A point in microseconds from an aware datetime or ISO text with its zone; a naive one is refused.

    >>> instant("1970-01-01T00:00:01Z")
    1000000
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise DefinitionError(f"{what} is {value!r}, which is not ISO 8601; write 2026-11-15T19:30:00Z.") from None
    if not isinstance(value, datetime):
        raise DefinitionError(f"{what} is {value!r}; give an aware datetime or ISO 8601 text with its zone.")
    if value.tzinfo is None:
        raise DefinitionError(
            f"{what} is {value.isoformat()}, which names no time zone, so it could mean any of 38 instants. "
            f"Write {value.isoformat()}Z, or datetime(..., tzinfo=UTC)."
        )
    return _since_epoch(value)


def _since_epoch(value: datetime) -> int:
    span = value - datetime(1970, 1, 1, tzinfo=UTC)
    return (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds


def show_duration(span: int) -> str:
    """A span as people write it.

    >>> show_duration(90_000_000)
    '1 minute 30 seconds'
    """
    if span == 0:
        return "0 seconds"
    parts, rest = [], abs(span)
    for name, unit in _NAMES:
        count, rest = divmod(rest, unit)
        if count:
            plural = "s" if count > 1 and len(name) > 2 else ""
            parts.append(f"{count} {name}{plural}")
    return ("-" if span < 0 else "") + " ".join(parts[:3])


def show_instant(time: int | None) -> str:
    """A point in time as ISO text; undefined and the ends of time say so.

    >>> show_instant(0)
    '1970-01-01T00:00:00Z'
    """
    if time is None:
        return "undefined"
    if time in (MIN_TIME, MAX_TIME):
        return "-∞" if time == MIN_TIME else "+∞"
    try:
        shown = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=time)
    except OverflowError:
        return f"{time} µs"
    return shown.isoformat().replace("+00:00", "Z")


def span(time: int | None) -> str:
    """A span as text that gives the same span when it is read.

    >>> span(90_000_000), span(90_061_000_001), span(None)
    ('"1 minute 30 seconds"', '"90061000001 us"', 'None')
    """
    if time is None:
        return "None"
    shown = show_duration(time)
    return f'"{shown}"' if duration(shown, zero=True) == time else f'"{time} us"'
