"""One lane of history read once, in order: its clock's steps on the grid, and the few rows whose bound only the others tell."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import datasketches as ds
import numpy as np
import polars as pl

from eventide.kernel.bound_plan import BoundPlan
from eventide.kernel.columns import ARRIVAL, DEAD, MARKER, OFFSET, TIME
from eventide.kernel.grid import first_end, last_end
from eventide.kernel.scan import LaneCarry, LaneScanner
from eventide.lateness.quantiles import KLL_K
from eventide.model import aggregate
from eventide.model.event import LaneId
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.time import MIN_TIME
from eventide.model.watermark import Bounded
from eventide.model.window import Sliding, Window
from eventide.tuning.curve import ALWAYS
from eventide.tuning.gaps import Gaps

END, WINDOWS, NUMBER, STEP, SEGMENT = "__end", "__windows", "__number", "__step", "__segment"


@dataclass(frozen=True)
class Question:
    """What is asked of history: windows, the grid of bounds, and when each source's lanes fall idle."""

    window: Window
    resolution: int
    idle_after: tuple[int | None, ...] = (None,)
    """For each source."""
    max_ahead: tuple[int | None, ...] = ()

    def shape(self) -> BoundPlan:
        """A plan whose thresholds are the grid: the kernel then says every step that a verdict on the grid can see."""
        sources = tuple(SourcePlan(Bounded(0), (), idle) for idle in self.idle_after)
        grid = Sliding(self.resolution, self.resolution)
        return BoundPlan(Plan(sources, grid, (("n", aggregate.count()),), (OutputPlan("curve"),)), max_ahead=self.max_ahead)


@dataclass
class LaneFacts:
    """What a lane says of itself, without the others."""

    lane: LaneId
    rows: int = 0
    dead: int = 0
    always: int = 0
    """Pairs of row and window that are on time under every bound."""
    own: Counter[int] = field(default_factory=Counter)
    """The bound that each row would need if its lane were alone."""
    ends: set[int] = field(default_factory=set)
    """Ends of the windows that some row reached before its own lane's clock did."""
    gaps: Gaps = field(default_factory=Gaps)
    lateness: bytes = b""
    out_of_order: int = 0
    counts: dict[str, int] = field(default_factory=dict)


