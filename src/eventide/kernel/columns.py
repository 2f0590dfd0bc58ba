"""The kernel's own columns beside the user's."""

from __future__ import annotations

import polars as pl

from eventide.model.event import Position
from eventide.model.time import EARLIEST, LATEST, LONGEST

ARRIVAL = "__arrival"
SOURCE = "__source"
LANE = "__lane"
OFFSET = "__offset"
TIME = "__time"
CANDIDATE = "__candidate"
MARKER = "__marker"
DEAD = "__dead"
RAW = "__raw"
NO_VALUE = "the value is null"
"""Why a record without a value, a tombstone, is a dead letter; it has no bytes to keep."""
SLICE = "__slice"
SEEN = "__seen"
"""W when the row was judged, as the last threshold that it had passed; UNSEEN where every window was open."""
UNSEEN = -(2**62)
"""Below every watermark, with room to subtract an allowed lateness."""
ROWS = "__rows"
END = "__end"
"""The end of a window."""
MISSED_FIRST, MISSED_LAST = "__missed_first_end", "__missed_last_end"
"""The first and the last end of the windows that refused a row."""
SEQUENCE, COVERED = "__sequence", "__covered"
"""The sequence of a window's last result, and how many rows it covers."""
ORDER = "__order"
"""Where a late partial stands among those of its batch: one each for per-row firing, the class of W for the next stage, otherwise all the same."""
OP, TIMING = "__op", "__timing"
"""What a pane does and when it came; users may have columns called so without the underscores."""
BEHIND = "__behind_lane"
"""Whether the row's own lane had passed the end of its first window; if W did and the lane did not, W had gone on without the lane."""

POSITION = (ARRIVAL, SOURCE, LANE, OFFSET)


def instant(column: str) -> pl.Expr:
    """Microseconds as a point in time that people can read."""
    return pl.from_epoch(pl.col(column), time_unit="us").dt.replace_time_zone("UTC")


def dated(column: str) -> pl.Expr:
    """The same for times that came from outside: null where they lie beyond every calendar."""
    return pl.when(pl.col(column).is_between(EARLIEST - LONGEST, LATEST + LONGEST)).then(instant(column))


def swept_between(after: Position | None, upto: Position) -> pl.Expr:
    """Rows whose position lies after one and not after another."""
    inside = _compare(upto, inclusive=True)
    return inside if after is None else inside & ~_compare(after, inclusive=True)


def _compare(position: Position, *, inclusive: bool) -> pl.Expr:
    """Whether a row's position is at or before a given one, compared part by part."""
    verdict: pl.Expr = pl.lit(inclusive)
    for index in reversed(range(len(POSITION))):
        column, bound = pl.col(POSITION[index]), pl.lit(position[index])
        verdict = (column < bound) | ((column == bound) & verdict)
    return verdict
