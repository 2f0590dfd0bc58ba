"""A lane's watermark before and after each row, and what the lane measures of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from eventide.kernel.columns import ARRIVAL, CANDIDATE, DEAD, MARKER, OFFSET, TIME
from eventide.model.event import LaneId
from eventide.model.time import MIN_TIME, show_instant
from eventide.model.watermark import (
    Adaptive,
    AdaptiveState,
    Strategy,
    WatermarkRegression,
    disorder_bucket,
)

if TYPE_CHECKING:
    from eventide.kernel.scan import LaneCarry

BEFORE, AFTER = "__before", "__after"


class LaneClock:
    """Runs a strategy over chunks of a lane; adds the columns `__before` and `__after` (MIN_TIME: undefined)."""

    def __init__(self, strategy: Strategy, carry: LaneCarry, lane: LaneId) -> None:
        self.strategy = strategy
        self.carry = carry
        self.lane = lane
        self.counts: dict[str, int] = {}
        self.before_chunk: int | None = None

    def timed(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows with the times that they are judged by."""
        if not self.strategy.by_arrival:
            return rows
        return rows.with_columns(pl.when(pl.col(DEAD).is_null()).then(pl.col(ARRIVAL)).alias(TIME))

    def run(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Add the lane's watermark as it stood before and after each row."""
        carry = self.carry
        self.before_chunk = None if carry.watermark == MIN_TIME else carry.watermark
        alive = pl.col(DEAD).is_null()
        data = alive & ~pl.col(MARKER) & pl.col(TIME).is_not_null()
        top = pl.when(data).then(pl.col(TIME)).otherwise(MIN_TIME).cum_max()
        rows = rows.with_columns(pl.max_horizontal(top, pl.lit(carry.max_time)).alias("__top"))
        rows = rows.with_columns(pl.col("__top").shift(1, fill_value=carry.max_time).alias("__top_before"))
        candidate = self._candidate(rows, data, alive)
        after = pl.max_horizontal(candidate.cum_max(), pl.lit(carry.watermark)).alias(AFTER)
        rows = rows.with_columns(candidate.alias("__said")).with_columns(after)
        rows = rows.with_columns(pl.col(AFTER).shift(1, fill_value=carry.watermark).alias(BEFORE))
        self._measure(rows, data)
        carry.watermark, carry.max_time = int(rows[AFTER][-1]), int(rows["__top"][-1])
        return rows.drop("__top", "__top_before", "__said")

    def _candidate(self, rows: pl.DataFrame, data: pl.Expr, alive: pl.Expr) -> pl.Expr:
        strategy = self.strategy
        if strategy.says is not None:
            return pl.when(alive).then(pl.col(CANDIDATE)).otherwise(None).fill_null(MIN_TIME)
        if strategy.behind is None:
            assert isinstance(strategy, Adaptive), (
                f"{strategy!r} says no watermark: it has neither an expression nor a distance"
            )
            bounds = self._adapt(rows.with_columns(data.alias("__data")), strategy)
            return pl.when(data).then(pl.col(TIME) - pl.lit(bounds)).otherwise(MIN_TIME)
        floor = MIN_TIME + strategy.behind
        return pl.when(data & (pl.col(TIME) > floor)).then(pl.col(TIME) - strategy.behind).otherwise(MIN_TIME)

    def _adapt(self, rows: pl.DataFrame, strategy: Adaptive) -> pl.Series:
        """The bound in force at each row: re-estimated where a step of arrival time begins, from the rows before it."""
        state = _state(self.carry.adaptive, strategy)
        live = rows["__data"].to_numpy()
        steps = (rows[ARRIVAL] // strategy.step).to_numpy()
        behind = (rows["__top_before"] - rows[TIME].fill_null(0)).to_numpy()
        behind = np.where(rows["__top_before"].to_numpy() == MIN_TIME, 0, np.maximum(behind, 0))
        bounds = np.empty(len(rows), dtype=np.int64)
        edges = np.flatnonzero(np.diff(steps[live])) + 1
        for part in np.split(np.flatnonzero(live), edges):
            if not len(part):
                continue
            state.enter(int(steps[part[0]]), strategy)
            bounds[part] = state.bound
            values, numbers = np.unique(behind[part], return_counts=True)
            for value, number in zip(values.tolist(), numbers.tolist(), strict=True):
                bucket = disorder_bucket(value)
                state.seen[bucket] = state.seen.get(bucket, 0) + number
        bounds[~live] = 0
        self.carry.adaptive = {
            "bound": state.bound,
            "step": state.step,
            "seen": sorted(state.seen.items()),
            "pace": state.pace,
        }
        return pl.Series(bounds)

    def _measure(self, rows: pl.DataFrame, data: pl.Expr) -> None:
        late = data & (pl.col(TIME) < pl.col(BEFORE))
        tardy = data & ~(pl.col(TIME) < pl.col(BEFORE)) & (pl.col(TIME) < pl.col("__top_before"))
        back = (pl.col("__said") != MIN_TIME) & (pl.col("__said") < pl.col(BEFORE))
        checks = [late.sum().alias("late_at_source"), tardy.sum().alias("out_of_order")]
        if self.strategy.says is not None:
            checks.append(back.sum().alias("regressions"))
        for name, number in rows.select(checks).row(0, named=True).items():
            self.counts[name] = self.counts.get(name, 0) + int(number)
        if self.strategy.on_regression == "fail" and self.counts["regressions"]:
            worst = rows.filter(back).row(0, named=True)
            raise WatermarkRegression(
                f"the watermark of lane {self.lane[1]!r} went back from {show_instant(worst[BEFORE])} "
                f"to {show_instant(worst['__said'])} "
                f'at offset {worst[OFFSET]}. Mend the producer, or use on_regression="ignore" to keep the higher value.'
            )


def _state(saved: dict[str, object] | None, strategy: Adaptive) -> AdaptiveState:
    if saved is None:
        return AdaptiveState(strategy.start)
    seen = {int(b): int(n) for b, n in saved["seen"]}  # type: ignore[attr-defined]
    pace = saved.get("pace", strategy.step)  # of a state that did not note it yet
    return AdaptiveState(int(saved["bound"]), saved["step"], seen, pace)  # type: ignore[call-overload, arg-type]
