"""What measuring lateness costs: CPU seconds of the scan with and without it, in alternating pairs, with an interval.

    python benchmarks/measuring.py [--pairs 9] [--rows 2000000]

A scan is what a worker does with a lane's file: read Parquet, decode, run the kernel, write partials (and, when measuring, the
sketches). Pairs alternate so that a slow spell of the machine hits both sides; CPU seconds, not wall time, so that neighbours count less.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import numpy as np
import polars as pl

from eventide.engine.decode import Reading
from eventide.engine.filereading import LandedFile, chunks_of
from eventide.engine.scanning import scan_lane
from eventide.engine.store import Store
from eventide.engine.watch import Watching
from eventide.kernel.columns import Shape
from eventide.kernel.scan import LaneCarry
from eventide.measure.live import LatenessWitness
from eventide.model import aggregate
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.time import MIN_TIME
from eventide.model.watermark import Bounded
from eventide.model.window import Sliding

SECOND = 1_000_000
KINDS = {
    "ts": pl.Datetime("us", "UTC"),
    "at": pl.Datetime("us", "UTC"),
    "bank": pl.Int64(),
    "paise": pl.Int64(),
    "region": pl.String(),
}


def land(rows: int, path: str) -> None:
    rng = np.random.default_rng(1)
    arrival = np.arange(rows, dtype=np.int64) * 1_000
    late = np.where(rng.random(rows) < 0.009, rng.exponential(120 * SECOND, rows), rng.exponential(2 * SECOND, rows)).astype(
        np.int64
    )
    pl.DataFrame(
        {
            "ts": pl.Series((arrival - late), dtype=pl.Int64).cast(pl.Datetime("us", "UTC")),
            "at": pl.Series(arrival, dtype=pl.Int64).cast(pl.Datetime("us", "UTC")),
            "bank": rng.integers(0, 1_000, rows),
            "paise": rng.integers(100, 50_000, rows),
            "region": rng.integers(0, 20, rows).astype(str),
        }
    ).write_parquet(path)


def scan(path: str, measure: tuple[str, ...] | None) -> float:
    plan = Plan(
        (SourcePlan(Bounded(30 * SECOND), ("0",)),), Sliding(60 * SECOND, 60 * SECOND),
        (("total", aggregate.sum("paise")), ("n", aggregate.count())), (OutputPlan("out", 300 * SECOND),),
    )  # fmt: skip
    state = tempfile.mkdtemp(prefix="measuring-")
    store = Store(state)
    watch = None if measure is None else Watching(store, plan.window, ("payments",), None, measure)
    shape = Shape(plan, ("bank",), (), 2, None, watch)
    kinds = {n: k for n, k in KINDS.items() if n != "region" or (measure and "region" in measure)}
    reading = Reading(0, "payments", kinds, "ts", plan.sources[0].strategy, "at")
    start = time.process_time()
    scan_lane(shape, store, 0, (0, "0"), LaneCarry(), MIN_TIME, chunks_of([LandedFile(path, 0, "0")], "parquet", reading, 0))
    spent = time.process_time() - start
    shutil.rmtree(state)
    return spent


class Inside:
    """The CPU seconds spent within the measuring itself: steadier than a difference of two runs on a busy machine."""

    spent = 0.0

    @classmethod
    def watch(cls) -> None:
        for name in ("see", "close"):
            setattr(LatenessWitness, name, cls._timed(getattr(LatenessWitness, name)))

    @classmethod
    def _timed(cls, method: Callable[..., None]) -> Callable[..., None]:
        def timed(*arguments: Any) -> None:
            start = time.process_time()
            method(*arguments)
            cls.spent += time.process_time() - start

        return timed


def interval(shares: list[float], draws: int = 10_000) -> tuple[float, float]:
    """The 95% bootstrap interval of the median."""
    rng = random.Random(0)
    medians = sorted(statistics.median(rng.choices(shares, k=len(shares))) for _ in range(draws))
    return medians[int(0.025 * draws)], medians[int(0.975 * draws)]


def compare(path: str, pairs: int, measure: tuple[str, ...]) -> str:
    scan(path, None), scan(path, measure)
    shares, inside = [], []
    for nth in range(pairs):
        both = {}
        for measured in (True, False) if nth % 2 else (False, True):
            Inside.spent = 0.0
            both[measured] = scan(path, measure if measured else None)
            if measured:
                inside.append(Inside.spent / (both[True] - Inside.spent))
        shares.append(both[True] / both[False] - 1)
    return f"{_shown(shares)} between the pairs; {_shown(inside)} within the measuring itself ({pairs} pairs)"


def _shown(shares: list[float]) -> str:
    low, high = interval(shares)
    return f"{statistics.median(shares):+.1%} (95% interval {low:+.1%} to {high:+.1%})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--rows", type=int, default=2_000_000)
    asked = parser.parse_args()
    Inside.watch()
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/payments.parquet"
        land(asked.rows, path)
        base = scan(path, None)
        print(f"{asked.rows:,} rows, 1,000 keys; the scan alone: {base:.2f} CPU s ({base / asked.rows * 1e9:.0f} ns a row)")
        print(f"measured by source and lane:             {compare(path, asked.pairs, ())}")
        print(f"measured by one column of 20 values too: {compare(path, asked.pairs, ('region',))}")


if __name__ == "__main__":
    main()
