"""Spans, times and sizes as people read them at a glance."""

from __future__ import annotations

from eventide.model.time import show_instant


def rough(span: int) -> str:
    """A span in its largest unit.

    >>> rough(90_000_000), rough(7_200_000_000), rough(2_000_000)
    ('2 min', '2 h', '2 s')
    """
    for unit, name in ((86_400_000_000, "d"), (3_600_000_000, "h"), (60_000_000, "min")):
        if span >= unit:
            return f"{span / unit:.0f} {name}"
    return f"{span / 1_000_000:.0f} s"


def since(clock: int, upto: int) -> str:
    """From when on, and how long that is by then.

    >>> since(0, 90_000_000)
    '1970-01-01T00:00:00Z (2 min)'
    """
    return f"{to_seconds(clock)} ({rough(max(0, upto - clock))})"


def to_seconds(time: int | None) -> str:
    """A point in time without its fractions of a second.

    >>> to_seconds(1_500_000)
    '1970-01-01T00:00:01Z'
    """
    shown = show_instant(time)
    return f"{shown.partition('.')[0]}Z" if "." in shown else shown


def size(number: int) -> str:
    """Bytes in their largest unit.

    >>> size(512), size(20_480), size(3 * 1024**3)
    ('512 B', '20.0 KiB', '3.0 GiB')
    """
    shown, unit = float(number), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if shown < 1024:
            break
        shown, unit = shown / 1024, larger
    return f"{number} B" if unit == "B" else f"{shown:.1f} {unit}"
