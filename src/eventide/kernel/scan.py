"""One lane, one pass, in order: the rows sorted out for each aggregation, and the lane's progress."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from eventide.kernel.bound_plan import BoundPlan
from eventide.kernel.clock import LaneClock
from eventide.kernel.columns import ARRIVAL, DEAD, LANE, MARKER, OFFSET, SOURCE, TIME, UNSEEN
from eventide.kernel.grid import last_threshold
from eventide.kernel.keys import one_of_equals
from eventide.kernel.resolution import CLOCK
from eventide.kernel.share import Share, shares_of
from eventide.kernel.sides import side_shares
from eventide.kernel.ways import ahead_ways
from eventide.model.event import LaneId, Position, least_arrival
from eventide.model.lane import Progress
from eventide.model.time import EARLIEST, LATEST, MAX_TIME, MIN_TIME, plus
from eventide.model.window import Session

if TYPE_CHECKING:
    from eventide.kernel.bound_plan import Witness


@dataclass
class LaneCarry:
    """What a lane carries from one reading to the next; `joined_w` is W just before the lane last joined, once swept."""

    watermark: int = MIN_TIME
    max_time: int = MIN_TIME
    last_arrival: int | None = None
    last_offset: int = -1
    joined: Position | None = None
    joined_w: int | None = None
    joined_known: bool = False
    adaptive: dict[str, object] | None = None
    first_time: int | None = None
    """The event time of the first row that was read of the lane, where it is no dead letter."""
    idle: bool = False
    """Whether the sweep has left the lane idle: its next row joins."""


@dataclass(frozen=True)
class Arrivals:
    """Within what the arrivals of a lane must lie: after all that was swept, and not far after the batch's clock."""

    least: int = MIN_TIME
    clock: int = MAX_TIME

    @classmethod
    def of(cls, lane: LaneId, swept: Position | None, clock: int) -> Arrivals:
        """For a lane in a batch that goes on from what was swept, at a clock."""
        return cls(least_arrival(swept, lane), clock)


@dataclass
class Found:
    """What one reading of a lane gave."""

    shares: list[Share] = field(default_factory=list)
    """What each aggregation takes of it."""
    dead: list[pl.DataFrame] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    witnessed: list[str] = field(default_factory=list)
    clocks: list[pl.DataFrame] = field(default_factory=list)
    """The lane's watermark wherever it changed, and at the end of what was read."""

    def count(self, name: str, number: int) -> None:
        """Add to a counter."""
        if number:
            self.counts[name] = self.counts.get(name, 0) + number


