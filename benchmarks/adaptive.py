"""An adaptive watermark against fixed bounds, on delays that drift through the day and burst.

    python benchmarks/adaptive.py

One lane, 20 events a second for six hours, 10-second windows. The mean delay drifts between 1 and 12 seconds over two hours;
three bursts of five minutes multiply it by four. Completeness is the share of rows on time for their window; emit latency is how far
the newest event time had gone past a window's end when it closed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from eventide.kernel.clock import LaneClock
from eventide.kernel.columns import ARRIVAL, CANDIDATE, DEAD, MARKER, OFFSET, TIME
from eventide.kernel.grid import first_end
from eventide.kernel.scan import LaneCarry
from eventide.model.time import MIN_TIME
from eventide.model.watermark import Strategy, adaptive, bounded
from eventide.model.window import Sliding

SECOND = 1_000_000
WINDOW = Sliding(10 * SECOND, 10 * SECOND)
BURSTS = (5_000, 11_000, 17_500)


def drifting(seed: int = 1, hours: float = 6, per_second: int = 20) -> pl.DataFrame:
    """Rows in order of arrival."""
    rng = np.random.default_rng(seed)
    happened = np.arange(int(hours * 3_600 * per_second)) / per_second
    mean = 6.5 + 5.5 * np.sin(2 * np.pi * happened / 7_200)
    for start in BURSTS:
        mean = np.where((happened >= start) & (happened < start + 300), mean * 4, mean)
    arrived = happened + rng.exponential(1.0, len(happened)) * mean
    order = np.argsort(arrived, kind="stable")
    return pl.DataFrame(
        {ARRIVAL: (arrived[order] * SECOND).astype(np.int64), TIME: (happened[order] * SECOND).astype(np.int64)}
    ).with_columns(
        pl.int_range(pl.len(), dtype=pl.Int64).alias(OFFSET), pl.lit(None, dtype=pl.Int64).alias(CANDIDATE),
        pl.lit(None, dtype=pl.String).alias(DEAD), pl.lit(False).alias(MARKER),
    )  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What a strategy made of a stream."""

    completeness: float
    latency: float
    """Seconds, on average."""
    worst_hour: float
    """The completeness of the hour that lost most."""


def judge(strategy: Strategy, rows: pl.DataFrame) -> Outcome:
    """Run a lane's clock over the rows, and judge each by the watermark before it."""
    run = LaneClock(strategy, LaneCarry(), (0, "0")).run(rows)
    run = run.with_columns(first_end(pl.col(TIME), WINDOW).alias("end"), pl.col(TIME).cum_max().alias("newest"))
    on_time = (pl.col("__before") == MIN_TIME) | (pl.col("end") > pl.col("__before"))
    run = run.with_columns(on_time.alias("on_time"))
    hours = run.group_by(pl.col(TIME) // (3_600 * SECOND)).agg(pl.col("on_time").mean())
    ends = np.unique(run.filter("on_time")["end"].to_numpy())
    at = np.searchsorted(run["__after"].to_numpy(), ends, side="left")
    closed = at < len(run)
    latency = (run["newest"].to_numpy()[at[closed]] - ends[closed]).mean() / SECOND
    return Outcome(float(run["on_time"].mean()), float(latency), float(hours["on_time"].min()))  # type: ignore[arg-type]


def fixed_like(rows: pl.DataFrame, wanted: Outcome, *, by: str) -> tuple[int, Outcome]:
    """The fixed bound that reaches the same completeness, or keeps the same latency."""
    chosen = (0, judge(bounded("0 s"), rows))
    for seconds in range(1, 121):
        outcome = judge(bounded(f"{seconds} s"), rows)
        if by == "completeness":
            chosen = (seconds, outcome)
            if outcome.completeness >= wanted.completeness:
                break
        elif outcome.latency <= wanted.latency:
            chosen = (seconds, outcome)
        else:
            break
    return chosen


def main() -> None:
    rows = drifting()
    print(f"{len(rows):,} rows, 10-second windows\n{'':34} on time   worst hour   emit latency")
    for share in (0.9, 0.95, 0.99):
        strategy = adaptive(share, ceiling="3 minutes", step="30 s", start="10 s")
        ours = judge(strategy, rows)
        print(f"{f'adaptive({share})':34} {ours.completeness:7.3%}   {ours.worst_hour:9.3%}   {ours.latency:9.2f} s")
        seconds, same = fixed_like(rows, ours, by="completeness")
        print(
            f"{f'  fixed {seconds} s, as complete':34} {same.completeness:7.3%}   {same.worst_hour:9.3%}   {same.latency:9.2f} s  ({same.latency / ours.latency - 1:+.0%} latency)"
        )
        seconds, same = fixed_like(rows, ours, by="latency")
        lost = (1 - same.completeness) / (1 - ours.completeness)
        print(
            f"{f'  fixed {seconds} s, as fast':34} {same.completeness:7.3%}   {same.worst_hour:9.3%}   {same.latency:9.2f} s  ({lost:.1f} times the rows lost)"
        )


if __name__ == "__main__":
    main()
