"""Panes of a stage: windows over what stands of the results below, which are corrected and withdrawn.

A change of a result carries W as it was when it came, as a partial of rows does: a window ending at b, under lateness A, sees the last change
of each result with W < b + A. So one result may stand with different values in different windows.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from eventide.kernel import aggregate
from eventide.kernel.columns import COVERED, END, OP, ORDER, ROWS, SEEN, SEQUENCE
from eventide.kernel.fire import Firing
from eventide.kernel.handing import IDENTITY
from eventide.kernel.view import THERE, filters
from eventide.model.pane import INSERT, RETRACT

STANDS = "__stands"
"""Whether anything is left of which a window's result is made."""


class StageFiring(Firing):
    """One output's panes of one batch, for one bucket of a stage's keys; "partials" are changes, by window."""

    def _in_turn(self, base: pl.DataFrame, fresh: pl.DataFrame) -> Iterator[pl.DataFrame]:
        """Changes do not add up: each is taken by itself."""
        for change in fresh.sort(ORDER).partition_by(ORDER, maintain_order=True):
            base = pl.concat([base, change.drop(ORDER)], how="diagonal_relaxed")
            now = base.join(change.select(self.by).unique(), on=self.by, how="semi", nulls_equal=True)
            yield self._merged(now).with_columns(pl.lit(int(change[ORDER][0]), dtype=pl.Int64).alias(ORDER))

    def _merged(self, partials: pl.DataFrame) -> pl.DataFrame:
        """The parts of what stands; windows in which nothing stands are among them, and rows count changes."""
        last = last_changes(partials, self.by).filter(pl.col(OP) == INSERT)
        parts = aggregate.partial(last, self.by, self.shape.plan.aggregates).drop(ROWS)
        known = partials.group_by(self.by).agg(pl.col(ROWS).sum())
        both = known.join(parts.with_columns(pl.lit(True).alias(STANDS)), on=self.by, how="left", nulls_equal=True)
        return both.with_columns(pl.col(STANDS).fill_null(False))

    def _finished(self, merged: pl.DataFrame) -> pl.DataFrame:
        done = super()._finished(merged.filter(STANDS).drop(STANDS)).drop(COVERED, ORDER, strict=False)
        order = [ORDER] if ORDER in merged.columns else []
        known = merged.select(*self.by, *order, pl.col(ROWS).alias(COVERED), STANDS)
        return known.join(done, on=self.by, how="left", nulls_equal=True, maintain_order="left")

    def _shown(self, finished: pl.DataFrame) -> pl.DataFrame:
        shown = super()._shown(finished)
        there = pl.col(STANDS) & pl.col(THERE) if filters(self.output.view) else pl.col(STANDS)
        return shown.with_columns(there.alias(THERE)).drop(STANDS)


def last_changes(changes: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """What became of each result last, for each of a window's keys: a withdrawal comes after the insert of the same sequence."""
    ranked = changes.sort(SEQUENCE, pl.col(OP) == RETRACT)
    return ranked.unique([*by, *IDENTITY], keep="last", maintain_order=True)


def compacted(changes: pl.DataFrame, keys: tuple[str, ...]) -> pl.DataFrame:
    """Changes, with what W had passed, without those that no window can tell from the next one of the same result."""
    by = [SEEN, *keys]
    counted = changes.group_by([*by, *IDENTITY]).agg(pl.col(ROWS).sum())
    last = last_changes(changes, by).drop(ROWS)
    return last.join(counted, on=[*by, *IDENTITY], how="left", nulls_equal=True)


def withdrawals(changes: pl.DataFrame, allowed: int) -> dict[str, int]:
    """Of results that left, by window of the stage: how many were offered, applied and refused."""
    gone = changes.filter(pl.col(OP) == RETRACT)
    applied = gone.select((pl.col(SEEN) - allowed < pl.col(END)).sum()).item()
    refused = gone.select((pl.col(SEEN) - allowed >= pl.col(END)).sum()).item()
    return {"withdrawals_applied": int(applied), "withdrawals_refused": int(refused)}
