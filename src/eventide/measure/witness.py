"""Lateness seen by the scan: arrival minus event time of one lane in one batch, as sketches by hour and chosen columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import datasketches as ds
import numpy as np
import polars as pl

from eventide.engine.store import Store
from eventide.kernel.columns import ARRIVAL, DEAD, MARKER, TIME
from eventide.measure.quantiles import KLL_K
from eventide.model.event import LaneId
from eventide.model.window import Sliding, Window

LATENESS = "lateness"
HOUR = 3_600_000_000
OF_LANE, OF_VALUE, SPARSEST = 16_384, 4_096, 16
"""So many rows of a lane, or of a value, are all sketched; of a chunk that makes it twice as many every 2nd, and so on. Counts see every row."""
ALL = ""
"""The dimension that stands for all rows of a lane."""
SCHEMA: dict[str, Any] = {
    "source": pl.String, "lane": pl.String, "hour": pl.Int64, "dimension": pl.String, "value": pl.String, "stride": pl.Int64,
    "rows": pl.Int64, "late_at_source": pl.Int64, "late_at_window": pl.Int64, "longest": pl.Int64, "sketch": pl.Binary,
}  # fmt: skip
SUMS = ("rows", "late_at_source", "late_at_window")


@dataclass
class Measured:
    """What was seen of one value in one hour: exact counts, and a sketch for each density of sampling."""

    whole: int
    rows: int = 0
    late_at_source: int = 0
    late_at_window: int = 0
    longest: int = 0
    sketches: dict[int, Any] = field(default_factory=dict)

    def count(self, rows: int, late_at_source: int, late_at_window: int, longest: int) -> None:
        """More rows."""
        self.rows += rows
        self.late_at_source += late_at_source
        self.late_at_window += late_at_window
        self.longest = max(self.longest, longest)

    def sketch(self, late: np.ndarray) -> None:
        """The lateness of the next rows, before they are counted."""
        stride = stride_after(self.rows + len(late), self.whole)
        chosen = late[-self.rows % stride :: stride]
        if len(chosen):
            self._sketch(stride).update(chosen.astype(np.float64))

    def merge(self, other: Measured) -> None:
        """The sketches of a part of the rows."""
        for stride, sketch in other.sketches.items():
            self._sketch(stride).merge(sketch)

    def _sketch(self, stride: int) -> Any:
        if stride not in self.sketches:
            self.sketches[stride] = ds.kll_doubles_sketch(KLL_K)
        return self.sketches[stride]

    def lines(self) -> Iterator[tuple[Any, ...]]:
        """One for each sketch; the counts stand in the first."""
        counts = (self.rows, self.late_at_source, self.late_at_window)
        for nth, (stride, sketch) in enumerate(sorted(self.sketches.items())):
            yield (stride, *(counts if nth == 0 else (0, 0, 0)), self.longest, bytes(sketch.serialize()))


def stride_after(rows: int, whole: int) -> int:
    """Of so many rows every nth is sketched.

    >>> [stride_after(rows, 4_096) for rows in (4_096, 8_192, 20_000, 10_000_000)]
    [1, 2, 4, 16]
    """
    return min(SPARSEST, 1 << max(0, (rows // whole).bit_length() - 1))


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

    def see(self, rows: pl.DataFrame) -> None:
        """Measure a chunk; dead letters and markers have no lateness."""
        if rows[DEAD].null_count() < len(rows) or rows[MARKER].any():
            rows = rows.filter(pl.col(DEAD).is_null() & ~pl.col(MARKER))
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
        late, behind = arrival - time, time < before
        missed = np.zeros(len(rows), dtype=np.bool_)
        candidates = np.flatnonzero(behind)
        missed[candidates] = self._end(time[candidates]) <= before[candidates]
        everything = self._of(hour, ALL, ALL)
        if not self.dimensions:
            everything.sketch(late)
        everything.count(len(rows), len(candidates), int(missed.sum()), int(late.max()))
        for dimension in self.dimensions:
            frame = pl.DataFrame({"value": rows[dimension], "late": late, "behind": behind, "missed": missed})
            self._by_value(frame, hour, dimension)

    def _by_value(self, rows: pl.DataFrame, hour: int, dimension: str) -> None:
        groups = rows.group_by("value").agg(
            pl.len(), pl.col("behind").sum(), pl.col("missed").sum(), pl.col("late").max().alias("longest"), "late"
        )
        counts = groups.drop("late").iter_rows()
        for (value, *numbers), late in zip(counts, groups["late"], strict=True):
            measured = self._of(hour, dimension, "null" if value is None else str(value))
            measured.sketch(late.to_numpy())
            measured.count(*numbers)

    def _of(self, hour: int, dimension: str, value: str) -> Measured:
        return self.measured.setdefault((hour, dimension, value), Measured(OF_LANE if dimension == ALL else OF_VALUE))

    def _end(self, time: np.ndarray) -> np.ndarray:
        """The end of each row's first window, as `grid.first_end` has it."""
        if not isinstance(self.window, Sliding):
            return time + self.window.gap
        grid = self.window.offset + self.window.size
        return (time - grid) // self.window.slide * self.window.slide + self.window.slide + grid

    def close(self) -> None:
        """Write what was seen; where a column is measured, the sketch of all rows is put together from its values'."""
        if not self.measured:
            return
        for (hour, dimension, _), part in list(self.measured.items()) if self.dimensions else ():
            if dimension == self.dimensions[0]:
                self._of(hour, ALL, ALL).merge(part)
        place = (self.source, self.lane[1])
        lines = [(*place, *key, *line) for key, measured in self.measured.items() for line in measured.lines()]
        self.store.write_table(LATENESS, self.batch, pl.DataFrame(lines, schema=SCHEMA, orient="row"))
