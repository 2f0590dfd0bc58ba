"""The kernel's own columns beside the user's, and the plan it works by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import polars as pl

from eventide.model.event import LaneId, Position
from eventide.model.plan import Plan
from eventide.model.time import EARLIEST, LATEST, LONGEST
from eventide.model.window import Session

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
OP, TIMING = "__op", "__timing"
"""What a pane does and when it came; users may have columns called so without the underscores."""
BUCKET = "__bucket"
BEHIND = "__behind_lane"
"""Whether the row's own lane had passed the end of its first window; if W did and the lane did not, W had gone on without the lane."""

POSITION = (ARRIVAL, SOURCE, LANE, OFFSET)


class Witness(Protocol):
    """Sees every row of a lane as it is scanned: arrivals raised, dead letters named, the lane's clock beside each row."""

    def see(self, rows: pl.DataFrame) -> None:
        """The next rows of the lane."""

    def close(self) -> list[str]:
        """The end of what was read; the files that the driver must hear of."""

    def forget(self) -> None:
        """Undo what was written: the lane could not be read to its end, and may be read again."""


Watch = Callable[[int, LaneId], Witness | None]
"""Who watches a lane in a batch."""


@dataclass(frozen=True)
class Shape:
    """The plan with the names of the columns that it reads."""

    plan: Plan
    keys: tuple[str, ...] = ()
    dedupe: tuple[str, ...] = ()
    buckets: int = 1
    max_ahead: tuple[int | None, ...] = ()
    """For each source: an event time further than this after its arrival is absurd: a dead letter, never a watermark."""
    max_skew: tuple[int | None, ...] = ()
    """For each source: an arrival further than this after the batch's clock is lowered to the clock."""
    watch: Watch | None = None
    tells_watermark: bool = False
    """Whether rows that are refused are kept, with W as it stood."""
    needed: frozenset[str] | None = None
    """The user's columns that are computed with; None: all of them go on."""

    def witness(self, batch: int, lane: LaneId) -> Witness | None:
        """Who sees a lane's rows in a batch, if anybody does."""
        return None if self.watch is None else self.watch(batch, lane)

    @property
    def sweeps_all(self) -> bool:
        """Whether the sweep sees every change of a lane's watermark, not only those that can change a verdict."""
        return self.keeps_rows or self.plan.when_all_idle == "advance"

    @property
    def keeps_clocks(self) -> bool:
        """Whether the lanes' own clocks are kept until they are swept."""
        return self.tells_watermark and not self.sweeps_all

    @property
    def keeps_rows(self) -> bool:
        """Whether rows stay rows until they are swept: sessions and duplicates are judged row by row, in order."""
        return isinstance(self.plan.window, Session) or self.plan.dedupe_within is not None


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
