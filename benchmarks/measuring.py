"""What measuring lateness costs: CPU seconds with and without it, in alternating pairs, with an interval.

    python benchmarks/measuring.py [--pairs 9] [--rows 8000000] [--scan-rows 2000000]

First what a user pays: the whole pipeline on Spark over Parquet files, CPU seconds of driver, JVM and workers, on a warm session with a
fresh state each time. Then the scan alone, which is what a worker does with a lane's file: read, decode, run the kernel, write partials
(and, when measuring, the sketches). CPU seconds, not wall time, so that neighbours count less.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import numpy as np
import polars as pl
from processes import cpu, in_pairs, shown

import eventide as ev
from eventide.engine.decode import Reading
from eventide.engine.filereading import LandedFile, chunks_of
from eventide.engine.projection import computed_with, only_measured
from eventide.engine.scanning import scan_lane
from eventide.engine.session import local_session
from eventide.engine.store import Store
from eventide.engine.watch import watch_of
from eventide.kernel.columns import Shape
from eventide.kernel.scan import LaneCarry
from eventide.measure.witness import LatenessWitness
from eventide.model.time import MIN_TIME

SECOND = 1_000_000
LANES = 2
DDL = "ts timestamp, at timestamp, bank bigint, paise bigint, region string"
KINDS = {
    "ts": pl.Datetime("us", "UTC"),
    "at": pl.Datetime("us", "UTC"),
    "bank": pl.Int64(),
    "paise": pl.Int64(),
    "region": pl.String(),
}
CASES: tuple[tuple[str, Any], ...] = (("by source and lane", True), ("by a column of 20 values too", ["region"]))


def land(rows: int, root: str) -> None:
    """Lanes of one file each, a row every millisecond, 0.9% of them long delayed."""
    for lane in range(LANES):
        rng = np.random.default_rng(lane)
        number = rows // LANES
        arrival = np.arange(number, dtype=np.int64) * 1_000
        late = np.where(
            rng.random(number) < 0.009, rng.exponential(120 * SECOND, number), rng.exponential(2 * SECOND, number)
        ).astype(np.int64)
        os.makedirs(f"{root}/{lane}")
        pl.DataFrame(
            {
                "ts": pl.Series(arrival - late, dtype=pl.Int64).cast(pl.Datetime("us", "UTC")),
                "at": pl.Series(arrival, dtype=pl.Int64).cast(pl.Datetime("us", "UTC")),
                "bank": rng.integers(0, 1_000, number),
                "paise": rng.integers(100, 50_000, number),
                "region": rng.integers(0, 20, number).astype(str),
            }
        ).write_parquet(f"{root}/{lane}/payments.parquet", row_group_size=1_000_000)


def defined(root: str, state: str, measure: Any) -> ev.Pipeline:
    source = ev.files(
        "payments", root, event_time="ts", arrival="at", watermark=ev.bounded("30 s"), lane="directory", schema=DDL
    )
    sums = source.window(ev.tumbling("1 minute"), by="bank").agg(total=ev.sum("paise"), n=ev.count())
    return ev.Pipeline("upi", sums.to("out", late=ev.accumulate("5 minutes")), state=state, measure=measure)


def run(root: str, spark: Any, rows: int, measure: Any) -> float:
    """One run of the whole pipeline."""
    state = tempfile.mkdtemp(prefix="measuring-")
    start = cpu()
    read = defined(root, state, measure).run(spark).rows["in"]
    spent = cpu() - start
    assert read == rows, read
    shutil.rmtree(state)
    return spent


def scan(root: str, measure: Any) -> float:
    """The scan of one lane in this process."""
    state = tempfile.mkdtemp(prefix="measuring-")
    store, pipeline = Store(state), defined(root, state, measure)
    source = pipeline.aggregation.stream.sources[0]
    plan = replace(pipeline.plan(), sources=(replace(pipeline.plan().sources[0], lanes=("0", "1")),))
    shape = Shape(plan, ("bank",), (), 2, (), watch_of(pipeline, store, 0), computed_with(pipeline))
    kinds = {n: k for n, k in KINDS.items() if n != "region" or n in (pipeline.measure or ())}
    reading = Reading(0, "payments", kinds, "ts", source.watermark, "at", coded=only_measured(pipeline, source))
    files = [LandedFile(f"{root}/0/payments.parquet", 0, "0")]
    start = time.process_time()
    scan_lane(shape, store, 0, (0, "0"), LaneCarry(), MIN_TIME, chunks_of(files, "parquet", reading, 0))
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

    @classmethod
    def share(cls, root: str, measure: Any) -> float:
        cls.spent = 0.0
        whole = scan(root, measure)
        return cls.spent / (whole - cls.spent)


def compare(name: str, measured: Callable[[Any], float], measure: Any, pairs: int, warm: int) -> None:
    for _ in range(warm):
        measured(False), measured(measure)
    found = in_pairs(partial(measured, False), partial(measured, measure), pairs)
    without = sorted(spent for spent, _ in found)[pairs // 2]
    print(f"  {name:<29} {shown([b / a - 1 for a, b in found])} of {without:.2f} CPU s, {pairs} pairs", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--scan-rows", type=int, default=2_000_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        if asked.rows:
            land(asked.rows, f"{directory}/whole")
            spark = local_session(name="measuring")
            print(f"the whole pipeline on Spark, {asked.rows:,} rows, 1,000 keys", flush=True)
            for name, measure in CASES:
                compare(name, partial(run, f"{directory}/whole", spark, asked.rows), measure, asked.pairs, 3)
            spark.stop()
        land(asked.scan_rows * LANES, f"{directory}/scan")
        print(f"the scan alone, {asked.scan_rows:,} rows", flush=True)
        for name, measure in CASES:
            compare(name, partial(scan, f"{directory}/scan"), measure, asked.pairs, 1)
        Inside.watch()
        for name, measure in CASES:
            shares = [Inside.share(f"{directory}/scan", measure) for _ in range(asked.pairs)]
            print(f"  {name:<29} {shown(shares)} timed within the measuring", flush=True)


if __name__ == "__main__":
    main()