class CurveScanner(LaneScanner):
    """The engine's scan of a lane under a bound of zero; rows that are ahead of their lane are only counted."""

    def __init__(self, question: Question, lane: LaneId) -> None:
        super().__init__(question.shape(), lane, LaneCarry())
        self.question = question
        self.facts = LaneFacts(lane, gaps=Gaps(question.idle_after[lane[0]]))
        self.behind: list[pl.DataFrame] = []
        self.joined: list[pl.DataFrame] = []
        self._sketch = ds.kll_doubles_sketch(KLL_K)
        self._step = 0
        self._joinings_seen: list[tuple[int, int] | None] = []
        self._last_arrival: int | None = None

    def _sort_out(self, rows: pl.DataFrame) -> None:
        self._measure(rows)
        segments = self._segments(rows)
        data = rows.with_columns(self._steps(rows), segments).filter(pl.col(DEAD).is_null() & ~pl.col(MARKER))
        if data.is_empty():
            return
        end, windows = self._windows()
        grid = self.question.resolution
        data = data.with_columns(end.alias(END), windows.alias(WINDOWS), (pl.col("__before") // grid * grid).alias("__top"))
        is_behind = (pl.col("__before") != MIN_TIME) & (pl.col(END) <= pl.col("__top"))
        self.facts.rows += len(data)
        ahead, behind = data.filter(~is_behind), data.filter(is_behind)
        self._count_ahead(ahead)
        if len(behind):
            own = behind.group_by((pl.col("__top") - pl.col(END)).alias("need")).len()
            self.facts.own.update(dict(own.iter_rows()))
            self.behind.append(
                behind.group_by(ARRIVAL, STEP, END, WINDOWS)
                .agg(pl.len().cast(pl.Int64).alias(NUMBER), pl.col(OFFSET).min())
                .select(list(GROUP))
            )

    def _measure(self, rows: pl.DataFrame) -> None:
        live = rows.filter(pl.col(DEAD).is_null() & ~pl.col(MARKER))
        if len(live):
            self._sketch.update((live[ARRIVAL] - live[TIME]).to_numpy().astype(np.float64))
        arrivals = rows[ARRIVAL].to_numpy()
        before = arrivals[:1] if self._last_arrival is None else np.array([self._last_arrival])
        self.facts.gaps.see(np.diff(np.concatenate([before, arrivals])))
        self._last_arrival = int(arrivals[-1])

    def _steps(self, rows: pl.DataFrame) -> pl.Series:
        """A number that rises where the lane's own clock crosses the grid, so that rows between may be counted together."""
        grid = self.question.resolution
        moved = (rows["__before"] // grid) != (rows["__before"].shift(1, fill_value=rows["__before"][0]) // grid)
        steps = moved.fill_null(False).cast(pl.Int64).cum_sum() + self._step + 1
        self._step = int(steps[-1])
        return steps.alias(STEP)

    def _windows(self) -> tuple[pl.Expr, pl.Expr]:
        window = self.question.window
        if isinstance(window, Sliding):
            spans = (last_end(pl.col(TIME), window) - first_end(pl.col(TIME), window)) // window.slide + 1
            return first_end(pl.col(TIME), window), spans
        grid = self.question.resolution
        # A session may end later than its row alone says; one step of the grid below, the need is never understated.
        return (pl.col(TIME) + window.gap) // grid * grid - grid, pl.lit(1, dtype=pl.Int64)

    def _count_ahead(self, ahead: pl.DataFrame) -> None:
        if ahead.is_empty():
            return
        self.facts.own[ALWAYS] += len(ahead)
        counted = ahead.group_by(SEGMENT, END, WINDOWS).agg(pl.len().cast(pl.Int64).alias(NUMBER))
        for (segment,), ends in counted.partition_by(SEGMENT, as_dict=True).items():
            joining = self._joinings_seen[int(segment)]
            if joining is None:
                self.facts.always += int((ends[WINDOWS] * ends[NUMBER]).sum())
                self.facts.ends.update(ends[END].to_list())
            else:
                # W may have gone past while the lane was away: these wait, by window, for W as the lane found it.
                self.joined.append(
                    ends.select(
                        pl.lit(joining[0], dtype=pl.Int64).alias(ARRIVAL),
                        pl.lit(0, dtype=pl.Int64).alias(STEP),
                        END,
                        WINDOWS,
                        NUMBER,
                        pl.lit(joining[1], dtype=pl.Int64).alias(OFFSET),
                    )
                )

    def _segments(self, rows: pl.DataFrame) -> pl.Series:
        """Which joining each row came after; a lane that all wait for joins under an undefined W, so its first is no question."""
        segments = (rows["__joins"].cast(pl.Int64).cum_sum() + len(self._joinings_seen) - 1).alias(SEGMENT)
        for arrival, offset in rows.filter("__joins").select(ARRIVAL, OFFSET).iter_rows():
            awaited = not self._joinings_seen and self.source.idle_after is None
            self._joinings_seen.append(None if awaited else (arrival, offset))
        return segments

    def take(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """What has gathered so far: the rows behind their lane, and those counted since a joining."""
        behind, joined = _stack(self.behind), _stack(self.joined)
        self.behind, self.joined = [], []
        return behind, joined

    def close(self) -> tuple[LaneFacts, pl.DataFrame]:
        """The lane's facts, and its clock's steps."""
        found = self.finish()
        self.facts.counts = dict(found.counts)
        self.facts.dead = found.counts.get("dead", 0)
        self.facts.out_of_order = found.counts.get("late_at_source", 0)
        self.facts.lateness = bytes(self._sketch.serialize())
        steps = pl.DataFrame(
            [(p.position[0], p.position[3], p.watermark, p.active_until, p.joins) for p in found.progress],
            schema={"arrival": pl.Int64, "offset": pl.Int64, "top": pl.Int64, "until": pl.Int64, "joins": pl.Boolean},
            orient="row",
        )
        return self.facts, steps


GROUP = (ARRIVAL, STEP, END, WINDOWS, NUMBER, OFFSET)


def _stack(frames: list[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(frames) if frames else pl.DataFrame(schema=dict.fromkeys(GROUP, pl.Int64))
