"""Lateness seen by the scan: arrival minus event time of one lane in one batch, as sketches by hour and chosen columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from eventide.kernel.columns import ARRIVAL, DEAD, MARKER, TIME
from eventide.lateness.by_value import Ascending, Groups
from eventide.lateness.sketches import Measured, drawn, spaced
from eventide.model.event import LaneId
from eventide.model.window import Sliding, Window
from eventide.state.store import Store, lane_name

DISORDER, IDLENESS = "behind its own lane", "its lane had been idle"
"""Why a row is late: its lane had gone on without it, or W had gone on without its lane."""
LATENESS = "lateness"
HOUR = 3_600_000_000
AT_ONCE = 400_000
"""Small chunks wait for one another until they are so many rows: what a chunk costs beside its rows is then little."""
ALL = ""
"""The dimension that stands for all rows of a lane."""
SCHEMA: dict[str, Any] = {
    "source": pl.String, "lane": pl.String, "hour": pl.Int64, "dimension": pl.String, "value": pl.String, "stride": pl.Int64,
    "rows": pl.Int64, "late_at_source": pl.Int64, "late_at_window": pl.Int64, "longest": pl.Int64, "sketch": pl.Binary,
}  # fmt: skip
SUMS = ("rows", "late_at_source", "late_at_window")


@dataclass
class LatenessWitness:
    """Sees one lane in one batch, and leaves a small table in the store."""

    store: Store
    batch: int
    lane: LaneId
    source: str
    window: Window
    dimensions: tuple[str, ...] = ()
    measured: dict[tuple[int, str, str], Measured] = field(default_factory=dict, init=False)
    """By hour, dimension and value."""
    _waiting: list[pl.DataFrame] = field(default_factory=list, init=False)

    def see(self, rows: pl.DataFrame) -> None:
        """Measure a chunk, or keep it until there is enough to be measured at once; dead letters and markers have no lateness."""
        if rows[DEAD].null_count() < len(rows) or rows[MARKER].any():
            rows = rows.filter(pl.col(DEAD).is_null() & ~pl.col(MARKER))
        self._waiting.append(rows.select(ARRIVAL, TIME, "__before", *self.dimensions))
        if sum(map(len, self._waiting)) >= AT_ONCE:
            self._measure()

    def _measure(self) -> None:
        rows = pl.concat(self._waiting, rechunk=True) if len(self._waiting) > 1 else self._waiting[0]
        self._waiting.clear()
        if rows.is_empty():
            return
        first, last = rows[ARRIVAL][0] // HOUR, rows[ARRIVAL][-1] // HOUR
        # Arrivals never go back, so an hour is a run of rows.
        edges = np.searchsorted(rows[ARRIVAL].to_numpy(), np.arange(first + 1, last + 1) * HOUR)
        start = 0
        for hour, end in zip(range(first, last + 1), [*edges.tolist(), len(rows)], strict=True):
            if end > start:
                self._hour(rows[start:end], hour)
            start = end

    def _hour(self, rows: pl.DataFrame, hour: int) -> None:
        arrival, time, before = (rows[name].to_numpy() for name in (ARRIVAL, TIME, "__before"))
        late, behind = arrival - time, np.flatnonzero(time < before)
        missed = behind[self._end(time[behind]) <= before[behind]]
        everything = self._of(hour, ALL, ALL)
        everything.count(len(rows), len(behind), len(missed), int(late.max()))
        if not self.dimensions:
            each, places = drawn(len(late))
            _sketch(Ascending.of(late if each == 1 else late[places]), {0: everything}, each)
        for dimension in self.dimensions:
            self._by_value(hour, dimension, rows[dimension], late, behind, missed)

    def _by_value(
        self, hour: int, dimension: str, column: pl.Series, late: np.ndarray, behind: np.ndarray, missed: np.ndarray
    ) -> None:
        groups = Groups(column)
        ascending = Ascending.of(late, groups)
        behind, missed = groups.counts(behind), groups.counts(missed)
        longest = groups.largest(late, ascending.nearly_largest())
        present = ascending.present
        found = {}
        for code, name in zip(present.tolist(), groups.names(present), strict=True):
            found[code] = self._of(hour, dimension, name)
            found[code].count(ascending.rows(code), int(behind[code]), int(missed[code]), int(longest[code]))
        _sketch(ascending, found)

    def _of(self, hour: int, dimension: str, value: str) -> Measured:
        return self.measured.setdefault((hour, dimension, value), Measured())

    def _end(self, time: np.ndarray) -> np.ndarray:
        """The end of each row's first window, as `grid.first_end` has it."""
        if not isinstance(self.window, Sliding):
            return time + self.window.gap
        grid = self.window.offset + self.window.size
        return (time - grid) // self.window.slide * self.window.slide + self.window.slide + grid

    def close(self) -> list[str]:
        """Write what was seen; where a column is measured, the sketch of all rows is put together from its values'."""
        if self._waiting:
            self._measure()
        if not self.measured:
            return []
        for (hour, dimension, _), part in list(self.measured.items()) if self.dimensions else ():
            if dimension == self.dimensions[0]:
                self._of(hour, ALL, ALL).merge(part)
        place = (self.source, self.lane[1])
        lines = [(*place, *key, *line) for key, measured in self.measured.items() for line in measured.lines()]
        self.store.write_table(LATENESS, self.batch, lane_name(self.lane), pl.DataFrame(lines, schema=SCHEMA, orient="row"))
        return []

    def forget(self) -> None:
        """Nothing is written before the end."""


def _sketch(ascending: Ascending, groups: dict[int, Measured], each: int = 1) -> None:
    """Give each group's sketches its ranks, where a number stands for `each` rows.

    They are looked up all at once, which costs less than group by group.
    """
    wanted = [
        (m, stride, places + ascending.edges[code])
        for code, m in groups.items()
        for stride, places in spaced(ascending.rows(code))
    ]
    numbers = ascending.numbers(np.concatenate([places for _, _, places in wanted]))
    start = 0
    for measured, stride, places in wanted:
        measured.sketch(stride * each, numbers[start : start + len(places)])
        start += len(places)
