"""What one aggregation takes of a lane's rows: partials of those that need no judging, the others as rows until the sweep has passed them."""

from __future__ import annotations

from collections import Counter

import polars as pl

from eventide.kernel import aggregate, exactsum
from eventide.kernel.bound_plan import BoundPlan
from eventide.kernel.columns import BEHIND, DEAD, MARKER, SEEN, SLICE, TIME, UNSEEN
from eventide.kernel.grid import first_end, last_end, own_end, slice_start
from eventide.model.time import MIN_TIME
from eventide.model.window import Sliding

MERGE_ABOVE = 500_000
"""Partials are merged when this many have gathered, so that memory follows the keys, not the rows."""
_SCRATCH = frozenset({"__after", "__before", "__joins", "__ahead", DEAD, MARKER, "__candidate", "__raw"})


class Share:
    """Takes the rows of one reading of a lane, chunk by chunk."""

    def __init__(self, shape: BoundPlan, told: tuple[BoundPlan, ...]) -> None:
        self.shape, self.told = shape, told
        self.partials: list[pl.DataFrame] = []
        self.rows: list[pl.DataFrame] = []
        self.counts: Counter[str] = Counter()
        self._held = 0

    @property
    def owner(self) -> str:
        """Whose the rows are that it keeps, by name: nobody's alone where duplicates are taken out of them first."""
        return "" if self.shape.deduplicates else self.shape.name

    def take(self, data: pl.DataFrame, joined_w: int | None, joined_known: bool) -> None:
        """The next rows, each with its lane's watermark before it; W when the lane joined, where that is known."""
        window = self.shape.plan.window
        if not isinstance(window, Sliding) or self.shape.keeps_rows or not joined_known:
            self._keep(data)
            return
        end = first_end(pl.col(TIME), window)
        known = MIN_TIME if joined_w is None else joined_w
        ahead = (end > pl.col("__before")) & (end > known)
        data = data.with_columns(ahead.alias("__ahead"))
        sure = data.filter("__ahead") if not data["__ahead"].all() else data
        self._keep(data.filter(~pl.col("__ahead")))
        self.counts.update(ahead=len(sure), ahead_pairs=_pairs(sure, window))
        if len(sure):
            self._aggregate(sure, window)

    def finish(self) -> None:
        """The end of what was read."""
        if len(self.partials) > 1:
            by = [SLICE, *self.shape.keys, SEEN]
            merged = aggregate.merge(pl.concat(self.partials, how="diagonal"), by, self.shape.plan.aggregates)
            self.partials, self._held = [merged], len(merged)

    def _aggregate(self, sure: pl.DataFrame, window: Sliding) -> None:
        self._weigh(sure)
        sliced = sure.with_columns(slice_start(pl.col(TIME), window).alias(SLICE))
        part = aggregate.partial(sliced, [SLICE, *self.shape.keys], self.shape.plan.aggregates)
        self.partials.append(part.with_columns(pl.lit(UNSEEN, dtype=pl.Int64).alias(SEEN)))
        self._held += len(part)
        if self._held > MERGE_ABOVE:
            self.finish()

    def _weigh(self, sure: pl.DataFrame) -> None:
        """The sum of a value column before it is aggregated, to be compared with what was written."""
        weighed = aggregate.weighed(sure, self.shape.plan.aggregates)
        if weighed is not None:
            index, values = weighed
            self.counts[f"value_{index}"] += exactsum.total(values)

    def _keep(self, rows: pl.DataFrame) -> None:
        if rows.is_empty():
            return
        self.counts["kept"] += len(rows)
        if self.told:
            behind = [(own_end(pl.col(TIME), one.plan.window) <= pl.col("__before")).alias(behind_of(one)) for one in self.told]
            self.rows.append(rows.with_columns(behind).drop([c for c in rows.columns if c in _SCRATCH]))


def shares_of(shape: BoundPlan) -> list[Share]:
    """One for each aggregation; rows of which duplicates are taken out first are kept once, and say for each how they stand to it."""
    if not shape.deduplicates:
        return [Share(one, (one,)) for one in shape.every]
    return [Share(shape, shape.every), *(Share(one, ()) for one in shape.beside)]


def behind_of(shape: BoundPlan) -> str:
    """Where a row that is kept for several aggregations says whether its lane had passed its first window in this one.

    >>> from eventide.model.plan import Plan
    >>> minutes = Plan((), Sliding(60, 60), (), (), dedupe_within=5)
    >>> behind_of(BoundPlan(minutes)), behind_of(BoundPlan(minutes, name="1"))
    ('__behind_lane', '__behind_lane_1')
    """
    return f"{BEHIND}_{shape.name}" if shape.name and shape.deduplicates else BEHIND


def _pairs(rows: pl.DataFrame, window: Sliding) -> int:
    """How many pairs of row and window the rows make."""
    if window.size % window.slide == 0:
        return len(rows) * (window.size // window.slide)
    spans = (last_end(pl.col(TIME), window) - first_end(pl.col(TIME), window)) // window.slide + 1
    return int(rows.select(spans.sum()).item() or 0)