class LaneScanner:
    """Reads a lane's chunks in order."""

    def __init__(
        self, shape: BoundPlan, lane: LaneId, carry: LaneCarry, arrivals: Arrivals | None = None, witness: Witness | None = None
    ) -> None:
        self.shape = shape
        self.lane = lane
        self.carry = carry
        self.source = shape.plan.sources[lane[0]]
        self.clock = LaneClock(self.source.strategy, carry, lane)
        self.arrivals = arrivals or Arrivals()
        self.witness = witness
        self.found = Found(shares_of(shape) if shape.join is None else side_shares(shape, shape.join, lane))
        self._first = True

    def read(self, chunk: pl.DataFrame) -> None:
        """Take the next rows of the lane; they carry arrival, offset, event time, candidate, marker and dead."""
        if chunk.is_empty():
            return
        rows = self.clock.timed(self._arrivals(chunk))
        rows = self._dead_letters(rows)
        rows = self.clock.run(rows)
        self._begin(rows)
        rows = self._joinings(rows)
        if self.witness is not None:
            self.witness.see(rows)
        rows = one_of_equals(self._needed(rows), self.shape.told_apart_by)
        self._progress(rows)
        self._clock(rows)
        self._sort_out(rows)
        last = rows.tail(1)
        self.carry.last_arrival, self.carry.last_offset = int(last[ARRIVAL][0]), int(last[OFFSET][0])
        self._first, self.carry.idle = False, False

    def _begin(self, rows: pl.DataFrame) -> None:
        if self.carry.first_time is None:
            times = rows.filter(pl.col(DEAD).is_null() & ~pl.col(MARKER)).head(1)[TIME]
            self.carry.first_time = int(times[0]) if len(times) else None

    def _needed(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Without the columns that were only decoded, written down or measured: to carry them on costs more than all that."""
        needed = self.shape.needed
        return rows if needed is None else rows.select([c for c in rows.columns if c.startswith("__") or c in needed])

    def finish(self) -> Found:
        """The end of what was read: the lane's run of arrivals ends here, as far as anyone knows."""
        if not self._first and self.carry.last_arrival is not None:
            self.found.progress.append(
                self._progress_at(self.carry.last_arrival, self.carry.last_offset, self.carry.last_arrival)
            )
            if self.shape.keeps_clocks:
                self.found.clocks.append(self._clock_at_end())
        if self.witness is not None:
            self.found.witnessed = self.witness.close()
        for share in self.found.shares:
            share.finish()
            # A sum may be 0, and is compared all the same.
            told = {share.shape.counter(n): number for n, number in share.counts.items() if number or n.startswith("value_")}
            self.found.counts.update(told)
            self.found.counts.update(ahead_ways(share.partials, share.shape))
        for name, number in self.clock.counts.items():
            self.found.count(name, number)
        return self.found

    def _arrivals(self, chunk: pl.DataFrame) -> pl.DataFrame:
        """Within a lane arrivals never go back, nor behind what was swept: such rows are raised, and counted.

        Before that one that lies far after the batch's clock is lowered to it, and counted: a producer whose clock is wrong would
        otherwise hold back all that comes after it, until that time has come.
        """
        chunk = self._beside(self._lowered(chunk))
        before = MIN_TIME if self.carry.last_arrival is None else self.carry.last_arrival
        in_order = pl.max_horizontal(pl.col(ARRIVAL).cum_max(), pl.lit(before, dtype=pl.Int64))
        raised = pl.max_horizontal(in_order, pl.lit(self.arrivals.least, dtype=pl.Int64)).alias(ARRIVAL)
        rows = chunk.with_columns(pl.lit(self.lane[0], dtype=pl.Int64).alias(SOURCE), pl.lit(self.lane[1]).alias(LANE), raised)
        self.found.count("in", len(rows))
        self.found.count("raised", int(chunk.select((in_order < self.arrivals.least).sum()).item()))
        return rows

    def _lowered(self, chunk: pl.DataFrame) -> pl.DataFrame:
        skew = self.shape.max_skew[self.lane[0]] if self.shape.max_skew else None
        latest = MAX_TIME if skew is None else plus(self.arrivals.clock, skew)
        top = chunk[ARRIVAL].max()
        if not isinstance(top, int) or top <= latest:
            return chunk
        far = pl.col(ARRIVAL) > latest
        self.found.count("lowered", int(chunk.select(far.sum()).item()))
        return chunk.with_columns(pl.when(far).then(self.arrivals.clock).otherwise(pl.col(ARRIVAL)).alias(ARRIVAL))

    def _beside(self, chunk: pl.DataFrame) -> pl.DataFrame:
        """A row that does not say when it arrived stands beside the one before it; at the start of a lane, beside the one after it."""
        if not chunk[ARRIVAL].null_count():
            return chunk
        known, last = pl.col(ARRIVAL).forward_fill(), self.carry.last_arrival
        known = known.backward_fill().fill_null(self.arrivals.clock) if last is None else known.fill_null(last)
        return chunk.with_columns(known.alias(ARRIVAL))

    def _dead_letters(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Null and absurd event times join the rows that decoding gave up on; they count as activity and nothing else."""
        reason = (
            pl.when(pl.col(DEAD).is_not_null())
            .then(pl.col(DEAD))
            .when(pl.col(MARKER))
            .then(pl.lit(None, dtype=pl.String))
            .when(pl.col(TIME).is_null())
            .then(pl.lit("the event time is null"))
            .when(~pl.col(TIME).is_between(EARLIEST, LATEST, closed="left"))
            .then(pl.lit("the event time is not between the years 1000 and 8999"))
        )
        most = self.shape.max_ahead[self.lane[0]] if self.shape.max_ahead else None
        if most is not None:
            absurd = (pl.col(TIME) > pl.col(ARRIVAL)) & (pl.col(TIME) - most > pl.col(ARRIVAL))
            reason = reason.when(absurd).then(pl.lit("the event time lies too far after the arrival"))
        rows = rows.with_columns(reason.otherwise(None).alias(DEAD))
        if rows[DEAD].null_count() < len(rows):
            dead = rows.filter(pl.col(DEAD).is_not_null())
            self.found.dead.append(dead)
            self.found.count("dead", len(dead))
        return rows

    def _joinings(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Where the lane joins the minimum: its first row ever, the first after it was left idle, and after a gap longer than idle_after."""
        last = None if self.carry.idle else self.carry.last_arrival
        previous = pl.col(ARRIVAL).shift(1, fill_value=pl.lit(last, dtype=pl.Int64))
        joins = previous.is_null()
        if self.source.idle_after is not None:
            joins = joins | (pl.col(ARRIVAL) - previous > self.source.idle_after)
        return rows.with_columns(joins.fill_null(True).alias("__joins"))

    def _progress(self, rows: pl.DataFrame) -> None:
        crosses = pl.any_horizontal([_crosses(one, self.shape.sweeps_all) for one in self.shape.nodes])
        said = rows.with_row_index("__index").with_columns(
            pl.col("__joins").shift(-1).fill_null(False).alias("__before_gap"),
            (pl.col("__joins") | crosses | ((pl.col("__index") == 0) & pl.lit(self._first))).alias("__says"),
        )
        gone = said.filter(pl.col("__joins") & (pl.col("__index") == 0)) if not self._first else said.head(0)
        if len(gone) and self.carry.last_arrival is not None:
            self.found.progress.append(self._ending())
        columns = [ARRIVAL, OFFSET, "__after", "__joins", "__says", "__before_gap"]
        for arrival, offset, after, joins, says, before_gap in (
            said.filter(pl.col("__says") | pl.col("__before_gap")).select(columns).iter_rows()
        ):
            watermark = None if after == MIN_TIME else after
            position = (arrival, self.lane[0], self.lane[1], offset)
            if says:
                self.found.progress.append(Progress(position, watermark, MAX_TIME, joins))
            if before_gap:
                self.found.progress.append(Progress(position, watermark, arrival))

    def _clock(self, rows: pl.DataFrame) -> None:
        if self.shape.keeps_clocks:
            changes = rows.filter(pl.col("__after") != pl.col("__before"))
            self.found.clocks.append(changes.select(ARRIVAL, OFFSET, pl.col("__after").alias(CLOCK)))

    def _clock_at_end(self) -> pl.DataFrame:
        """So that what was read is kept until the sweep has come to its end, from where on the sweep itself knows the lane's watermark."""
        clock = UNSEEN if self.carry.watermark == MIN_TIME else self.carry.watermark
        end = {ARRIVAL: [self.carry.last_arrival], OFFSET: [self.carry.last_offset], CLOCK: [clock]}
        return pl.DataFrame(end, schema=dict.fromkeys(end, pl.Int64))

    def _ending(self) -> Progress:
        assert self.carry.last_arrival is not None
        position = (self.carry.last_arrival, self.lane[0], self.lane[1], self.carry.last_offset)
        return Progress(position, self.clock.before_chunk, self.carry.last_arrival)

    def _progress_at(self, arrival: int, offset: int, until: int) -> Progress:
        watermark = None if self.carry.watermark == MIN_TIME else self.carry.watermark
        return Progress((arrival, self.lane[0], self.lane[1], offset), watermark, until)

    def _sort_out(self, rows: pl.DataFrame) -> None:
        """Every aggregation takes its share of the rows that can be read."""
        self._remember_joining(rows)
        self.found.count("markers", int((rows[MARKER] & rows[DEAD].is_null()).sum()))
        data = rows.filter(pl.col(DEAD).is_null() & ~pl.col(MARKER))
        if data.is_empty():
            return
        for share in self.found.shares:
            share.take(data, self.carry.joined_w, self.carry.joined_known)

    def _remember_joining(self, rows: pl.DataFrame) -> None:
        if not rows["__joins"].any():
            return
        arrival, offset = rows.filter("__joins").select(ARRIVAL, OFFSET).row(-1)
        self.carry.joined = (arrival, self.lane[0], self.lane[1], offset)
        # A lane that all wait for joins under an undefined W; for any other only the sweep can tell.
        unheard = self.carry.last_arrival is None and not self.carry.idle
        awaited = unheard and self.source.idle_after is None and self.lane[1] in self.source.lanes
        self.carry.joined_w, self.carry.joined_known = None, awaited


def _crosses(shape: BoundPlan, every_change: bool) -> pl.Expr:
    """Where a lane's watermark passes something that a verdict can ask for."""
    window, allowances = shape.plan.window, shape.plan.allowances
    before, after = pl.col("__before"), pl.col("__after")
    if every_change:
        return after != before
    begins = (before == MIN_TIME) & (after != MIN_TIME)
    if isinstance(window, Session):  # rows that need more are told by the lane's clock
        return begins
    passes = last_threshold(after, window, allowances) != last_threshold(before, window, allowances)
    return passes | begins
