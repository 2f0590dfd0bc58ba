"""`eventide tune` over many rows: seconds, and the peak memory of the driver, its JVM and all workers together.

    python benchmarks/tuning.py --rows 1000000 10000000 100000000 [--of archive|landed]

Four lanes of one-minute windows; delays are exponential with 0.9% long ones. The history lies in a pipeline's archive, in the layout
that the engine gives it, or in landed files. The JVM has 1 GB of heap.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("PYSPARK_SUBMIT_ARGS", "--driver-memory 1g pyspark-shell")

import numpy as np
import polars as pl
from processes import Memory

import eventide as ev
from eventide.engine.spark_session import local_session
from eventide.kernel.columns import ARRIVAL, DEAD, LANE, OFFSET, TIME
from eventide.model.time import show_duration
from eventide.state.archive import ArchiveWriter
from eventide.state.journal import Journal
from eventide.state.ledger import Ledger
from eventide.state.records import record_files
from eventide.tuning.tune import tune

SECOND = 1_000_000
PER_FILE = 1_000_000


def arrivals(rows: int, lane: int) -> Iterator[tuple[int, pl.DataFrame]]:
    """A lane's rows in order of arrival, a million at a time, each time with the number of those before."""
    rng = np.random.default_rng(lane)
    for start in range(0, rows, PER_FILE):
        number = min(PER_FILE, rows - start)
        arrival = (start + np.arange(number, dtype=np.int64)) * 2_000 + lane
        late = np.where(rng.random(number) < 0.009, rng.exponential(90 * SECOND, number), rng.exponential(3 * SECOND, number))
        times = {"ts": arrival - late.astype(np.int64), "at": arrival}
        yield start, pl.DataFrame(times).select(pl.all().cast(pl.Datetime("us", "UTC")))


def land(rows: int, lanes: int, root: Path) -> ev.Pipeline:
    """Each lane a directory, each file a million rows."""
    for lane in range(lanes):
        place = root / f"lane-{lane}"
        place.mkdir(parents=True)
        for nth, (_, frame) in enumerate(arrivals(rows // lanes, lane)):
            file = place / f"{nth:06d}.parquet"
            frame.write_parquet(file, compression="lz4")
            os.utime(file, (1_700_000_000 + nth, 1_700_000_000 + nth))
    return defined(root)


def archive(rows: int, lanes: int, root: Path) -> ev.Pipeline:
    """The same rows as a run would have archived them, in batches of a million rows a lane, and the journal that says so."""
    pipeline = defined(root / "none", state=root / "state", archive=root / "archive")
    batches = 0
    for lane in range(lanes):
        for batch, (start, frame) in enumerate(arrivals(rows // lanes, lane)):
            placed = frame.select(
                "ts", "at", pl.col("at").dt.epoch("us").alias(ARRIVAL), pl.int_range(start, start + len(frame), dtype=pl.Int64).alias(OFFSET),
                pl.col("ts").dt.epoch("us").alias(TIME), pl.lit(f"lane-{lane}").alias(LANE), pl.lit(None, dtype=pl.String).alias(DEAD),
            )  # fmt: skip
            ArchiveWriter(str(root / "archive"), batch, (0, f"lane-{lane}"), "events").see(placed)
            batches = max(batches, batch)
    journal = Journal(record_files(str(root / "state")))
    journal.define({"generation": 0})
    journal.begin(batches, {"clock": 0, "generation": 0})
    journal.commit(Ledger(batch=batches), {"clock": 0})
    return pipeline


def defined(landing: Path, **more: Path) -> ev.Pipeline:
    source = ev.files(
        "events", str(landing), event_time="ts", arrival="at", lane="directory", watermark=ev.bounded("0 s"),
        schema="ts timestamp, at timestamp",
    )  # fmt: skip
    minutes = source.window(ev.tumbling("1 minute")).agg(n=ev.count())
    return ev.Pipeline("events", minutes.to("minutes", late=ev.drop()), **{name: str(path) for name, path in more.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--lanes", type=int, default=4)
    parser.add_argument("--of", choices=["archive", "landed"], default="archive", help="where the history lies")
    asked = parser.parse_args()
    spark = local_session()
    for rows in asked.rows:
        root = Path(tempfile.mkdtemp(prefix="tuning-"))
        pipeline = (archive if asked.of == "archive" else land)(rows, asked.lanes, root)
        start = time.perf_counter()
        with Memory() as memory:
            tuning = tune(pipeline, spark=spark)
        spent = time.perf_counter() - start
        chosen = tuning.point(tuning.bound, tuning.allowed)
        print(
            f"{rows:>12,} rows  {spent:7.1f} s  peak {memory.peak / 2**30:.2f} GiB  steps {len(tuning.answer.steps):,}  "
            f"bound {show_duration(tuning.bound)}, allowed {show_duration(tuning.allowed)}: {chosen.completeness:.3%}",
            flush=True,
        )
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
