"""The settling of a stage on a worker, for one bucket of its keys: changes of the results below are taken in, and what is due fires."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from eventide.engine.batch.bucket_task import COMPACT_ABOVE, Batch, BucketAccount, Settling
from eventide.engine.batch.conservation import check_merge
from eventide.kernel import judge
from eventide.kernel.bound_plan import Above
from eventide.kernel.columns import OP, ORDER, SEEN, SLICE, TIME, UNSEEN
from eventide.kernel.fire import Firing
from eventide.kernel.handing import class_of, no_changes
from eventide.kernel.stage import StageFiring, compacted, withdrawals
from eventide.model.pane import RETRACT
from eventide.model.plan import OutputPlan
from eventide.state.store import Part, PartKind, Store

_SCRATCH = (SLICE, SEEN, "__first_end", "__last_end")


class StageSettling(Settling):
    """One bucket of a stage in one batch."""

    def __init__(self, stage: Above, store: Store, batch: Batch, bucket: int, parts: list[Part]) -> None:
        super().__init__(stage.shape, store, replace(batch, kinds=dict(stage.kinds)), bucket, parts)

    def run(self) -> BucketAccount:
        """Take in what changed below, and fire."""
        standing = self.parts.get(PartKind.STANDING, [])
        new = self._seen(self.store.read(p for p in standing if p.batch == self.batch.number))
        self.account.taken = len(new)
        late = self._by_window(new.filter(pl.col(SEEN) != UNSEEN), pl.lit(0, dtype=pl.Int64))
        self._count(new)
        self._fire(new, late, new)
        return self.account

    def _seen(self, frames: list[pl.DataFrame]) -> pl.DataFrame:
        """Changes with their slice, and W reduced to the last threshold of this stage that it had passed."""
        return judge.seen_by_windows(pl.concat([no_changes(self.batch.kinds), *frames]), self.shape)

    def _by_window(self, rows: pl.DataFrame, order: pl.Expr) -> pl.DataFrame:
        return judge.windows_of(rows.with_columns(order.alias(ORDER)), self.shape)

    def _count(self, new: pl.DataFrame) -> None:
        """What was withdrawn below, for each window here that it concerns."""
        gone = new.filter(pl.col(OP) == RETRACT)
        offered = judge.pairs(gone, self.shape)
        met = judge.windows_of(gone, self.shape)
        for index, output in enumerate(self.shape.plan.outputs):
            self.account.counts[index] = {"withdrawals_offered": offered, **withdrawals(met, output.allowed)}

    def _late_for(self, above: Above, rows: pl.DataFrame) -> pl.DataFrame:
        return self._by_window(rows.filter(pl.col(SEEN) != UNSEEN), class_of(above.chain))

    def _firing(self, output: OutputPlan, said: pl.DataFrame, hands_on: bool) -> Firing:
        return StageFiring(self.shape, output, self.batch.moment, said, self.batch.joined.get(output.name), hands_on)

    def _stored(self, fresh: pl.DataFrame, first: int, last: int) -> pl.DataFrame:
        """Changes by window that anything fired in this batch can need: older ones, and new ones that are on time."""
        low, high = self._slices(first, last)
        older = [p for p in self.parts.get(PartKind.STANDING, []) if p.batch != self.batch.number]
        parts = [p for p in older if p.high >= low and p.low <= high] if low <= high else []
        known = self._seen(self.store.read(parts))
        if len(parts) > COMPACT_ABOVE:
            merged = compacted(known, self.shape.keys).select(known.columns)
            check_merge([known], merged, self.batch.number)
            self._add(PartKind.STANDING, self._needed(merged).drop(_SCRATCH), TIME)
            self.account.dropped += parts
            known = merged
        both = pl.concat([known, fresh.filter(pl.col(SEEN) == UNSEEN)])
        return judge.windows_of(both.filter(pl.col(SLICE).is_between(low, high)), self.shape)
