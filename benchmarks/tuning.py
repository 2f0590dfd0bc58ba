"""`eventide tune` over many rows: seconds, and the peak memory of the driver, its JVM and all workers together.

    python benchmarks/tuning.py --rows 1000000 10000000 100000000

Four lanes of one-minute windows; delays are exponential with 0.9% long ones. Memory is the sum of what the process and its
children hold (PSS from /proc, so shared pages count once), sampled ten times a second while the job runs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path

os.environ.setdefault("PYSPARK_SUBMIT_ARGS", "--driver-memory 1g pyspark-shell")

import numpy as np
import polars as pl

import eventide as ev
from eventide.engine.session import local_session
from eventide.measure.tune import tune
from eventide.model.time import show_duration

SECOND = 1_000_000
PER_FILE = 1_000_000


def land(rows: int, lanes: int, root: Path) -> None:
    """Each lane a directory, each file a million rows, in order of arrival."""
    per_lane = rows // lanes
    for lane in range(lanes):
        rng = np.random.default_rng(lane)
        place = root / f"lane-{lane}"
        place.mkdir(parents=True)
        for start in range(0, per_lane, PER_FILE):
            number = min(PER_FILE, per_lane - start)
            arrival = (start + np.arange(number, dtype=np.int64)) * 2_000 + lane
            late = np.where(
                rng.random(number) < 0.009, rng.exponential(90 * SECOND, number), rng.exponential(3 * SECOND, number)
            )
            times = {"ts": arrival - late.astype(np.int64), "at": arrival}
            frame = pl.DataFrame(times).select(pl.all().cast(pl.Datetime("us", "UTC")))
            frame.write_parquet(place / f"{start // PER_FILE:06d}.parquet", compression="lz4")
            moment = 1_700_000_000 + start // PER_FILE
            os.utime(place / f"{start // PER_FILE:06d}.parquet", (moment, moment))


class Memory(threading.Thread):
    """The peak of a process tree."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak, self.ended = 0, False

    def run(self) -> None:
        while not self.ended:
            self.peak = max(self.peak, sum(held(pid) for pid in tree(os.getpid())))
            time.sleep(0.1)


def tree(root: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents.setdefault(int(stat.rsplit(")", 1)[1].split()[1]), []).append(int(entry.name))
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        found.append(pid)
        todo += parents.get(pid, [])
    return found


def held(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--lanes", type=int, default=4)
    asked = parser.parse_args()
    spark = local_session()
    for rows in asked.rows:
        root = Path(tempfile.mkdtemp(prefix="tuning-"))
        land(rows, asked.lanes, root)
        source = ev.files("events", str(root), event_time="ts", arrival="at", lane="directory", watermark=ev.bounded("0 s"))
        memory = Memory()
        memory.start()
        start = time.perf_counter()
        tuning = tune(source, ev.tumbling("1 minute"), spark=spark)
        spent = time.perf_counter() - start
        memory.ended = True
        memory.join()
        chosen = tuning.point(tuning.bound, tuning.allowed)
        print(
            f"{rows:>12,} rows  {spent:7.1f} s  peak {memory.peak / 2**30:.2f} GiB  steps {len(tuning.answer.steps):,}  "
            f"bound {show_duration(tuning.bound)}, allowed {show_duration(tuning.allowed)}: {chosen.completeness:.3%}",
            flush=True,
        )
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
