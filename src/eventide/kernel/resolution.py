"""W at full resolution, for the few rows that are told what it was: from the lanes' own clocks, which the sweep sees only where a verdict can change.

While no lane joins, and one is left that counts, the least of the lanes' watermarks never goes back: W before a row is that least, or what W was
when a lane last joined or the last one fell silent, whichever is higher.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from eventide.kernel.columns import ARRIVAL, LANE, OFFSET, SOURCE, UNSEEN
from eventide.model.event import LaneId, Position
from eventide.model.sweep import Counted
from eventide.model.time import MAX_TIME

CLOCK = "__clock"
"""A lane's watermark from after a row on."""
Times = NDArray[np.int64]
Clocks = Callable[[LaneId], Iterable[pl.DataFrame]]
"""A lane's watermark wherever it changed, in order: frames of arrival, offset and watermark."""


@dataclass(frozen=True)
class PlaceColumns:
    """Positions as columns, in order; lanes by their place among all of them, the end of an instant after all."""

    arrival: Times
    lane: Times
    offset: Times

    @classmethod
    def of(cls, rows: pl.DataFrame, lanes: Sequence[LaneId]) -> PlaceColumns:
        """Of rows that are sorted by position."""
        known = pl.DataFrame(
            {SOURCE: [lane[0] for lane in lanes], LANE: [lane[1] for lane in lanes], "__place": range(len(lanes))},
            schema={SOURCE: pl.Int64, LANE: pl.String, "__place": pl.Int64},
        )
        place = rows.select(SOURCE, LANE).join(known, on=[SOURCE, LANE], how="left", maintain_order="left")["__place"]
        return cls(rows[ARRIVAL].to_numpy(), place.fill_null(len(lanes)).to_numpy(), rows[OFFSET].to_numpy())

    def first_after(self, position: Position, lanes: Sequence[LaneId]) -> int:
        """The first of them that lies after a position."""
        arrival, source, name, offset = position
        low, high = np.searchsorted(self.arrival, arrival, "left"), np.searchsorted(self.arrival, arrival, "right")
        place, lane = bisect_left(lanes, (source, name)), self.lane[low:high]
        before = (lane < place) | ((lane == place) & (self.offset[low:high] <= offset))
        return int(low + np.count_nonzero(before))

    def clock_before(self, place: int, entries: pl.DataFrame) -> tuple[NDArray[np.bool_], Times]:
        """Which of them come after an entry of a lane's clock, and what the last such entry says."""
        arrival, offset, clock = (entries[name].to_numpy() for name in (ARRIVAL, OFFSET, CLOCK))
        upto = np.where(
            self.lane > place,
            np.searchsorted(arrival, self.arrival, "right"),
            np.searchsorted(arrival, self.arrival, "left"),
        )
        upto = np.where(self.lane == place, np.searchsorted(offset, self.offset, "left"), upto)
        return upto > 0, clock[np.maximum(upto, 1) - 1]


def watermark_before(
    rows: pl.DataFrame, counted: Sequence[Counted], floors: Sequence[tuple[Position, int]], clocks: Clocks
) -> Times:
    """W as it stood before each row, UNSEEN while undefined; rows are sorted by position, floors are W at places from which on it is at least that."""
    lanes = [one.lane for one in counted]
    places = PlaceColumns.of(rows, lanes)
    least, known = np.full(len(rows), MAX_TIME, dtype=np.int64), np.ones(len(rows), dtype=bool)
    anyone = np.zeros(len(rows), dtype=bool)
    for place, one in enumerate(counted):
        counts = np.full(len(rows), one.at_first)
        for position, now in one.turns:
            counts[places.first_after(position, lanes) :] = now
        if not counts.any():
            continue
        clock = np.full(len(rows), UNSEEN if one.watermark is None else one.watermark, dtype=np.int64)
        for entries in clocks(one.lane):
            heard, said = places.clock_before(place, entries)
            clock = np.where(heard, np.maximum(clock, said), clock)
        least = np.where(counts, np.minimum(least, clock), least)
        known &= ~counts | (clock != UNSEEN)
        anyone |= counts
    found = np.where(anyone & known, least, UNSEEN)
    for position, watermark in floors:
        after = places.first_after(position, lanes)
        found[after:] = np.maximum(found[after:], watermark)
    return found
